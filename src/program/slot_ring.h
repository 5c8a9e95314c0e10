// The two ends of a Connection's data path: a ring of slots with one sender and one receiver, plain data in
// memory both can reach (program/ring_layout.h). One message fills one slot.
//
// A message is published by storing its sequence number into its slot with release. The receiver acquires it
// there, so that a small message (inline in the header) costs one line. A slot is released by storing the count
// of released messages.
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

#include "program/data_places.h"
#include "program/ring_layout.h"
#include "program/way_choice.h"

namespace eccl {

class RemoteReads;

/// What both ends have in common. Plain data; the memory that it points to is the path's.
struct RingEnd {
  RingControl* control = nullptr;
  PutOffer* offers = nullptr;
  std::byte* slots = nullptr;
  std::byte* data = nullptr;  // of long messages
  uint64_t lastLine = 0;      // of those where data may begin
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
    return reinterpret_cast<Slot*>(slots + (message & (shape.slots - 1)) * shape.slotStride());
  }
  ECCL_DEVICE PutOffer& offerFor(uint64_t message) const { return offers[message & (shape.offers() - 1)]; }
  /// Writes the header of a message whose payload is where it belongs, or grows: the receiver finds it when it
  /// has come to it. Messages may be filled in any order.
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
    if (length <= kInlineBytes) return at.inlineData;
    if (length <= shape.shortBytes) return reinterpret_cast<std::byte*>(&at + 1);
    return data + (at.area & lastLine) * kCacheLine;
  }
};

/// Has `end` look at memory that formatRing() has prepared with the same shape and first number. Windows and
/// directFrom stay as they are.
inline void attachRing(RingEnd& end, void* memory, RingShape shape, uint64_t first, uint16_t epoch) {
  auto* bytes = static_cast<std::byte*>(memory);
  end.control = reinterpret_cast<RingControl*>(bytes);
  end.offers = reinterpret_cast<PutOffer*>(bytes + shape.offersAt());
  end.slots = bytes + shape.slotsAt();
  end.data = bytes + shape.dataAt();
  end.lastLine = shape.areaLines() - 1;
  end.shape = shape;
  end.next = end.first = first;
  end.epoch = epoch;
}

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
    if (length > kInlineBytes) {
      if (length > shape.shortBytes)
        at.area = static_cast<uint32_t>(
            places.take(length, shape.neededLines(), [this] { return released(coming()); }));
      at.sent.done = 0;
    }
    return dataOf(at, length);
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
  /// Whether `length` bytes from `memory` on can be sent as a reference; *offset: for the slot.
  ECCL_DEVICE bool reaches(const std::byte* memory, uint32_t length, uint64_t* offset) const {
    *offset = mine.offsetOf(memory);
    return length >= directFrom && mine.holds(*offset, length);
  }
  /// Whether the receiver is to read `length` bytes from `memory` on from this process; *offset: for the slot.
  ECCL_DEVICE bool lends([[maybe_unused]] const std::byte* memory, [[maybe_unused]] uint32_t length,
                         [[maybe_unused]] uint64_t* offset) const {
#if !defined(__CUDA_ARCH__)
    if (legible != nullptr && length >= directFrom && length > kInlineBytes &&
        control->wants(MessageKind::plain, &WantedWays::read, sizeClassOf(length)) && legible(memory)) {
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
  uint64_t considered = 0;        // messages before this one have been considered for an offer
  uint64_t missed = 0;            // one past the message that was last looked for and not there
  RemoteReads* remote = nullptr;  // the path's; null: the sender's process cannot be read
  WayChoices* choices = nullptr;  // the path's; null: there are none
  bool claiming = false;          // both sides look at the slots' memory: claims()

  /// Copies the coming message's header. False while there is none, or it grows.
  ECCL_DEVICE bool peek(Received& received) {
    if (peekGrowing(received) && ((received.flags & kSlotGrowing) == 0 || grownTo() >= received.length))
      return true;
    missed = coming() + 1;
    return false;
  }
  /// The same for a message that may grow still.
  ECCL_DEVICE bool peekGrowing(Received& received) const {
    Slot* at = slot(coming());
    if (loadAcquire(&at->sequence) != coming() + 1) return false;  // pairs with SendEnd::publish
    received.length = at->length;
    received.signature = at->signature;
    received.flags = at->flags;
    received.epoch = at->epoch;
    received.offset = loadRelaxed(&at->offset);  // of a message that grows the sender writes there
    received.data = dataOf(*at, received.length);
    return true;
  }
  /// How many bytes of the coming message, which grows, are there. Whatever the sender says.
  ECCL_DEVICE uint64_t grownTo() const { return loadAcquire(&slot(coming())->sent.grown); }
  /// Whether peek() would find a message, or one that grows. Cheap.
  ECCL_DEVICE bool hasCome() const { return loadRelaxed(&slot(coming())->sequence) == coming() + 1; }
  /// peek() for a message whose header is known but for its coming: `length` bytes in its slot, the last of its
  /// call. `other`: it is not that one.
  enum class Expected : uint8_t { none, there, other };
  ECCL_DEVICE Expected peek(uint32_t length, uint32_t signature, const std::byte** its) {
    Slot& at = *slot(coming());
    if (loadAcquire(&at.sequence) != coming() + 1) {  // pairs with SendEnd::publish
      missed = coming() + 1;
      return Expected::none;
    }
    const bool expected = at.length == length && at.signature == signature &&
                          (at.flags | kSlotStreamed) == (kSlotLast | kSlotStreamed) && at.epoch == epoch;
    *its = dataOf(at, length);
    return expected ? Expected::there : Expected::other;
  }

  /// Returns the slot of the oldest message peeked at, whose header said `length`.
  ECCL_DEVICE void release(uint32_t length) {
    bytes += length;
    ++next;
    storeRelease(&control->released, next);  // pairs with SendEnd::reserve
  }
  ECCL_DEVICE void release() { release(slot(next)->length); }

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
    PutOffer& at = offerFor(message);
    at.offset = offset;
    // Atomic, as SendEnd::mayBeOffered() may look at the offer that was here before.
    storeRelease(&at.length, mine.holds(offset, length) ? length : 0);
    storeRelease(&at.sequence, message + 1);  // pairs with SendEnd::offered and the paths' look at it
  }
  /// Whether the coming message has been offered memory, and the offer stands.
  ECCL_DEVICE bool offered() const {
    const PutOffer& at = offerFor(coming());
    return answered() && at.length > 0 && mine.holds(at.offset, at.length);
  }
  /// Whether offer() has been called for it.
  ECCL_DEVICE bool answered() const { return offerFor(coming()).sequence == coming() + 1; }

  /// Whether this is a reference to memory that is to be read from the sender's process, and can be. `Header`:
  /// a Slot, or what was received of it.
  template <class Header>
  ECCL_DEVICE bool isInProcess(const Header& header) const {
    return remote != nullptr && (header.flags & kSlotGet) != 0 && (header.offset & kInProcess) != 0;
  }

  /// Brackets every use of referenced memory, for each move. False: the sender has revoked its references,
  /// and there is nothing to end. If it does so meanwhile, endReading() is false: what was read may be
  /// anything.
  ECCL_DEVICE bool beginReading() {
    storeFenced(&control->reading, ++busy);
    if (loadAcquire(&control->senderPoison) == 0) return true;
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
