// What moves with messages take, for the choice between their ways (program/way_choice.h): the sender writes
// its times into the slot, the receiver adds its own. For the host alone.
#pragma once

#include <optional>

#include "base/ticks.h"
#include "program/move_ends.h"

namespace eccl::interpreter {

/// Measures what moves with long messages take, for the choice between the ways of a message. Its cost is what
/// the sender spends on it, then what the receiver waits for it, if it does, and spends on it.
class TimedMove {
 public:
  /// Before placeMessages() and readSources(), with the messages peeked at.
  TimedMove(const MoveEnds& ends, uint32_t length, uint64_t messages = 1)
      : ends_(ends), length_(length), messages_(messages) {
    if (length < kStreamFrom) return;
    bool measures = false;
    for (int i = 0; i < ends.sources; ++i) {
      const ReceiveEnd* end = ends.from[i];
      sources_ += end != nullptr;
      if (end == nullptr || end->choices == nullptr) continue;
      const Slot& slot = *end->slot(end->next);
      // Of one that grows the sender says its times last.
      if ((slot.flags & kSlotGrowing) == 0 && slot.sent.done == 0) continue;
      const std::optional<Taken> way = wayOf(*end, slot);
      if (!way || (way->kind != MessageKind::plain && messages > kMostChosen)) continue;
      ways_[i] = *way;
      chosen_ |= static_cast<uint8_t>(1u << i);
      measures = true;
    }
    for (int i = 0; i < ends.destinations; ++i)
      measures |= ends.to[i] != nullptr && ends.to[i]->samples(length);
    if (measures) start_ = ticks();
  }
  void complete(Passed passed) { complete(passed, 1, length_); }
  /// After the work, before commit(). Of several messages each has taken its share. The same of those of
  /// `tiles` that were made together, of so many bytes in all.
  void complete(Passed passed, uint32_t tiles, uint64_t bytes) {
    if ((chosen_ | passed.timed) == 0) return;
    const uint64_t end = start_ != 0 ? ticks() : 0;
    uint64_t messages = 0;
    for (int i = 0; i < ends_.destinations; ++i) messages += ends_.to[i] != nullptr;
    for (int i = 0; passed.timed >> i != 0; ++i) {
      if ((passed.timed >> i & 1) == 0) continue;
      Slot& slot = *ends_.to[i]->slot(ends_.to[i]->next);
      slot.sent.begun = start_;
      slot.sent.done = start_ + (end - start_) / messages;
    }
    for (int i = 0; chosen_ >> i != 0; ++i)
      for (uint32_t tile = 0; (chosen_ >> i & 1) != 0 && tile < tiles; ++tile) note(i, tile, end, bytes);
  }

 private:
  /// The way that a message has taken.
  struct Taken {
    MessageKind kind;
    DataWay way;
  };
  /// None: there was no other. Looks at the slot anew, whatever it says by now: for statistics.
  static std::optional<Taken> wayOf(const ReceiveEnd& end, const Slot& slot) {
    const bool chosen = (slot.flags & kSlotChosen) != 0;
    if (end.isInProcess(slot)) return Taken{MessageKind::plain, DataWay::reads};
    if ((slot.flags & kSlotGet) != 0)
      return chosen ? std::optional(Taken{MessageKind::shown, DataWay::reads}) : std::nullopt;
    const bool put = (slot.flags & kSlotPut) != 0;
    return Taken{chosen ? MessageKind::shown
                 : put  ? MessageKind::placed
                        : MessageKind::plain,
                 (slot.flags & kSlotStreamed) != 0 ? DataWay::streams : DataWay::writes};
  }
  void note(int source, uint32_t tile, uint64_t end, uint64_t bytes) const {
    const ReceiveEnd& from = *ends_.from[source];
    const Slot& slot = *from.slot(from.next + tile);
    const uint64_t begun = slot.sent.begun, done = slot.sent.done;
    const auto kind = static_cast<size_t>(ways_[source].kind);
    WayChoice& choice = (*from.choices)[kind];
    uint64_t cost = 0;
    // The other side may say anything: not so much that a sum goes round. Processors' clocks may differ.
    if (done != 0 && end > start_) {
      const bool waited = tile == 0 && from.missed == from.next + 1 && start_ > done;
      // While a message grew both sides were at it.
      const uint64_t alone = end - std::clamp(done, start_, end);
      const uint64_t notice = waited ? std::min(start_ - done, kMostTicks) : 0;
      if (waited) choice.noteNotice(notice);
      cost = alone * length_ / bytes / sources_ + std::min(done - begun, kMostTicks) + notice;
    }
    choice.note(ways_[source].way, length_, cost, ways_[source].kind != MessageKind::plain ? messages_ : 1);
    if (tile == 0 && from.claimed != nullptr && mayClaim(from, slot))
      from.claimed->note(length_, slot.area, cost);
    WantedWays& wants = from.control->receiverWants[kind];
    uint32_t& tries = from.control->receiverTries;
    const bool isPlain = ways_[source].kind == MessageKind::plain;
    // Nothing that is read for a trial is to be seen without the word that it is one.
    if (isPlain) tell(tries, tries | choice.triesToRead());
    tell(wants.read, choice.read());
    tell(wants.streamed, choice.streamed());
    if (isPlain) tell(tries, choice.triesToRead());
  }
  /// The sender looks at this line: it is written seldom.
  static void tell(uint32_t& word, uint32_t value) {
    if (word != value) storeRelease(&word, value);
  }

  static constexpr uint64_t kMostTicks = uint64_t{1} << 40;
  const MoveEnds& ends_;
  const uint32_t length_;
  const uint64_t messages_;
  uint8_t chosen_ = 0;  // the sources whose message had a choice
  uint32_t sources_ = 0;
  uint64_t start_ = 0;
  Taken ways_[kMaxOperands];  // how their messages came
};

/// Of moves whose messages nobody weighs.
struct UntimedMove {
  UntimedMove(const MoveEnds&, uint32_t) {}
  void complete(Passed) {}
};

}  // namespace eccl::interpreter
