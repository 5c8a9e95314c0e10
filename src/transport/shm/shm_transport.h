// Processes of one host: a ring in memory that both map, and each other's ecclMemAlloc memory in place.
#pragma once

#include "transport/core/ring_memory.h"
#include "transport/core/transport.h"
#include "transport/shm/process_memory.h"

namespace eccl::transport {

extern const TransportEntry kShmTransport;

/// The rings of processes that share memory: they have room for messages that are spread.
constexpr RingShape shmRing(RingShape shape) {
  shape = withShortSlotsInMemory(shape);
  shape.room = kMostSlotSpread;
  return shape;
}

/// What is said when a connection is set up. Both nonces are also written into the memory, and read there by
/// the other side, which proves that it is shared. Each side gives the heap from which its user memory comes,
/// if it has one. It says how much of the other's heap it has mapped: so far references and offers may go.
/// Everything in these comes from another process and is checked.
struct ShmHeap {
  uint64_t bytes = 0;  // of the heap whose descriptor comes last; 0: none does
  uint64_t used = 0;   // from its beginning
};
struct ShmOffer {  // with ring, doorbell [, heap]
  uint64_t bytes = 0;
  Nonce nonce{};
  ShmHeap heap;
  ProcessMark process;  // for who reads plain memory
};
struct ShmAnswer {  // with doorbell [, heap]
  Nonce nonce{};
  ShmHeap heap;
  uint64_t mapped = 0;
};
struct ShmConfirmation {
  uint64_t mapped = 0;
};

}  // namespace eccl::transport
