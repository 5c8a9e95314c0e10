// Memory of ecclMemAlloc that ranks of two processes both reach.
//
//   a call has a buffer in a block  → the other rank is offered the block (loans.h: a ticket)
//   its next call                   → it opens the block, and says so
//   our next call                   → our kernels may tell it of the block (lanes::Reach)
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
#include "runtime/cuda/user_memory.h"
#include "runtime/executor/executor.h"

namespace eccl::runtime::cuda {

/// The first byte of what LaneExecutors tell each other.
enum class Said : uint8_t { ring = 1, block = 2, opened = 3 };

/// Of one rank, on that GPU. Owner: what goes from one of its kernels to the next. Any thread; all but hear()
/// and isReached() under the executor's lock, with the GPU's context current. Errors (device): a driver's call
/// failed.
class ReachedMemory {
 public:
  explicit ReachedMemory(Gpu& gpu) : gpu_(gpu) {}

  /// What kernels look at, for messages with a rank of another process.
  Result<const lanes::Reach*> table(int peer);
  /// A call has a buffer in the block, and messages with the rank.
  Status offer(int peer, const UserMemory::Block& block, const Meeting& meeting);
  /// What another rank has told. Error (remote): it is no such message.
  Status hear(int from, std::string_view message);
  /// Does what follows from what was heard since. Error also (remote): that cannot be.
  Status goOn(const Meeting& meeting);
  /// Whether kernels of other processes may write to memory of this one's callers.
  bool isReached() const { return reached_.load(std::memory_order_relaxed); }
  /// No kernel uses a table any more.
  void giveBack();

 private:
  struct Heard {
    int from;
    Said what;
    uint64_t number;  // of block: its bytes; of opened: so many of those that were offered
    Ticket ticket;    // of block
  };
  struct Peer {
    Address table = 0;
    std::vector<UserMemory::Block> ours;  // that were offered
    uint64_t theirs = 0;                  // that have been opened
    bool refused = false;                 // one could not be: later ones are not tried
  };
  Result<Peer*> peer(int rank);
  Status open(const Heard& heard, const Meeting& meeting);
  Status reachable(const Heard& heard);
  Status add(const Peer& peer, bool own, uint64_t number, const UserMemory::Block& block);
  Status count(const Peer& peer, bool own, uint64_t blocks);

  Gpu& gpu_;
  std::map<int, Peer> peers_;
  std::atomic<bool> reached_{false}, any_{false};  // any_: something was heard
  std::mutex hearing_;                             // of what follows
  std::vector<Heard> heard_;
  std::map<int, uint32_t> told_;  // by rank: messages
};

}  // namespace eccl::runtime::cuda
