// Memory that ranks in other processes of this host can reach in place: what ecclMemAlloc gives out.
//
// There is one anonymous file per process, sparse, and larger than the machine's memory where the address
// space allows. So a peer is given it once, whatever is allocated later, and a place in it is named by its
// offset alone. Pages exist from when they are first touched until they are freed.
//
// The owner maps all of it. A peer maps its beginning, as far as it has been in use, and more when the owner
// has allocated more: address space is finite too, and a host may have hundreds of ranks.
#pragma once

#include <atomic>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>

#include "base/status.h"
#include "program/slot_ring.h"
#include "transport/core/ring_memory.h"
#include "transport/net/fd.h"

namespace eccl::transport {

/// The heap of this process. There is one, because ecclMemFree is given nothing but the pointer. Any thread;
/// forks are safe at any time. A forked child keeps what its parent had, shared with it as any such memory,
/// and gets a heap of its own for what it allocates itself.
class SharedHeap {
 public:
  /// Never destroyed.
  static SharedHeap& ofThisProcess();

  /// Zeroed, page-aligned memory of at least one page. Error (system): there is no heap, or not so much left
  /// of it in one piece. Not logged.
  Result<void*> allocate(size_t bytes);
  /// Gives back what allocate() gave; no message that refers to it is under way. Errors: invalidArgument if
  /// it did not come from there or is free already; system if the kernel does not take the pages back, and
  /// then it is free all the same. Not logged.
  Status free(void* pointer);

  /// What peers map. Makes the file on first use. Size 0: that has failed (logged); it is tried again with
  /// the next call.
  Window window();
  /// The file, to be passed to peers with window().size. It stays this object's. -1 where there is no window.
  int fd();
  /// Takes the pages of `length` bytes at `offset` of the window away from all peers for good: what a peer
  /// writes there from now on does not show here. Their content stays, and this process goes on using them,
  /// but no more directly with others. False: it could not be done; a refusal of the kernel is logged.
  bool withdraw(uint64_t offset, uint64_t length);
  /// How far from its beginning this process's heap is, or was, in use.
  static uint64_t used() { return used_.load(std::memory_order_relaxed); }

 private:
  SharedHeap();
  Status open();  // under the mutex
  void startAnew();

  std::mutex mutex_;
  Fd file_;
  RingMemory memory_;
  Window window_;
  Withdrawn withdrawn_;
  std::map<size_t, size_t> free_;  // offset → bytes; never adjacent
  std::map<size_t, size_t> given_;
  static inline std::atomic<uint64_t> used_{0};
};

/// A peer's heap as far as it is mapped here. A value; copies share the mapping, and so do all connections of
/// this process to that one. It stays mapped while any of them has it.
struct PeerHeap {
  RingMemory memory;
  Window window;
  std::pair<dev_t, ino_t> file{};
  uint64_t total = 0;            // bytes of the file
  uint64_t wanted = UINT64_MAX;  // was asked for; nothing more is where there is nothing

  /// Maps its beginning anew, at least `used` bytes if there are so many. What the former window showed stays
  /// where it was as long as somebody has it. Without the address space for it all stays as it is (logged).
  /// Does nothing where nothing is mapped.
  void extend(uint64_t used);
};
/// Maps at least the first `used` of the `bytes` of a peer's heap. `fd` came from the peer and stays the
/// caller's; size and seals are checked. Errors: mapShared()'s.
Result<PeerHeap> mapPeerHeap(int fd, uint64_t bytes, uint64_t used);

}  // namespace eccl::transport
