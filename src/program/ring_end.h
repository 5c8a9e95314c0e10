// What both ends of a ring of slots (program/slot_ring.h) have in common.
#pragma once

#include "program/ring_layout.h"

namespace eccl {

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
  Window mine;                        // this side's memory that the other can get at
  Window theirs;                      // the other's
  ExchangeAreas* exchange = nullptr;  // the path's, this side's part; null: no areas are exchanged

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
  /// Where `length` bytes of data of a slot are, for the receiver if they are exchanged. Whatever it says, that
  /// is within the ring, or within an area.
  ECCL_DEVICE std::byte* dataOf(Slot& at, uint32_t length) const {
    if (length <= kInlineBytes) return at.inlineData;
    if (length <= shape.shortBytes) return reinterpret_cast<std::byte*>(&at + 1);
    const uint32_t area = loadRelaxed(&at.area);
    if (exchange != nullptr && (area & kInArea) != 0) {
      std::byte* const its = exchange->at(ExchangeAreas::turned(area & ~kInArea));
      if (its != nullptr) return its;
    }
    return data + (area & lastLine) * kCacheLine;
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

}  // namespace eccl
