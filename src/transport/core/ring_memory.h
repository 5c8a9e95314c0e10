// Memory for rings and heaps: private to the process, or shared with others. Any thread may call the
// functions. Errors are not logged.
#pragma once

#include <array>
#include <cstddef>
#include <memory>

#include "base/status.h"
#include "program/slot_ring.h"
#include "transport/net/fd.h"

namespace eccl::transport {

using Nonce = std::array<uint8_t, 16>;

/// Between slots there is room for so much. Were it less, the processor would fetch what the receiver has of
/// the next slot, too: Broadcast of 256 B took 0.21 us instead of 0.16 with 512 B, and of 8 B 0.02 us more with
/// slots side by side (AMD EPYC, November 2026).
inline constexpr uint32_t kShortRoom = 1024;

/// Rings that both sides look at, and those whose credits are messages of their own (UCX), have more slots than
/// asked for, and place for short messages beside each: a sender that need not wait for releases does not take
/// turns with the receiver.
constexpr RingShape withShortSlots(RingShape shape, uint32_t shortBytes = kShortRoom) {
  constexpr uint32_t kShortOnes = 32;
  shape.shortBytes = shape.slotBytes < shortBytes ? shape.slotBytes : shortBytes;
  shape.gap = (shape.slotBytes < kShortRoom ? shape.slotBytes : kShortRoom) - shape.shortBytes;
  if (shape.slots > RingShape::kMostLimited) return shape;
  shape.longOnes = shape.slots;
  shape.slots = kShortOnes;
  return shape;
}

/// So much lies behind a slot in a ring that both sides look at. Two ranks that send to each other exchange
/// areas behind the ring for longer messages (program/exchange_areas.h), which pays from some cache lines of
/// data on: with 512 bytes here AllReduce of 384 and 512 B took 1.18 and 1.22 times as long, without a common
/// cache 1.36; Broadcast of 384 B, which goes one way, .87 and .72. With 128, AllReduce of 192 and 256 B
/// took 1.15 and 1.05 (AMD EPYC, family 25 model 17, 2026-11-30; perf/results/epyc-25-17/ways.md).
inline constexpr uint32_t kShortInMemory = 256;

/// Such a ring. What goes round in it stays in each side's first cache (32 KiB, or 48): where it does not, to
/// write a line again takes several times as long. 1 KiB behind the slots took 0.29 us for half a round trip,
/// in one place for all 0.21 (the same CPU, 2026-11-29). Long messages are to fit into the second cache, as
/// four of 256 KiB do: with eight, calls of 4 to 16 MiB took 1.08 times as long on average, streams of 1 MiB
/// .95 (2026-11-30; ways.md).
constexpr RingShape withShortSlotsInMemory(RingShape shape) {
  constexpr uint32_t kEnough = 8;  // of messages on their way, so that four may be heavy
  constexpr uint64_t kSecondCache = 1 << 20;
  shape = withShortSlots(shape, kShortInMemory);
  if (shape.longOnes >= kEnough && uint64_t{shape.longOnes} * shape.slotBytes > kSecondCache)
    shape.light = (shape.slotBytes / 2 + kCacheLine - 1) / kCacheLine * kCacheLine;
  shape.exchanges = true;
  return shape;
}

/// Behind the ring: what each side writes to prove that it sees the same memory as the other.
struct RingProof {
  Nonce sender, receiver;
};
inline constexpr size_t ringMemoryBytes(RingShape shape) {
  return shape.bytes() + sizeof(RingProof);
}
inline RingProof& proofIn(void* memory, RingShape shape) {
  return *reinterpret_cast<RingProof*>(static_cast<std::byte*>(memory) + shape.bytes());
}

/// Mapped pages, which the last reference unmaps. Zeroed, page-aligned; pages are backed when first touched.
using RingMemory = std::shared_ptr<void>;

/// For rings within this process. Error (system): there is no memory or address space.
Result<RingMemory> mapPrivate(size_t bytes);

/// An anonymous file of fixed size: it has no name anywhere, and vanishes with its last user however that
/// user ends.
struct SharedMemory {
  Fd fd;
  RingMemory memory;
};
/// Makes and maps one; `name` shows in /proc only. Error (system): there is no descriptor, memory or address
/// space.
Result<SharedMemory> createShared(const char* name, size_t bytes);

/// Maps what the peer created, after checking that it has the size agreed on and can never shrink: touching
/// pages of a file that was cut would end this process (SIGBUS). `fd` stays the caller's, and is not needed
/// for the mapping afterwards. Errors: remote if it is not such memory, system if it cannot be mapped.
Result<RingMemory> mapShared(int fd, size_t bytes);
/// The same, but maps only the first `first` bytes.
Result<RingMemory> mapShared(int fd, size_t bytes, size_t first);

}  // namespace eccl::transport
