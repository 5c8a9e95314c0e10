// What lies in the memory of a ring of slots (program/slot_ring.h):
//
//   RingControl | PutOffer × 2 slots | (Slot | short data) × slots | data | exchanged areas
//
// The sender's and the receiver's words lie on different cache lines. Data too long for a slot's own line lies
// behind that line if it is short, where the processor fetches it with the line; that of long messages is
// elsewhere in the ring, one message behind the other, where the sender puts it (program/data_places.h), or in
// an area that goes to and fro between two ranks (program/exchange_areas.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/atomics.h"
#include "program/exchange_areas.h"

namespace eccl {

inline constexpr uint32_t kInlineBytes = 40;

/// Messages of at least so many bytes are spread over the ring (DataPlaces::spread). Shorter ones took as long,
/// or longer, if they were spread (AMD EPYC, November 2026).
inline constexpr uint32_t kSpreadFrom = 4096;

/// Data of messages of kSpreadFrom and more begins at multiples of this, so that it lies in its page as most
/// buffers do. A copy to a place a little further on in its page than its source waits: the
/// processor takes what it reads for what it is about to write, by the lower bits of the addresses. AllReduce
/// of 4 and 6 KiB took .95 and .83 of the time, half a round trip .91 and .85 (AMD EPYC, family 25 model 17,
/// November 2026; perf/results/epyc-25-17/ways.md).
inline constexpr uint32_t kDataPage = 4096;

enum SlotFlag : uint16_t {
  kSlotLast = 1,      // the last message of a stream
  kSlotGet = 2,       // the data is at `offset` in the sender's window, or process (kInProcess)
  kSlotPut = 4,       // the data is already where the receiver's offer said
  kSlotStreamed = 8,  // the data was written past the caches
  kSlotGrowing = 16,  // the data is being written: so far Slot::sent.grown bytes are there
  kSlotChosen = 32,   // the receiver could have had it read, or written where it wants it: MessageKind::shown
};

/// Messages that have different ways (program/way_choice.h).
enum class MessageKind : uint8_t {
  plain,   // memory that one side does not see: by a slot, or read by the kernel
  shown,   // the receiver sees it, and the sender sees where it is wanted
  placed,  // only the latter: what is sent is made as it is sent
};
inline constexpr int kMessageKinds = 3;

/// Which ways a receiver wants messages of a kind to go, a bit for each class of size: WayChoice.
struct WantedWays {
  uint32_t read, streamed;
};

/// In the offset of a reference: the rest is an address in the sender's process (program/remote_reads.h).
inline constexpr uint64_t kInProcess = uint64_t{1} << 63;

/// In Slot::area: the rest is the number of an area, as the sender sees it (ExchangeAreas).
inline constexpr uint32_t kInArea = uint32_t{1} << 31;

/// The header of a message. Constant from when it is published until it is released, but for what says how a
/// growing message fares.
struct alignas(kCacheLine) Slot {
  uint64_t sequence;
  uint32_t length;     // bytes
  uint32_t signature;  // of the call the message belongs to
  uint16_t flags, epoch;
  uint32_t area;  // where the data of a long message is: cache lines from where data begins, or kInArea
  union {
    std::byte inlineData[kInlineBytes];
    uint64_t offset;  // of a reference
    struct {
      union {
        uint64_t offset;
        uint64_t grown;  // bytes, of a growing message
      };
      uint64_t begun, done;  // when the sender was about to copy or to refer, by ticks(); done 0: not known
    } sent;                  // what is not in this line
  };
};
static_assert(sizeof(Slot) == kCacheLine);

/// Where the receiver wants message number `sequence` - 1: at `offset` in its window. Length 0: in a slot.
struct alignas(32) PutOffer {
  uint64_t sequence, offset;
  uint32_t length;
};

/// What a side says of user memory after the connection was set up; both only grow.
struct HeapNews {
  uint64_t used;    // bytes of its own heap in use: so many the other side should map
  uint64_t mapped;  // bytes of the other side's heap that it has mapped: so far references and offers may go
};

/// What a side writes with each message lies apart from what it writes rarely and the other reads with each
/// message: else every look would fetch a line that was just written.
struct RingControl {
  // Written by the sender, rarely.
  alignas(kCacheLine) uint32_t senderAsleep;  // ring its doorbell when a slot is released
  uint32_t senderPoison;                      // not 0: the sender has failed; nothing more will come
  uint32_t senderProcessor;  // where it was when it last waited (processorHere()); 0: not known
  HeapNews senderHeap;
  // Written by the sender.
  alignas(kCacheLine) uint32_t writing;  // so many moves of it write to memory that offers named
  // Written by the receiver, rarely.
  alignas(kCacheLine) uint32_t receiverAsleep;  // ring its doorbell when a message is published
  uint32_t receiverPoison;                      // not 0: the receiver has failed; nothing more will be taken
  uint32_t receiverEnded;                       // not 0: nothing more will be taken, and `released` is final
  uint32_t receiverProcessor;                   // as senderProcessor
  WantedWays receiverWants[kMessageKinds];
  uint32_t receiverTries;  // of plain messages, those that are read for a trial: WayChoice::triesToRead()
  HeapNews receiverHeap;
  // Written by the receiver.
  alignas(kCacheLine) uint64_t released;
  uint32_t reading;  // so many moves of it look at memory that references named

  /// Whether the receiver wants that of messages of a kind and a class of size.
  ECCL_DEVICE bool wants(MessageKind kind, uint32_t WantedWays::*way, int sizeClass) const {
    return (loadRelaxed(&(receiverWants[static_cast<int>(kind)].*way)) >> sizeClass & 1) != 0;
  }
};

/// Parts of a window that others cannot get at any more, though the window stands: see SharedHeap::withdraw.
struct Withdrawn {
  struct Range {
    uint64_t begin, end;
  };
  static constexpr uint32_t kKept = 64;
  uint32_t count = 0;  // more than are kept: the whole window
  Range ranges[kKept] = {};

  /// Whether any of these bytes is withdrawn. Any thread.
  ECCL_DEVICE bool touches(uint64_t offset, uint64_t length) const {
    const uint32_t known = loadAcquire(&count);  // pairs with SharedHeap::withdraw
    if (known > kKept) return true;
    for (uint32_t i = 0; i < known; ++i) {
      if (offset < ranges[i].end && ranges[i].begin < offset + length) return true;
    }
    return false;
  }
};

/// Which memory of this process a device can get at, by address. Any thread.
class Reachable {
 public:
  virtual ~Reachable() = default;
  virtual bool holds(uint64_t address, uint64_t length) const = 0;
};

/// Memory that references and offers count from, as this side has mapped it. Size 0: there is none.
struct Window {
  std::byte* base = nullptr;
  uint64_t size = 0;
  const Withdrawn* withdrawn = nullptr;  // null: nothing can be
  const Reachable* reachable = nullptr;  // what of the address space; null: all of it

  /// Whether all of these bytes are in the window and the other side can get at them. Any numbers may be
  /// asked for.
  ECCL_DEVICE bool holds(uint64_t offset, uint64_t length) const {
#if !defined(__CUDA_ARCH__)  // what is mapped to a device has none
    if (reachable != nullptr && !reachable->holds(offset, length)) return false;
#endif
    return length <= size && offset <= size - length &&
           (withdrawn == nullptr || !withdrawn->touches(offset, length));
  }
  // By numbers: base may be null, from which nothing can be counted.
  ECCL_DEVICE uint64_t offsetOf(const std::byte* memory) const {
    return reinterpret_cast<uintptr_t>(memory) - reinterpret_cast<uintptr_t>(base);
  }
  ECCL_DEVICE std::byte* at(uint64_t offset) const {
    return reinterpret_cast<std::byte*>(reinterpret_cast<uintptr_t>(base) + offset);
  }
};
/// All of this address space, by address. For threads of one process, and for paths that read and write
/// memory on this side's behalf.
inline constexpr Window kOwnAddressSpace{nullptr, UINT64_MAX};

/// How large a ring is, and where its parts lie. The same on both sides.
struct RingShape {
  uint32_t slots = 0;       // a power of two
  uint32_t slotBytes = 0;   // most data of a message, a multiple of the cache line
  uint64_t room = 0;        // for data there is at least so much; no less than what is needed
  uint32_t shortBytes = 0;  // so much data has its place behind its slot, a multiple of the cache line
  uint32_t longOnes = 0;    // so many messages may be longer at once, kMostLimited at most; 0: all
  uint32_t gap = 0;         // bytes between short data and the next slot, a multiple of the cache line
  /// Messages with more data in the ring count for two of longOnes. At least half of slotBytes, a multiple of
  /// the cache line; 0: none do.
  uint32_t light = 0;
  bool exchanges = false;  // there are ExchangeAreas::kEach areas of slotBytes
  static constexpr uint32_t kMostLimited = 32;
  /// More than slots, so that a sender finds the offer for a message when it finds the slot for it free.
  ECCL_DEVICE constexpr uint32_t offers() const { return 2 * slots; }
  ECCL_DEVICE constexpr size_t offersAt() const { return sizeof(RingControl); }
  ECCL_DEVICE constexpr size_t slotsAt() const {
    return (offersAt() + offers() * sizeof(PutOffer) + kCacheLine - 1) / kCacheLine * kCacheLine;
  }
  ECCL_DEVICE constexpr size_t slotStride() const { return sizeof(Slot) + shortBytes + gap; }
  ECCL_DEVICE constexpr size_t dataAt() const { return wholePages(slotsAt() + slots * slotStride()); }
  /// Whether so much data is neither in the slot nor right behind it.
  ECCL_DEVICE constexpr bool isLong(uint32_t length) const {
    return length > shortBytes && length > kInlineBytes;
  }
  /// So many messages may be longer than shortBytes at once.
  ECCL_DEVICE constexpr uint32_t mostLong() const { return longOnes > 0 ? longOnes : slots; }
  /// Of mostLong(), what a message with `length` bytes of data in the ring counts for.
  ECCL_DEVICE constexpr uint32_t weightOf(uint32_t length) const { return light > 0 && length > light ? 2 : 1; }
  /// So many of the longest.
  ECCL_DEVICE constexpr uint32_t mostHeavy() const { return mostLong() / weightOf(slotBytes); }
  /// What all long messages together may hold, with what lies between them where they begin at a page. Two
  /// pages at least: a shorter message may lie in the one before, of which a part only is its own.
  ECCL_DEVICE constexpr uint64_t neededLines() const {
    uint64_t each = light > 0 ? light : slotBytes;
    if (slotBytes >= kSpreadFrom) {
      each = wholePages(each);
      if (each < 2 * kDataPage) each = 2 * kDataPage;
    }
    return mostLong() * (each / kCacheLine);
  }
  /// A power of two: within so much data begins. The last message may end behind it.
  ECCL_DEVICE constexpr uint64_t areaLines() const {
    uint64_t lines = 1;
    while (lines < neededLines() || lines * kCacheLine < room) lines *= 2;
    return lines;
  }
  ECCL_DEVICE constexpr size_t dataEnd() const { return dataAt() + areaLines() * kCacheLine + slotBytes; }
  /// Areas begin at pages.
  ECCL_DEVICE constexpr size_t exchangeAt() const { return wholePages(dataEnd()); }
  ECCL_DEVICE constexpr size_t areaStride() const { return wholePages(slotBytes); }
  ECCL_DEVICE constexpr size_t bytes() const {
    return exchanges ? exchangeAt() + ExchangeAreas::kEach * areaStride() : dataEnd();
  }
  ECCL_DEVICE static constexpr size_t wholePages(size_t bytes) {
    return (bytes + kDataPage - 1) / kDataPage * kDataPage;
  }
};

/// Prepares zeroed memory of shape.bytes(), aligned to a cache line. Messages are numbered from `first`.
/// Once, before the other side sees the memory.
inline void formatRing(void* memory, RingShape shape, uint64_t first) {
  auto* bytes = static_cast<std::byte*>(memory);
  reinterpret_cast<RingControl*>(bytes)->released = first;
  for (uint32_t i = 0; i < shape.slots; ++i) {
    uint64_t message = first + i;
    auto* slot =
        reinterpret_cast<Slot*>(bytes + shape.slotsAt() + (message & (shape.slots - 1)) * shape.slotStride());
    slot->sequence = message + 1 - shape.slots;  // as if published one lap ago
  }
  for (uint32_t i = 0; i < shape.offers(); ++i)
    reinterpret_cast<PutOffer*>(bytes + shape.offersAt())[i].sequence = first - 1;  // of no message
}

}  // namespace eccl
