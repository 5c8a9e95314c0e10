// The receiver's end of a ring of slots (program/slot_ring.h).
#pragma once

#include "program/claim_choice.h"
#include "program/ring_end.h"
#include "program/way_choice.h"

namespace eccl {

class RemoteReads;

/// A header as peek() found it. A copy, but for the data it points to: that is valid until release().
struct Received {
  const std::byte* data;  // in the slot; meaningless for references and placed messages
  uint64_t offset;
  uint32_t length, signature;
  uint16_t flags, epoch;
  uint32_t area;
};

/// The receiver's end. For each message: peek() until it is there, use its data, and release(). Memory for
/// messages to come may be offered before by offer().
struct ReceiveEnd : RingEnd {
  bool tookExchanged = false;      // the last message came in an area that is exchanged
  uint64_t considered = 0;         // messages before this one have been considered for an offer
  uint64_t missed = 0;             // one past the message that was last looked for and not there
  RemoteReads* remote = nullptr;   // the path's; null: the sender's process cannot be read
  WayChoices* choices = nullptr;   // the path's; null: there are none
  bool claiming = false;           // both sides look at the slots' memory: claims()
  ClaimChoice* claimed = nullptr;  // the path's; null: whatever may be claimed is

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
    received.area = at->area;
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

  /// Whether the data of a message has come in an area that is exchanged. `Header`: a Slot, or what was
  /// received of it.
  template <class Header>
  ECCL_DEVICE bool isExchanged(const Header& header) const {
    return exchange != nullptr && shape.isLong(header.length) && (header.flags & (kSlotGet | kSlotPut)) == 0 &&
           (header.area & kInArea) != 0;
  }
  /// Returns the slot of the oldest message peeked at, whose header said `length`. An area that it came in is
  /// this side's.
  ECCL_DEVICE void release(uint32_t length) {
    const Slot& at = *slot(next);
    tookExchanged = isExchanged(at);
    if (tookExchanged) exchange->take(ExchangeAreas::turned(at.area & ~kInArea));
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
