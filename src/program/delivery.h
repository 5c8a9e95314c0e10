// How a message is passed from one rank to another: one rule, as pure functions.
//
// The interpreter and the fast path ask it with the present state of a connection's ends. The simulator asks
// it with the state that it assumes of them. Nothing else decides how data travels, but that the fast path puts
// some KiB from memory that no peer can get at into slots without a look at what is offered.
//
//   inlined   in the slot's header, one cache line
//   slot      the sender copies into the slot, the receiver out of it (eager), perhaps as it grows
//             (program/growing.h)
//   get       the slot names the sender's memory, which the receiver reads (rendezvous get)
//   put       the receiver has offered memory, and the sender writes there (rendezvous put)
//
// A receiver offers memory ahead, at the beginning of a tile, where the program claims that it may
// (`posted`). Else it offers memory when it has come to the message and the message is not there yet.
#pragma once

#include "program/slot_ring.h"

namespace eccl {

/// Bytes from which ranks read and write each other's memory. Below, a slot is faster, as nobody waits for the
/// other's answer: with cores that share no cache Broadcast of 1 KiB takes 0.26 µs by a slot and 0.90 by a get,
/// of 2 KiB 0.53 and 0.93, of 4 KiB 0.75 and 0.90; half a round trip of 1 KiB 0.65 and 0.75. Streams of 1 KiB
/// take 0.33 and 0.23 (AMD EPYC, family 26 model 2, 2026-11-25).
inline constexpr uint32_t kDirectFrom = 4096;
/// The same for ranks that share cores: handing memory over takes turns on a core, which copies of less than
/// this are cheaper than (4 and 8 ranks on 2 cores of an AMD EPYC, November 2026).
inline constexpr uint32_t kOversubscribedDirectFrom = 8192;

/// So many receiving ends a driver that waits asks one by one for what their sockets have; of more it asks the
/// kernel which are ready. A call that takes the fast path has no more.
inline constexpr int kMaxPolled = 4;

/// One of the four ways above.
enum class Delivery : uint8_t {
  inlined,
  slot,
  get,
  put,
};

/// What the receiver's end has said about memory for a message.
enum class Offered : uint8_t {
  no,      ///< nothing that could be used, and nothing will come
  notYet,  ///< nothing yet
  memory,  ///< memory that this end can write to, for a message of this length
};

/// What a program and its sizes say about a message that a move sends.
struct Outgoing {
  uint32_t length = 0;    ///< bytes
  bool whole = false;     ///< the move's only source, or first one, is one piece of memory
  bool stable = false;    ///< Operand::stable of that source
  bool scaled = false;    ///< it is scaled as it is read, so memory does not hold what is to be sent
  bool placed = false;    ///< Operand::placed of the message
  bool pushed = false;    ///< Operand::pushed of it
  uint64_t messages = 1;  ///< of its call that go there, about
};

/// The state of the sender's end. The functions below take any type with these members: one that looks at a
/// ring then finds out only what the rule asks for.
struct SendState {
  uint32_t directFrom = UINT32_MAX;  ///< bytes from which memory is named or written directly
  Offered offer = Offered::no;
  bool visible = false;  ///< the receiver can read the source where it is
  bool wanted = false;   ///< it can, and would rather do so than have it written

  ECCL_DEVICE constexpr Offered offered() const { return offer; }
  ECCL_DEVICE constexpr bool shown() const { return visible; }
  ECCL_DEVICE constexpr bool rathersReading() const { return wanted; }
};

/// Whether the receiver could be told where the data is, instead of being given it.
ECCL_DEVICE constexpr bool isItsSource(const Outgoing& message) {
  return message.stable && message.whole && !message.scaled;
}

/// Whether the receiver is to read the message because it would rather do so.
template <class End>
ECCL_DEVICE constexpr bool isRatherRead(const Outgoing& message, const End& end) {
  return message.placed && !message.pushed && isItsSource(message) && end.rathersReading();
}

/// Whether a message is worth a moment's wait for the receiver to offer memory. A caller that has waited long
/// enough does not ask any more.
template <class End>
ECCL_DEVICE constexpr bool awaitsOffer(const Outgoing& message, const End& end) {
  return message.placed && message.length >= end.directFrom && !isRatherRead(message, end) &&
         end.offered() == Offered::notYet;
}

/// How the message goes. Below `end.directFrom` bytes no memory is named or written directly.
template <class End>
ECCL_DEVICE constexpr Delivery deliveryOf(const Outgoing& message, const End& end) {
  if (message.length >= end.directFrom) {
    if (isRatherRead(message, end)) return Delivery::get;
    const bool offered = end.offered() == Offered::memory;
    // A busy root posts no place and lets others read.
    if (message.placed && offered) return Delivery::put;
    if (isItsSource(message) && end.shown()) return Delivery::get;
    if (offered) return Delivery::put;
  }
  return message.length <= kInlineBytes ? Delivery::inlined : Delivery::slot;
}

/// How the messages of a move go, by destination. What is in neither of the first two is copied into a slot.
struct Passed {
  uint8_t gets = 0, puts = 0;
  uint8_t chosen = 0;   ///< of these: could have gone by the other way as well
  uint8_t streams = 0;  ///< written past the caches
  uint8_t timed = 0;    ///< the receiver is told how long it took
  uint8_t growing = 0;  ///< published before the data is there (SendEnd::grow)
};

/// When a receiver offers memory for a message.
enum class Offer : uint8_t { never, whenWaiting, ahead };

/// What a program and its sizes say about a message that a move takes.
struct Incoming {
  uint32_t length = 0;  ///< bytes; 0 where only the message will tell: a relay of a stream
  uint8_t sources = 0, destinations = 0;
  bool toMemory = false;  ///< the first destination is memory
  bool whole = false;     ///< that is one piece
  bool posted = false;    ///< Operand::posted of it
  bool finished = false;  ///< Step::post: what is written is not what was sent
};

/// The state of the receiver's end.
struct ReceiveState {
  uint32_t directFrom = UINT32_MAX;  ///< as the sender's
  bool window = false;               ///< there is memory that the other side can get at
};

/// Whether and when the receiver offers memory for a message. Only for one that is copied as it is into one
/// piece of memory, and that is long enough to be delivered there.
ECCL_DEVICE constexpr Offer offerOf(const Incoming& message, const ReceiveState& end) {
  const bool onlyCopied = message.sources == 1 && message.destinations > 0 && message.toMemory &&
                          message.whole && !message.finished;
  if (!onlyCopied || !end.window || message.length < end.directFrom || message.length <= kInlineBytes)
    return Offer::never;
  return message.posted ? Offer::ahead : Offer::whenWaiting;
}

}  // namespace eccl
