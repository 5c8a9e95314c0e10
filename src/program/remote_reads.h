// Messages that are read from the sender's own memory: single copy between processes that cannot map each
// other's memory. The slot has a reference, as for memory in a window (kSlotGet), but an address in the
// sender's process, marked by kInProcess. The receiver reads it by the kernel, before the move's work: to where
// the move writes, or aside.
//
// For the host alone, and for devices that complete in submit().
#pragma once

#include <optional>

#include "base/ticks.h"
#include "program/move_ends.h"

namespace eccl {

/// How a receiving end reads the memory of its sender's process. Owner: the path. Threads: the driver's.
class RemoteReads {
 public:
  RemoteReads() = default;
  virtual ~RemoteReads() = default;
  RemoteReads(const RemoteReads&) = delete;
  RemoteReads& operator=(const RemoteReads&) = delete;
  /// none: `length` bytes at `address` of that process are at `to`. poisoned: the process is no more. window:
  /// it has nothing there that can be read.
  virtual LaneFault read(uint64_t address, std::byte* to, uint32_t length) = 0;
  /// Memory for the message of a move's source number `source`, until the move is over.
  virtual std::byte* aside(int source) = 0;
};

namespace interpreter {

/// The sources of a move that are to be read from a process, a bit for each.
inline uint8_t inProcesses(const MoveEnds& ends, const Received* received, uint8_t reads) {
  uint8_t found = 0;
  for (int i = 0; reads >> i != 0; ++i) {
    if ((reads >> i & 1) != 0 && ends.from[i]->isInProcess(received[i])) found |= static_cast<uint8_t>(1u << i);
  }
  return found;
}

/// Reads these sources between beginReading() and the work, which then finds them as if they had come in slots,
/// or where they belong already. `whole`: where the move puts its only source, in one piece; null if there is
/// no such place. -1, or the source that cannot be read, and *fault.
inline int readSources(const MoveEnds& ends, Received* received, uint8_t which, std::byte* whole,
                       LaneFault* fault) {
  for (int i = 0; which >> i != 0; ++i) {
    if ((which >> i & 1) == 0) continue;
    RemoteReads& remote = *ends.from[i]->remote;
    std::byte* const to = whole != nullptr && ends.sources == 1 ? whole : remote.aside(i);
    *fault = remote.read(received[i].offset & ~kInProcess, to, received[i].length);
    if (*fault != LaneFault::none) {
      // A sender that has taken its memory back may have unmapped it since.
      if (ends.from[i]->poisoned()) *fault = LaneFault::poisoned;
      return i;
    }
    received[i].flags = static_cast<uint16_t>(received[i].flags & ~kSlotGet);
    if (to == whole) received[i].flags |= kSlotPut;
    received[i].data = to;
  }
  return -1;
}

/// Measures what moves with long messages take, for the choice between the ways of a message. Its cost is what
/// the sender spends on it, then what the receiver waits for it, if it does, and spends on it.
class TimedMove {
 public:
  /// Before placeMessages() and readSources(), with the messages peeked at.
  TimedMove(const MoveEnds& ends, uint32_t length) : ends_(ends), length_(length) {
    if (length < kStreamFrom) return;
    bool measures = false;
    for (int i = 0; i < ends.sources; ++i) {
      const ReceiveEnd* end = ends.from[i];
      sources_ += end != nullptr;
      if (end == nullptr || end->choice == nullptr) continue;
      const Slot& slot = *end->slot(end->next);
      const std::optional<PlainWay> way = wayOf(*end, slot);
      if (!way) continue;
      ways_[i] = *way;
      chosen_ |= static_cast<uint8_t>(1u << i);
      begun_[i] = slot.sent.begun;
      done_[i] = slot.sent.done;
      measures |= done_[i] != 0;
    }
    for (int i = 0; i < ends.destinations; ++i)
      measures |= ends.to[i] != nullptr && ends.to[i]->samples(length);
    if (measures) start_ = ticks();
  }
  /// After the work, before commit().
  void complete(Passed passed) {
    if ((chosen_ | passed.timed) == 0) return;
    const uint64_t end = start_ != 0 ? ticks() : 0;
    for (int i = 0; passed.timed >> i != 0; ++i) {
      if ((passed.timed >> i & 1) == 0) continue;
      Slot& slot = *ends_.to[i]->slot(ends_.to[i]->next);
      slot.sent.begun = start_;
      slot.sent.done = end;
    }
    for (int i = 0; chosen_ >> i != 0; ++i)
      if ((chosen_ >> i & 1) != 0) note(i, end);
  }

 private:
  /// None: it lies in memory that both sides see.
  static std::optional<PlainWay> wayOf(const ReceiveEnd& end, const Slot& slot) {
    if ((slot.flags & kSlotGet) != 0 && end.remote != nullptr && (slot.offset & kInProcess) != 0)
      return PlainWay::reads;
    if ((slot.flags & (kSlotGet | kSlotPut)) != 0) return {};
    return (slot.flags & kSlotStreamed) != 0 ? PlainWay::streams : PlainWay::slots;
  }
  void note(int source, uint64_t end) const {
    const ReceiveEnd& from = *ends_.from[source];
    uint64_t cost = 0;
    // The other side may say anything: not so much that a sum goes round.
    if (done_[source] != 0 && end != 0) {
      const bool waited = from.missed == from.next + 1 && start_ > done_[source];
      cost = (end - start_) / sources_ + std::min(done_[source] - begun_[source], kMostTicks) +
             (waited ? std::min(start_ - done_[source], kMostTicks) : 0);
    }
    WayChoice& choice = *from.choice;
    choice.note(ways_[source], length_, cost);
    // The sender looks at this line: it is written seldom.
    if (from.control->receiverReads != choice.read()) storeRelease(&from.control->receiverReads, choice.read());
    if (from.control->receiverStreams != choice.streamed())
      storeRelease(&from.control->receiverStreams, choice.streamed());
  }

  static constexpr uint64_t kMostTicks = uint64_t{1} << 40;
  const MoveEnds& ends_;
  const uint32_t length_;
  uint8_t chosen_ = 0;  // the sources whose end has a choice
  uint32_t sources_ = 0;
  uint64_t start_ = 0;
  PlainWay ways_[kMaxOperands];                        // they came
  uint64_t begun_[kMaxOperands], done_[kMaxOperands];  // by the sender
};

/// Of moves whose messages nobody weighs.
struct UntimedMove {
  UntimedMove(const MoveEnds&, uint32_t) {}
  void complete(Passed) {}
};

}  // namespace interpreter
}  // namespace eccl
