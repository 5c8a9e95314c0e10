// What to read straight from the sender's memory, and what to let go through slots: the receiver decides, by
// what both ways take at the moment. Neither is always better. Slots are two copies, and fast while the two
// cores share a cache that is large enough; a read is one copy and a system call. On virtual machines cores
// move while the program runs, so no figure is measured once for all.
//
// A way's cost is the time that both sides spend on a message (TimedMove, program/remote_reads.h). It is kept
// for each size, as the least of late; the way that is not in use is tried now and then.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

namespace eccl {

/// Shorter messages always go through slots: a system call alone takes as long.
inline constexpr uint32_t kReadFrom = 16384;

/// By size of message: the power of two below.
constexpr int sizeClassOf(uint32_t length) {
  return std::bit_width(length) - 1;
}

/// The choices of one receiving end. A value. One thread at a time.
class ReadChoice {
 public:
  static constexpr int64_t kMeasured = -1;
  /// `from`: bytes from which messages are read, whatever it takes; 0: none are; kMeasured: as measured.
  explicit ReadChoice(int64_t from) : measured_(from == kMeasured) {
    for (int c = 0; c < kClasses && from > 0; ++c)
      if ((int64_t{1} << c) >= from) wanted_ |= 1u << c;
  }

  /// What is to be read: bit c for messages of class c.
  uint32_t wanted() const { return wanted_; }

  /// A message came through a slot, and that took so many ticks; 0: it was not measured.
  void onSlot(uint32_t length, uint64_t ticks) { note(length, ticks, false); }
  /// A message was read.
  void onRead(uint32_t length, uint64_t ticks) { note(length, ticks, true); }

 private:
  static constexpr int kClasses = 32;
  /// A trial costs up to some times as much as the better way, so it is made seldom. Slots get dear all of a
  /// sudden, which shows in their own cost; reads hardly change.
  static constexpr uint32_t kTrial = 4, kTrialMost = 64, kFirstTrialAfter = 32, kTrialAfter = 2048;
  static constexpr int kMostBackoff = 8;

  struct Way {
    uint64_t cost = 0;  // ticks for 64 KiB; 0: not known
    void note(uint64_t its) { cost = cost == 0 ? its : std::min(its, cost + cost / 8 + 1); }
  };
  struct Size {
    Way slots, reads;
    bool prefersReads = false, trying = false;
    uint32_t messages = 0;  // since the last trial ended, or this one began
    uint32_t samples = 0;   // of this trial
    int backoff = 0;        // after trials without a sample: the other way is not taken
  };

  void note(uint32_t length, uint64_t ticks, bool read) {
    if (!measured_ || length < kReadFrom) return;
    const int c = sizeClassOf(length);
    Size& size = sizes_[c];
    ++size.messages;
    Way &way = read ? size.reads : size.slots, &other = read ? size.slots : size.reads;
    if (ticks > 0) way.note(std::max<uint64_t>((ticks << 16) / length, 1));
    if (size.trying) {
      if (read != size.prefersReads && ticks > 0) ++size.samples;
      if (size.samples < kTrial && size.messages < kTrialMost) return;
      endTrial(size);
    } else if (const uint32_t pause = other.cost == 0 ? kFirstTrialAfter : kTrialAfter;
               size.messages >= pause << size.backoff && read == size.prefersReads && way.cost > 0) {
      size.trying = true;
      size.messages = size.samples = 0;
      other.cost = 0;
    } else {
      prefer(size);
    }
    const uint32_t bit = 1u << c;
    wanted_ = size.prefersReads != size.trying ? wanted_ | bit : wanted_ & ~bit;
  }

  static void endTrial(Size& size) {
    size.backoff = size.samples > 0 ? 0 : std::min(size.backoff + 1, kMostBackoff);
    size.trying = false;
    size.messages = 0;
    prefer(size);
  }
  // Reads make the sender wait for the receiver, so they have to be better by something.
  static void prefer(Size& size) {
    if (size.slots.cost == 0 || size.reads.cost == 0) return;
    const uint64_t margin = size.prefersReads ? 0 : size.slots.cost / 5;
    size.prefersReads = size.reads.cost + margin < size.slots.cost;
  }

  const bool measured_;
  uint32_t wanted_ = 0;
  Size sizes_[kClasses];
};

}  // namespace eccl
