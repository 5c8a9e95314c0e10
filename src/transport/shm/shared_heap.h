// Memory that ranks in other processes of this host can reach in place: what ecclMemAlloc gives out.
//
// One anonymous file per process, larger than the machine's memory and sparse: so a peer is given it once,
// whatever is allocated later, and a place in it is named by its offset alone. Pages exist from when they are
// first touched until they are freed. The owner maps all of it, a peer its beginning as far as it has been in
// use, and more when the owner has allocated more: address space is finite too, and a host may have hundreds of
// ranks.
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

/// One per process, because ecclMemFree is given nothing but the pointer. Any thread. A forked child keeps what
/// its parent had, shared with it as any such memory, and gets a heap of its own for what it allocates itself.
class SharedHeap {
 public:
  static SharedHeap& ofThisProcess();

  /// Zeroed, page-aligned; at least one page.
  Result<void*> allocate(size_t bytes);
  Status free(void* pointer);

  /// What peers map. Makes the file on first use; size 0 if that failed, which allocate() says why.
  Window window();
  /// To be passed to peers with window().size. -1 where there is no window.
  int fd();
  /// Takes the pages of `length` bytes at `offset` of the window away from all peers for good: what a peer
  /// writes there from now on does not show here. Their content stays, and this process goes on using them, but
  /// no more directly with others. False, with a line in the log: it could not be done.
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

/// A peer's heap as far as it is mapped here; kept while referred to, and shared by all connections to that
/// process.
struct PeerHeap {
  RingMemory memory;
  Window window;
  std::pair<dev_t, ino_t> file{};
  uint64_t total = 0;            // bytes of the file
  uint64_t wanted = UINT64_MAX;  // was asked for; nothing more is where there is nothing

  /// Maps its beginning anew, at least `used` bytes if there are so many. What the former window showed stays
  /// where it was as long as somebody has it. Without the address space for it all stays as it is (logged).
  void extend(uint64_t used);
};
/// `fd` came from the peer; size and seals are checked. Maps at least `used` of its `bytes`.
Result<PeerHeap> mapPeerHeap(int fd, uint64_t bytes, uint64_t used);

}  // namespace eccl::transport
