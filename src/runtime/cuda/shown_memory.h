// Memory of ecclMemAlloc that ranks of two processes both reach.
//
//   a call may refer to a buffer in a block  → the other rank is shown the block (loans.h: a ticket)
//   its next call                            → it opens the block, and says so
//   our next call                            → our kernels may tell it of the block (lanes::Shown)
//
// And when the block was freed:
//
//   our next call                            → our kernels do not find it any more; it is taken back
//   the other one's next call                → it closes the block, and says so: its number is free
//
// None of this waits for the other rank, but for a descriptor: until it has come about, messages go by slots.
// Kernels look up in their GPU's memory which blocks these are, so those of graphs that were captured before
// find out, too.
#pragma once

#include <array>
#include <string_view>

#include "runtime/cuda/lanes/block_program.h"
#include "runtime/cuda/said.h"
#include "runtime/cuda/user_memory.h"
#include "runtime/executor/executor.h"

namespace eccl::runtime::cuda {

/// Of one rank, on that GPU. Owner: what goes from one of its kernels to the next. Any thread; all but hear()
/// and isWritten() under the executor's lock, with the GPU's context current. Errors (device): a driver's call
/// failed.
class ShownMemory {
 public:
  explicit ShownMemory(Gpu& gpu) : gpu_(gpu) {}

  /// What kernels look at, for messages with a rank of another process.
  Result<const lanes::Shown*> table(int peer);
  /// A call may tell the rank of memory in the block. Asks the driver if that is new.
  Status show(int peer, const UserMemory::Block& block, const Meeting& meeting);
  /// What another rank has told. Error (remote): it is no such message.
  Status hear(int from, std::string_view message);
  /// Does what follows from what was freed and heard since. Waits for the driver where that was a block, and
  /// for the other rank's descriptor. Error also (remote): it cannot be.
  Status goOn(const Meeting& meeting);
  /// Whether kernels of other processes may write to memory of this one's callers.
  bool isWritten() const { return written_.load(std::memory_order_relaxed); }
  /// No kernel uses a table, or a block of another process, any more.
  void giveBack();
  /// Instead: some kernel may.
  void keep();

 private:
  static constexpr uint32_t kMost = lanes::Shown::kMost;
  struct Heard {
    int from;
    Said what;
    uint32_t number;  // of a block
    uint64_t bytes;   // shown
    Ticket ticket;    // shown
  };
  /// A block of ours that was shown.
  struct Ours {
    enum { none, shown, opened, taken } state = none;
    UserMemory::Block block;
  };
  /// One of theirs.
  struct Theirs {
    enum { none, refused, opened } state = none;
    std::shared_ptr<MappedBlock> mapped;  // by descriptor
  };
  struct Peer {
    Address table = 0;
    std::array<Ours, kMost> ours;
    std::array<Theirs, kMost> theirs;
    uint32_t most = 0;  // no more of ours have been opened
    // By way: one of theirs could not be opened, and one of ours not be shown. Later ones are not tried.
    bool refused[std::size(kWaysToLend)] = {}, hidden[std::size(kWaysToLend)] = {};
    Address entry(size_t list, uint32_t number) const { return table + list + number * sizeof(uint64_t); }
  };
  Result<Peer*> peer(int rank);
  Status takeBack(const Meeting& meeting);
  Status goOn(const Heard& heard, const Meeting& meeting);
  Status open(Peer& peer, const Heard& shown, const Meeting& meeting);
  Result<UserMemory::Block> find(const Heard& shown, const Meeting& meeting) const;
  Status nowOpened(Peer& peer, uint32_t number);
  Status close(Peer& peer, uint32_t number);

  Gpu& gpu_;
  std::map<int, Peer> peers_;
  uint64_t frees_ = 0;                             // as UserMemory said last
  std::atomic<bool> written_{false}, any_{false};  // any_: something was heard
  std::mutex hearing_;                             // of what follows
  std::vector<Heard> heard_;
  std::map<int, uint32_t> waiting_;  // by rank: messages in heard_
};

}  // namespace eccl::runtime::cuda
