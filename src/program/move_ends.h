// What a move does to the connections it uses: looks at messages, takes memory, publishes and releases. The
// interpreter and the fast path find moves in different ways. What they do with one is the same, and is here.
//
// The order for one move: faultOf() and canSend() of every end, beginReading(), placeMessages(), the work,
// endReading(), then commit() or abandon(). Threads: one at a time for each connection.
#pragma once

#include "program/plan_view.h"

namespace eccl::interpreter {

/// The ends of connections that a move uses; null for operands in memory.
struct MoveEnds {
  uint8_t sources, destinations;
  uint8_t placed, pushed;  // by destination: those of Operand
  ReceiveEnd* from[kMaxOperands];
  SendEnd* to[kMaxOperands];
};

/// Sets all of `ends` for one repetition of a step. The plan is bound to connections.
ECCL_DEVICE inline void findEnds(const PlanView& plan, const Step& step, int32_t repeat, MoveEnds& ends) {
  const Operand* operands = plan.operands + step.firstOperand;
  ends.sources = step.sources;
  ends.destinations = step.destinations;
  ends.placed = ends.pushed = 0;
  for (int i = 0; i < step.sources; ++i) {
    const Operand& operand = operands[i];
    ends.from[i] = operand.space == Space::connection ? plan.receivers[operand.index.at(repeat)] : nullptr;
  }
  for (int i = 0; i < step.destinations; ++i) {
    const Operand& operand = operands[step.sources + i];
    ends.to[i] = operand.space == Space::connection ? plan.senders[operand.index.at(repeat)] : nullptr;
    if (operand.placed) ends.placed |= static_cast<uint8_t>(1u << i);
    if (operand.pushed) ends.pushed |= static_cast<uint8_t>(1u << i);
  }
}

/// What is wrong with a message that has been peeked at; none if it is as expected. Its header came from
/// another process and may say anything: nothing of it is used before this.
ECCL_DEVICE inline LaneFault faultOf(const ReceiveEnd& end, const Received& received, uint32_t signature,
                                     uint32_t length, bool last) {
  if (received.epoch != end.epoch) return LaneFault::epoch;
  if (received.signature != signature) return LaneFault::signature;
  if (received.length != length || received.length > end.shape.slotBytes ||
      ((received.flags & kSlotLast) != 0) != last)
    return LaneFault::length;
  if ((received.flags & kSlotGet) != 0 && !end.isInProcess(received) &&
      !end.theirs.holds(received.offset, received.length))
    return LaneFault::window;
  if ((received.flags & kSlotPut) != 0 && !end.offered()) return LaneFault::window;
  return LaneFault::none;
}

/// The sender's end of a connection, for the rule of delivery. `Source`: called for the memory that a message
/// is made of, if isItsSource().
template <class Source>
struct LiveEnd {
  SendEnd& end;
  const Source& source;
  uint32_t length;
  uint32_t directFrom;
  uint64_t messages;
  mutable std::byte* place = nullptr;  // that is offered
  mutable uint64_t offset = 0;         // of what is shown

  ECCL_DEVICE LiveEnd(SendEnd& its, const Source& from, const Outgoing& message)
      : end(its),
        source(from),
        length(message.length),
        directFrom(its.directFromNow(message.length)),
        messages(message.messages) {}
  ECCL_DEVICE Offered offered() const {
    place = end.offered(length);
    if (place != nullptr) return Offered::memory;
    return end.mayBeOffered(length) ? Offered::notYet : Offered::no;
  }
  // An offered place is better than a read by the kernel, if there is one.
  ECCL_DEVICE bool shown() const {
    const std::byte* memory = source();
    return end.reaches(memory, length, &offset) || (place == nullptr && end.lends(memory, length, &offset));
  }
  // Of reads in place alone: those by the kernel are for what cannot be written in place.
  ECCL_DEVICE bool rathersReading() const {
    return messages <= kMostChosen &&
           end.control->wants(MessageKind::shown, &WantedWays::read, sizeClassOf(length, messages)) &&
           end.reaches(source(), length, &offset);
  }
};

/// Whether destination `i`, a connection, can take its message now: there is a slot. `patient`: nor is a
/// place for it worth waiting for. Changes nothing.
template <class Source>
ECCL_DEVICE bool canSend(const MoveEnds& ends, int i, Outgoing message, const Source& source, bool patient) {
  SendEnd& end = *ends.to[i];
  if (end.reserve(message.length) == nullptr) return false;
  message.placed = (ends.placed >> i & 1) != 0;
  message.pushed = (ends.pushed >> i & 1) != 0;
  return !patient || !awaitsOffer(message, LiveEnd(end, source, message));
}

/// For a message that is written, the one that `bit` stands for.
ECCL_DEVICE inline void weigh(const SendEnd& end, MessageKind kind, const Outgoing& message, uint8_t bit,
                              Passed& passed) {
  if (end.samples(message.length)) passed.timed |= bit;
  if (end.streams(message.length, kind, kind != MessageKind::plain ? message.messages : 1))
    passed.streams |= bit;
}

/// Decides how each message of a move is passed. data[i]: where its data is to be written; null if nothing
/// is. Every destination has said canSend(). What is decided stays: an offer that comes while the move is
/// under way changes nothing. For each put the end is in writing until commit() or abandon().
template <class Source>
ECCL_DEVICE Passed placeMessages(const MoveEnds& ends, Outgoing message, const Source& source,
                                 std::byte* (&data)[kMaxOperands]) {
  Passed passed;
  for (int i = 0; i < ends.destinations; ++i) {
    data[i] = nullptr;
    SendEnd* end = ends.to[i];
    if (end == nullptr) continue;
    const auto bit = static_cast<uint8_t>(1u << i);
    message.placed = (ends.placed & bit) != 0;
    message.pushed = (ends.pushed & bit) != 0;
    const LiveEnd live(*end, source, message);
    const Delivery how = deliveryOf(message, live);
    if (how == Delivery::get) {
      Slot& slot = *end->slot(end->coming());
      slot.offset = live.offset;
      slot.sent.done = 0;
      passed.gets |= bit;
      if (message.placed && !message.pushed && message.messages <= kMostChosen &&
          (live.offset & kInProcess) == 0)
        passed.chosen |= bit;
      if (end->samples(message.length)) passed.timed |= bit;
    } else if (how == Delivery::put && end->beginWriting()) {
      passed.puts |= bit;
      data[i] = live.place;
      end->slot(end->coming())->sent.done = 0;
      if (message.messages > kMostChosen) continue;
      const bool readable = !message.pushed && isItsSource(message) && live.shown();
      if (readable) passed.chosen |= bit;
      weigh(*end, readable ? MessageKind::shown : MessageKind::placed, message, bit, passed);
    } else {
      data[i] = end->place(message.length);
      weigh(*end, MessageKind::plain, message, bit, passed);
    }
  }
  return passed;
}

/// Where the data of a received message is, from byte `at` on. `written`: where the move's first destination
/// is, which is what was offered.
ECCL_DEVICE inline const std::byte* dataOf(const ReceiveEnd& end, const Received& received, uint64_t at,
                                           const std::byte* written) {
  if ((received.flags & kSlotPut) != 0) return written;
  return ((received.flags & kSlotGet) != 0 ? end.theirs.at(received.offset) : received.data) + at;
}

/// Whether the data of a message could be claimed as it is read (kernels/reduce.h). What is short stays in the
/// first caches, where that is not worth it; and what is exchanged is written by its reader next. `Header`: a
/// Slot, or what was received of it.
template <class Header>
ECCL_DEVICE bool mayClaim(const ReceiveEnd& end, const Header& header) {
  return end.claiming && end.shape.isLong(header.length) &&
         (header.flags & (kSlotGet | kSlotPut | kSlotStreamed)) == 0 && !end.isExchanged(header);
}
/// Whether it is.
template <class Header>
ECCL_DEVICE bool claims(const ReceiveEnd& end, const Header& header) {
  return mayClaim(end, header) && (end.claimed == nullptr || end.claimed->claims(header.length));
}

/// The sources of a move, a bit for each, that are in memory which received messages name.
ECCL_DEVICE inline uint8_t referring(const MoveEnds& ends, const Received* received) {
  uint8_t reads = 0;
  for (int i = 0; i < ends.sources; ++i) {
    if (ends.from[i] != nullptr && (received[i].flags & kSlotGet) != 0) reads |= static_cast<uint8_t>(1u << i);
  }
  return reads;
}

/// Brackets the use of the memory that referring() found. -1: it may be read until endReading(). Else the
/// source whose sender has taken it back, and nothing is bracketed.
ECCL_DEVICE inline int beginReading(const MoveEnds& ends, uint8_t reads) {
  for (int i = 0; reads >> i != 0; ++i) {
    if ((reads >> i & 1) == 0 || ends.from[i]->beginReading()) continue;
    for (int j = 0; j < i; ++j)
      if ((reads >> j & 1) != 0) ends.from[j]->endReading();
    return i;
  }
  return -1;
}

/// -1, or a source whose sender has taken its memory back since beginReading(): the result is worth nothing.
ECCL_DEVICE inline int endReading(const MoveEnds& ends, uint8_t reads) {
  int lost = -1;
  for (int i = 0; reads >> i != 0; ++i) {
    if ((reads >> i & 1) != 0 && !ends.from[i]->endReading()) lost = i;
  }
  return lost;
}

/// Publishes what was produced and releases what was consumed, after the data is where it belongs. `length`
/// and `flags` (kSlotLast or nothing) are those of all messages.
ECCL_DEVICE inline void commit(const MoveEnds& ends, Passed passed, uint32_t length, uint16_t flags,
                               uint32_t signature) {
  for (int i = 0; i < ends.destinations; ++i) {
    SendEnd* end = ends.to[i];
    if (end == nullptr) continue;
    if ((passed.growing >> i & 1) != 0) {
      end->finish(length);
      continue;
    }
    const bool put = (passed.puts >> i & 1) != 0, get = (passed.gets >> i & 1) != 0;
    const int its = (put ? kSlotPut : 0) | (get ? kSlotGet : 0) |
                    ((passed.chosen >> i & 1) != 0 ? kSlotChosen : 0) |
                    ((passed.streams >> i & 1) != 0 ? kSlotStreamed : 0);
    end->publish(length, static_cast<uint16_t>(flags | its), signature);
    // Afterwards: a receiver that fails in between takes back a place too many, not one too few.
    if (put) end->endWriting();
  }
  for (int i = 0; i < ends.sources; ++i)
    if (ends.from[i] != nullptr) ends.from[i]->release();
}

/// Instead of commit(), for a move whose result is worth nothing: ends the writing of puts. Publishes and
/// releases nothing; the connections are of no use any more.
ECCL_DEVICE inline void abandon(const MoveEnds& ends, Passed passed) {
  for (int i = 0; i < ends.destinations; ++i)
    if ((passed.puts >> i & 1) != 0) ends.to[i]->endWriting();
}

/// Changes by `by`, 1 or -1, how many messages at its ends belong to moves under way.
ECCL_DEVICE inline void runAhead(const MoveEnds& ends, int by) {
  for (int i = 0; i < ends.sources; ++i)
    if (ends.from[i] != nullptr) ends.from[i]->ahead += static_cast<uint32_t>(by);
  for (int i = 0; i < ends.destinations; ++i)
    if (ends.to[i] != nullptr) ends.to[i]->ahead += static_cast<uint32_t>(by);
}

}  // namespace eccl::interpreter
