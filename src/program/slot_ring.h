// A Connection's data path: a ring of slots with one sender and one receiver, plain data in memory both can
// reach. One message fills one slot.
//
//   RingControl | PutOffer × 2 slots | (Slot header line, data area) × slots
//
// The sender's and the receiver's words lie on different cache lines. A message is published by storing its
// sequence number into its slot with release. The receiver acquires it there, so that a small message (inline
// in the header) costs one line. A slot is released by storing the count of released messages.
//
// Instead of data a slot may carry a reference to the sender's memory (rendezvous get). Conversely a receiver
// may offer its own memory for a message to come (rendezvous put): a sender that finds the offer writes there
// and marks the slot as placed. Both count from the beginning of a Window, which the other side may have
// mapped elsewhere.
//
// Messages have numbers of 64 bits, which are only compared for equality or by difference, so they may wrap.
// A slot holds message k when its word is k + 1.
//
// Data read here comes from another process and may be anything: peek() copies the header once, and faultOf()
// (program/move_ends.h) checks the copy.
//
// Owner: the Connection has the ends, its path the memory. Threads: one at a time for each end, the driver's;
// the two ends in different threads or processes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/atomics.h"

namespace eccl {

inline constexpr size_t kCacheLine = 64;
inline constexpr uint32_t kInlineBytes = 40;

enum SlotFlag : uint16_t {
  kSlotLast = 1,  // the last message of a stream
  kSlotGet = 2,   // the data is at `offset` in the sender's window
  kSlotPut = 4,   // the data is already where the receiver's offer said
};

/// The header of a message. Constant from when it is published until it is released.
struct alignas(kCacheLine) Slot {
  uint64_t sequence;
  uint32_t length;     // bytes
  uint32_t signature;  // of the call the message belongs to
  uint16_t flags, epoch;
  uint32_t area;  // where data too long for this line is; not always the one beside it
  union {
    std::byte inlineData[kInlineBytes];
    uint64_t offset;
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
  HeapNews receiverHeap;
  // Written by the receiver.
  alignas(kCacheLine) uint64_t released;
  uint32_t reading;  // so many moves of it look at memory that references named
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

/// Memory that references and offers count from, as this side has mapped it. Size 0: there is none.
struct Window {
  std::byte* base = nullptr;
  uint64_t size = 0;
  const Withdrawn* withdrawn = nullptr;  // null: nothing can be

  /// Whether all of these bytes are in the window and the other side can get at them. Any numbers may be
  /// asked for.
  ECCL_DEVICE bool holds(uint64_t offset, uint64_t length) const {
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
  uint32_t slots = 0;      // a power of two
  uint32_t slotBytes = 0;  // data per slot, a multiple of the cache line
  ECCL_DEVICE constexpr size_t stride() const { return sizeof(Slot) + slotBytes; }
  /// More than slots, so that a sender finds the offer for a message when it finds the slot for it free.
  ECCL_DEVICE constexpr uint32_t offers() const { return 2 * slots; }
  ECCL_DEVICE constexpr size_t offersAt() const { return sizeof(RingControl); }
  ECCL_DEVICE constexpr size_t slotsAt() const {
    return (offersAt() + offers() * sizeof(PutOffer) + kCacheLine - 1) / kCacheLine * kCacheLine;
  }
  ECCL_DEVICE constexpr size_t bytes() const { return slotsAt() + slots * stride(); }
};

/// What both ends have in common. Plain data; the memory that it points to is the path's.
struct RingEnd {
  RingControl* control = nullptr;
  PutOffer* offers = nullptr;
  std::byte* slots = nullptr;
  RingShape shape;
  uint64_t next = 0;   // messages this end has published, or taken
  uint64_t first = 0;  // where `next` began
  uint64_t bytes = 0;  // of the messages before `next`, however they were passed
  /// Messages from `next` on that belong to moves under way: their slots are reserved, or their data is read.
  uint32_t ahead = 0;
  uint32_t busy = 0;  // moves under way that use the other side's memory
  uint16_t epoch = 0;
  /// Messages of at least this many bytes may be references, or placed where the receiver wants them.
  uint32_t directFrom = UINT32_MAX;
  Window mine;    // this side's memory that the other can get at
  Window theirs;  // the other's

  /// The number of the message that the next move to come is about.
  ECCL_DEVICE uint64_t coming() const { return next + ahead; }
  ECCL_DEVICE Slot* slot(uint64_t message) const {
    return reinterpret_cast<Slot*>(slots + (message & (shape.slots - 1)) * shape.stride());
  }
  /// Writes the header of a message whose payload is where it belongs: the receiver finds it when it has come
  /// to it. Messages may be filled in any order.
  ECCL_DEVICE void fill(uint64_t message, uint32_t length, uint16_t flags, uint32_t signature,
                        uint16_t itsEpoch) {
    Slot* at = slot(message);
    at->length = length;
    at->flags = flags;
    at->signature = signature;
    at->epoch = itsEpoch;
    storeRelease(&at->sequence, message + 1);  // pairs with ReceiveEnd::peek
  }
  /// Where `length` bytes of data of a slot are. Whatever it says, that is within the ring.
  ECCL_DEVICE std::byte* dataOf(Slot& at, uint32_t length) const {
    return length <= kInlineBytes ? at.inlineData
                                  : slots + (at.area & (shape.slots - 1)) * shape.stride() + sizeof(Slot);
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
        reinterpret_cast<Slot*>(bytes + shape.slotsAt() + (message & (shape.slots - 1)) * shape.stride());
    slot->sequence = message + 1 - shape.slots;  // as if published one lap ago
  }
  for (uint32_t i = 0; i < shape.offers(); ++i)
    reinterpret_cast<PutOffer*>(bytes + shape.offersAt())[i].sequence = first;
}

/// Has `end` look at memory that formatRing() has prepared with the same shape and first number. Windows and
/// directFrom stay as they are.
inline void attachRing(RingEnd& end, void* memory, RingShape shape, uint64_t first, uint16_t epoch) {
  auto* bytes = static_cast<std::byte*>(memory);
  end.control = reinterpret_cast<RingControl*>(bytes);
  end.offers = reinterpret_cast<PutOffer*>(bytes + shape.offersAt());
  end.slots = bytes + shape.slotsAt();
  end.shape = shape;
  end.next = end.first = first;
  end.epoch = epoch;
}

/// The sender's end. For each message: reserve() until there is a slot, place() or offered() for where its
/// data goes, and publish().
struct SendEnd : RingEnd {
  uint64_t releasedSeen = 0;  // at least this many are released
  uint64_t lastGet = 0;       // one past the last message that was a reference, if any was
  bool anyGet = false;
  uint32_t lastArea = 0;  // areas are taken in turn, modulo their number
  uint32_t most = 0;      // messages on their way at once: as many as slots, or fewer (Path::limitAhead())

  /// The slot of the coming message, or nullptr while all are in use. Takes nothing: publish(), or `ahead`,
  /// does.
  ECCL_DEVICE Slot* reserve() {
    if (coming() - releasedSeen >= most) {
      releasedSeen = loadAcquire(&control->released);  // pairs with ReceiveEnd::release
      if (coming() - releasedSeen >= most) return nullptr;
    }
    return slot(coming());
  }

  /// Where `length` bytes of data of the reserved slot go; once for each message. When all before are released
  /// the first area is used again: it is in the caches, and the others' memory may never be touched.
  ECCL_DEVICE std::byte* place(uint32_t length) {
    Slot& at = *slot(coming());
    if (length > kInlineBytes) {
      if (releasedSeen != coming()) releasedSeen = loadAcquire(&control->released);
      at.area = releasedSeen == coming() ? 0 : lastArea + 1;
      lastArea = at.area;
    }
    return dataOf(at, length);
  }

  /// Publishes the oldest reserved slot; its payload or offset and window have been written.
  ECCL_DEVICE void publish(uint32_t length, uint16_t flags, uint32_t signature) {
    if ((flags & kSlotGet) != 0) {
      lastGet = next + 1;
      anyGet = true;
    }
    bytes += length;
    const uint64_t message = next++;
    fill(message, length, flags, signature, epoch);
  }

  /// True when no message refers to this side's memory any more.
  ECCL_DEVICE bool getsReleased() { return !anyGet || released(lastGet); }
  /// Whether messages before number `end` have been released.
  ECCL_DEVICE bool released(uint64_t end) {
    if (static_cast<int64_t>(releasedSeen - end) >= 0) return true;
    releasedSeen = loadAcquire(&control->released);
    return static_cast<int64_t>(releasedSeen - end) >= 0;
  }
  /// Whether `length` bytes from `memory` on can be sent as a reference; *offset: for the slot.
  ECCL_DEVICE bool reaches(const std::byte* memory, uint32_t length, uint64_t* offset) const {
    *offset = mine.offsetOf(memory);
    return length >= directFrom && mine.holds(*offset, length);
  }
  /// Where the receiver wants the coming message, of `length` bytes; nullptr: in a slot.
  ECCL_DEVICE std::byte* offered(uint32_t length) const {
    const PutOffer& at = offers[coming() & (shape.offers() - 1)];
    // Pairs with ReceiveEnd::offer.
    if (theirs.size == 0 || length < directFrom || loadAcquire(&at.sequence) != coming() + 1) return nullptr;
    const uint64_t offset = at.offset;  // read once: the receiver's memory may change under us
    return at.length == length && theirs.holds(offset, length) ? theirs.at(offset) : nullptr;
  }
  /// Whether the coming message, of `length` bytes, could be offered a place and the receiver has said nothing
  /// yet.
  ECCL_DEVICE bool mayBeOffered(uint32_t length) const {
    return theirs.size > 0 && length >= directFrom &&
           loadAcquire(&offers[coming() & (shape.offers() - 1)].sequence) != coming() + 1;
  }
  /// Brackets writing to offered memory, for each move. True: it is waited for until endWriting(). False: the
  /// receiver has failed and takes its offers back; there is nothing to end.
  ECCL_DEVICE bool beginWriting() {
    storeFenced(&control->writing, ++busy);
    if (loadFenced(&control->receiverPoison) == 0) return true;
    endWriting();  // the receiver waits for it
    return false;
  }
  ECCL_DEVICE void endWriting() { storeRelease(&control->writing, busy -= busy > 0); }
  ECCL_DEVICE bool poisoned() const { return loadRelaxed(&control->receiverPoison) != 0; }
  /// How many published messages the receiver has not released. *final: it never will, as it has ended or
  /// failed.
  ECCL_DEVICE uint64_t untaken(bool* final) const {
    // Before `released`, which was written first. Pairs with ReceiveEnd::end().
    *final = loadAcquire(&control->receiverEnded) != 0 || loadAcquire(&control->receiverPoison) != 0;
    return next - loadAcquire(&control->released);
  }
};

inline void attachRing(SendEnd& end, void* memory, RingShape shape, uint64_t first, uint16_t epoch) {
  attachRing(static_cast<RingEnd&>(end), memory, shape, first, epoch);
  end.releasedSeen = first;
  end.most = shape.slots;
}

/// A header as peek() found it. A copy, but for the data it points to: that is valid until release().
struct Received {
  const std::byte* data;  // in the slot; meaningless for references and placed messages
  uint64_t offset;
  uint32_t length, signature;
  uint16_t flags, epoch;
};

/// The receiver's end. For each message: peek() until it is there, use its data, and release(). Memory for
/// messages to come may be offered before by offer().
struct ReceiveEnd : RingEnd {
  uint64_t considered = 0;  // messages before this one have been considered for an offer

  /// Copies the coming message's header. False while there is none.
  ECCL_DEVICE bool peek(Received& received) const {
    Slot* at = slot(coming());
    if (loadAcquire(&at->sequence) != coming() + 1) return false;  // pairs with SendEnd::publish
    received.length = at->length;
    received.signature = at->signature;
    received.flags = at->flags;
    received.epoch = at->epoch;
    received.offset = at->offset;
    received.data = dataOf(*at, received.length);
    return true;
  }

  /// Returns the slot of the oldest message peeked at.
  ECCL_DEVICE void release() {
    bytes += slot(next)->length;
    ++next;
    storeRelease(&control->released, next);  // pairs with SendEnd::reserve
  }

  /// Tells the sender that nothing more will be taken. After the last release().
  ECCL_DEVICE void end() { storeRelease(&control->receiverEnded, 1u); }

  /// The number of the next message to be considered for an offer; it is, thereby.
  ECCL_DEVICE uint64_t consider() {
    const uint64_t message = considered > next ? considered : next;
    considered = message + 1;
    return message;
  }
  /// Whether there is room for an offer for message number `message`.
  ECCL_DEVICE bool mayOffer(uint64_t message) const { return message - next < shape.offers(); }

  /// Offers `length` bytes from `memory` on for message number `message`, less than shape.offers() ahead. Valid
  /// until that message is released. Where the other side cannot get at it, it is told to use a slot.
  ECCL_DEVICE void offer(uint64_t message, const std::byte* memory, uint32_t length) {
    if (length < directFrom || mine.size == 0) return;
    const uint64_t offset = mine.offsetOf(memory);
    PutOffer& at = offers[message & (shape.offers() - 1)];
    at.offset = offset;
    at.length = mine.holds(offset, length) ? length : 0;
    storeRelease(&at.sequence, message + 1);  // pairs with SendEnd::offered and the paths' look at it
  }
  /// Whether the coming message has been offered memory, and the offer stands.
  ECCL_DEVICE bool offered() const {
    const PutOffer& at = offers[coming() & (shape.offers() - 1)];
    return answered() && at.length > 0 && mine.holds(at.offset, at.length);
  }
  /// Whether offer() has been called for it.
  ECCL_DEVICE bool answered() const { return offers[coming() & (shape.offers() - 1)].sequence == coming() + 1; }

  /// Brackets every use of referenced memory, for each move. False: the sender has revoked its references,
  /// and there is nothing to end. If it does so meanwhile, endReading() is false: what was read may be
  /// anything.
  ECCL_DEVICE bool beginReading() {
    storeFenced(&control->reading, ++busy);
    if (loadFenced(&control->senderPoison) == 0) return true;
    endReading();  // the sender waits for it
    return false;
  }
  ECCL_DEVICE bool endReading() {
    acquireFence();  // what was read was read before the poison is looked at
    const bool intact = !poisoned();
    storeRelease(&control->reading, busy -= busy > 0);
    return intact;
  }
  ECCL_DEVICE bool poisoned() const { return loadRelaxed(&control->senderPoison) != 0; }
};

}  // namespace eccl
