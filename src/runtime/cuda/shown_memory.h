// Memory of ecclMemAlloc that ranks of two processes both reach.
//
//   a call may refer to a buffer in a block  → the other rank is shown the block (loans.h: a ticket)
//   its next call                            → it opens the block, and says so
//   our next call                            → our kernels may tell it of the block (lanes::Shown)
//
// None of this waits for the other rank: until it has come about, messages go by slots. Kernels look up in
// their GPU's memory which blocks these are, so those of graphs that were captured before find out, too.
#pragma once

#include <atomic>
#include <map>
#include <mutex>
#include <string_view>
#include <vector>

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
  /// Does what follows from what was heard since. Waits for the driver where that was a block. Error also
  /// (remote): it cannot be.
  Status goOn(const Meeting& meeting);
  /// Whether kernels of other processes may write to memory of this one's callers.
  bool isWritten() const { return written_.load(std::memory_order_relaxed); }
  /// No kernel uses a table any more.
  void giveBack();

 private:
  struct Heard {
    int from;
    Said what;
    uint64_t bytes;   // shown
    Ticket ticket;    // shown
    uint64_t blocks;  // opened: so many of those that were shown
  };
  struct Peer {
    Address table = 0;
    std::vector<Address> ours;  // that were shown
    uint64_t theirs = 0;        // that have been opened
    bool refused = false;       // one could not be: later ones are not tried
    bool shows = true;          // none of ours could not be
  };
  Result<Peer*> peer(int rank);
  Status open(const Heard& shown, const Meeting& meeting);
  Result<UserMemory::Block> find(const Heard& shown) const;
  Status opened(const Heard& heard);

  Gpu& gpu_;
  std::map<int, Peer> peers_;
  std::atomic<bool> written_{false}, any_{false};  // any_: something was heard
  std::mutex hearing_;                             // of what follows
  std::vector<Heard> heard_;
  std::map<int, uint32_t> told_;  // by rank: messages
};

}  // namespace eccl::runtime::cuda
