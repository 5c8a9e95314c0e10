// The sender's end of a ring of slots (program/slot_ring.h).
#pragma once

#include "program/data_places.h"
#include "program/ring_end.h"
#include "program/way_choice.h"

namespace eccl {

/// The sender's end. For each message: reserve() until there is a slot, place() or offered() for where its
/// data goes, and publish(), or grow() and finish().
struct SendEnd : RingEnd {
  uint64_t releasedSeen = 0;  // at least this many are released
  uint64_t lastGet = 0;       // one past the last message that was a reference, if any was
  bool anyGet = false;
  DataPlaces places;      // of long messages
  uint64_t longSent = 0;  // what the long messages that were published count for
  /// Their numbers, the last ones, of a heavy one twice; by RingShape::longOnes no more have to be known.
  uint64_t longAt[RingShape::kMostLimited];
  uint32_t most = 0;  // messages on their way at once: as many as slots, or fewer (Path::limitAhead())
  /// Whether other processes can read the mapping of this one that `memory` is in by the kernel. Asked where
  /// the receiver wants to. Null: it does not. For the host.
  bool (*legible)(const std::byte* memory) = nullptr;
  bool weighed = false;    // the receiver is told how long some messages took, to choose their ways
  bool mayStream = false;  // it may have them written past the caches
  bool mayGrow = false;    // nobody but the receiver looks into the ring: messages may grow there
  /// Of so many short messages one is timed. Calls repeat, so these are not at equal distances: each kind of
  /// message gets its turn.
  static constexpr uint32_t kTimedOf = 5;

  /// The slot of the coming message, of `length` bytes or of any length, or nullptr while all are in use. Takes
  /// nothing: publish(), or `ahead`, does.
  ECCL_DEVICE Slot* reserve(uint32_t length = UINT32_MAX) {
    if (coming() - releasedSeen >= most) {
      releasedSeen = loadAcquire(&control->released);  // pairs with ReceiveEnd::release
      if (coming() - releasedSeen >= most) return nullptr;
    }
    if (length > shape.shortBytes && shape.longOnes > 0 && !hasLongRoom(length)) return nullptr;
    return slot(coming());
  }
  /// Whether one more long message may be on its way. Those of moves under way may all be heavy, and this one
  /// may be placed.
  ECCL_DEVICE bool hasLongRoom(uint32_t length) {
    const uint32_t taken = ahead * shape.weightOf(shape.slotBytes) + shape.weightOf(length) - 1;
    if (taken >= shape.longOnes) return false;
    const uint64_t others = shape.longOnes - taken;
    return longSent < others || released(longAt[(longSent - others) % RingShape::kMostLimited] + 1);
  }

  /// Where `length` bytes of data of the reserved slot go; once for each message.
  ECCL_DEVICE std::byte* place(uint32_t length) {
    Slot& at = *slot(coming());
    if (length > kInlineBytes) at.sent.done = 0;
    if (!shape.isLong(length)) return dataOf(at, length);
    if (exchange != nullptr) {
      if (const uint32_t area = exchange->give(); area != ExchangeAreas::kNone) {
        at.area = kInArea | area;
        return exchange->at(area);
      }
    }
    const uint64_t line = places.take(length, shape.neededLines(), [this] { return released(coming()); });
    at.area = static_cast<uint32_t>(line);
    return data + line * kCacheLine;
  }

  /// Publishes the oldest reserved slot; its payload or offset and window have been written.
  ECCL_DEVICE void publish(uint32_t length, uint16_t flags, uint32_t signature) {
    if ((flags & kSlotGet) != 0) {
      lastGet = next + 1;
      anyGet = true;
    }
    fill(count(length, (flags & (kSlotGet | kSlotPut)) == 0), length, flags, signature, epoch);
  }
  /// Instead, for a message whose data is not there yet: its slot is reserved, and its data has been given a
  /// place. Nothing of it is counted before finish().
  ECCL_DEVICE void grow(uint32_t length, uint16_t flags, uint32_t signature) {
    slot(next)->sent.grown = 0;
    fill(next, length, flags | kSlotGrowing, signature, epoch);
  }
  /// So much of it is there, less than all.
  ECCL_DEVICE void grown(uint32_t to) {
    storeRelease(&slot(next)->sent.grown, uint64_t{to});  // pairs with ReceiveEnd::grownTo
  }
  ECCL_DEVICE void finish(uint32_t length) {
    Slot& at = *slot(next);
    count(length, true);
    storeRelease(&at.sent.grown, uint64_t{length});
  }
  /// The number of the oldest reserved message, which has `length` bytes: it is published, or about to be.
  ECCL_DEVICE uint64_t count(uint32_t length, bool placed) {
    bytes += length;
    const uint64_t message = next++;
    if (length > shape.shortBytes) {
      for (uint32_t i = placed ? shape.weightOf(length) : 1; i > 0; --i)
        longAt[longSent++ % RingShape::kMostLimited] = message;
    }
    return message;
  }
  /// Has the memory of the next message, if that is as short as this one, come to this core: to write it then
  /// takes no turn. Not the header, at which the receiver looks meanwhile. Worth it where more is about to be
  /// sent; where an answer is waited for, it took longer (256 B on an AMD EPYC, November 2026: Broadcast 0.16
  /// us instead of 0.21, half a round trip 0.20 instead of 0.18).
  void takeNext(uint32_t length) const {
#if defined(__x86_64__)
    if (length <= kInlineBytes || length > shape.shortBytes) return;
    const auto* at = reinterpret_cast<const std::byte*>(slot(next) + 1);
    for (uint32_t line = 0; line < length; line += kCacheLine) asm volatile("prefetchw %0" ::"m"(at[line]));
#endif
  }

  /// True when no message refers to this side's memory any more.
  ECCL_DEVICE bool getsReleased() {
    return !anyGet || released(lastGet);
  }
  /// Whether messages before number `end` have been released.
  ECCL_DEVICE bool released(uint64_t end) {
    if (static_cast<int64_t>(releasedSeen - end) >= 0) return true;
    releasedSeen = loadAcquire(&control->released);
    return static_cast<int64_t>(releasedSeen - end) >= 0;
  }
  /// Bytes from which memory is named or written directly at the moment. What the receiver wants to have read
  /// by the kernel is read.
  ECCL_DEVICE uint32_t directFromNow([[maybe_unused]] uint32_t length) {
    if (!isExchanging() || directFrom >= kDirectFromExchanged) return directFrom;
#if !defined(__CUDA_ARCH__)
    if (isToBeRead(length)) return directFrom;
#endif
    return kDirectFromExchanged;
  }
  /// Whether the next long message goes in an area that is exchanged.
  ECCL_DEVICE bool isExchanging() const {
    return exchange != nullptr && exchange->gives();
  }
  /// Whether `length` bytes from `memory` on can be sent as a reference; *offset: for the slot.
  ECCL_DEVICE bool reaches(const std::byte* memory, uint32_t length, uint64_t* offset) const {
    *offset = mine.offsetOf(memory);
    return length >= directFrom && mine.holds(*offset, length);
  }
  /// Whether the receiver wants to read so many bytes from this process, where it can. For a trial one message
  /// at a time: a reference is made in no time, and reads may be the dearest way by far.
  bool isToBeRead(uint32_t length) {
    const int sizeClass = sizeClassOf(length);
    return legible != nullptr && length >= directFrom && length > kInlineBytes &&
           control->wants(MessageKind::plain, &WantedWays::read, sizeClass) &&
           ((loadRelaxed(&control->receiverTries) >> sizeClass & 1) == 0 || getsReleased());
  }
  /// Whether the receiver is to read `length` bytes from `memory` on from this process; *offset: for the slot.
  ECCL_DEVICE bool lends([[maybe_unused]] const std::byte* memory, [[maybe_unused]] uint32_t length,
                         [[maybe_unused]] uint64_t* offset) {
#if !defined(__CUDA_ARCH__)
    if (isToBeRead(length) && legible(memory)) {
      *offset = reinterpret_cast<uintptr_t>(memory) | kInProcess;
      return true;
    }
#endif
    return false;
  }
  /// Whether the receiver is to be told how long the coming message took; of short ones, only of some.
  ECCL_DEVICE bool samples(uint32_t length) const {
    if (length < kStreamFrom || !weighed) return false;
    // Multiples of the golden ratio, as fractions, are spread evenly, and so are those of every nth number.
    constexpr uint32_t kGolden = 0x9e3779b1;
    return length >= 4 * kReadFrom || static_cast<uint32_t>(coming()) * kGolden < UINT32_MAX / kTimedOf;
  }
  /// Whether the coming message, of `length` bytes, is to be written past the caches.
  ECCL_DEVICE bool streams(uint32_t length, MessageKind kind = MessageKind::plain,
                           uint64_t messages = 1) const {
    return length >= kStreamFrom && mayStream &&
           control->wants(kind, &WantedWays::streamed, sizeClassOf(length, messages));
  }
  /// Where the receiver wants the coming message, of `length` bytes; nullptr: in a slot.
  ECCL_DEVICE std::byte* offered(uint32_t length) const {
    const PutOffer& at = offerFor(coming());
    // Pairs with ReceiveEnd::offer.
    if (theirs.size == 0 || length < directFrom || loadAcquire(&at.sequence) != coming() + 1) return nullptr;
    const uint64_t offset = at.offset;  // read once: the receiver's memory may change under us
    return at.length == length && theirs.holds(offset, length) ? theirs.at(offset) : nullptr;
  }
  /// Whether the coming message, of `length` bytes, may well be offered a place and the receiver has said
  /// nothing yet. Where it wanted the message before in a slot, so it does this one, most likely: nobody waits
  /// for that.
  ECCL_DEVICE bool mayBeOffered(uint32_t length) const {
    if (theirs.size == 0 || length < directFrom) return false;
    if (loadAcquire(&offerFor(coming()).sequence) == coming() + 1) return false;
    const PutOffer& before = offerFor(coming() - 1);
    return loadAcquire(&before.sequence) != coming() || loadRelaxed(&before.length) > 0;
  }
  /// Brackets writing to offered memory, for each move. True: it is waited for until endWriting(). False: the
  /// receiver has failed and takes its offers back; there is nothing to end.
  ECCL_DEVICE bool beginWriting() {
    storeFenced(&control->writing, ++busy);
    if (loadAcquire(&control->receiverPoison) == 0) return true;
    endWriting();  // the receiver waits for it
    return false;
  }
  ECCL_DEVICE void endWriting() {
    storeRelease(&control->writing, busy -= busy > 0);
  }
  ECCL_DEVICE bool poisoned() const {
    return loadRelaxed(&control->receiverPoison) != 0;
  }
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

}  // namespace eccl
