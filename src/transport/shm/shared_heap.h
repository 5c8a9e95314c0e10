// Memory that ranks in other processes of this host can reach in place: what ecclMemAlloc gives out.
//
// One anonymous file per process, larger than the machine's memory and sparse, mapped once on either side: so a
// peer is given it once, whatever is allocated later, and a place in it is named by its offset alone. Pages
// exist from when they are first touched until they are freed.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>

#include "base/slot_ring.h"
#include "base/status.h"
#include "transport/net/fd.h"
#include "transport/shm/ring_memory.h"

namespace eccl {

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
  std::map<size_t, size_t> used_;
};

/// A peer's heap as mapped here; kept while referred to, and shared by all connections to that process.
struct PeerHeap {
  RingMemory memory;
  Window window;
};
/// `fd` came from the peer; size and seals are checked.
Result<PeerHeap> mapPeerHeap(int fd, uint64_t bytes);

}  // namespace eccl
