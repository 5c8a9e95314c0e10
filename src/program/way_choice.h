// Which way data takes between two ranks that look at one ring, threads or processes: the receiver decides, by
// what each way takes at the moment.
//
//            plain memory                                         memory that both see
//   writes   the sender copies into a slot, the receiver out      the sender writes it where it belongs
//   streams  the same, but the sender writes past its caches, into memory
//   reads    the receiver has the kernel copy it: one copy,       the receiver reads it where it is
//            and a system call
//
// None is always the best. In plain memory slots are, while the two cores share a cache that is large enough.
// If they share none, a sender that writes where the receiver has read waits for each line, and streams are.
// 256 KiB in one direction take 93 µs by slots, 28 by streams and 44 by reads then, and 12, 27 and 24 in a
// common cache (AMD EPYC, family 25 model 17, 2026-11-26; perf/results/single_copy.md). On virtual machines
// cores move while the program runs, so no figure is measured once for all.
//
// In memory that both see, who writes to a line that the other has looked at takes it away from there, line by
// line. What is read comes faster, and lies in the reader's own cache then, if it fits. Without a common cache
// 32 KiB each way (AlltoAll) take 6.2 µs by reads and 13 by writes, 512 KiB 93 and 170, by streams 67 (AMD
// EPYC, family 25 model 1, 2026-11-29). Sums that are written both here and there cannot be read: of those only
// the first two.
//
// A way's cost is the time that both sides spend on a message (program/timed_move.h). It is kept for each size,
// as the mean of late, or the least of the first ones; the ways that are not in use are tried now and then.
//
// Who writes to where a receiver wants it has waited for the offer before, once in a call. That wait is not
// seen: the sender may have come before the receiver. So it counts as a notice of a message takes. Without it
// AlltoAll of 64 and 256 KiB without a common cache often took 3.0 and 8.1 µs by streams, instead of 2.1
// and 5.5 by reads; AllGather of 64 KiB takes 2.2 now instead of 1.9 (AMD EPYC, family 26 model 2, 2026-12-01).
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <utility>

#include "program/ring_layout.h"

namespace eccl {

/// Of plain memory in the order in which they are preferred.
enum class DataWay : uint8_t { writes, streams, reads };
inline constexpr int kDataWays = 3;

/// Shorter messages are never read by the kernel: a system call alone takes as long.
inline constexpr uint32_t kReadFrom = 16384;
/// In memory that both see, messages of so many bytes are written, shorter ones read, until that proves worse.
/// In a common cache 128 KiB each way (AllGather) take 10.1 µs by reads and 12.7 by writes, 256 KiB 21.7
/// and 18.2 (AMD EPYC, family 25 model 1, 512 KiB of L2, 2026-11-29).
inline constexpr uint32_t kWriteFrom = 262144;
/// Shorter messages are never streamed: to wait until the data is in memory takes 0.3 µs, as long as 512 bytes
/// by slots take between cores without a common cache. 1 KiB takes 0.75 µs by slots there and 0.50 by streams,
/// 2 KiB 1.8 and 0.85; in a common cache 0.13 and 0.40, 0.32 and 0.53 (as above, before slots
/// were claimed).
inline constexpr uint32_t kStreamFrom = 1024;

/// By size of message: the power of two below. Those of calls with more than kFewMessages on a connection are
/// one class: such a call goes through more memory than most caches hold.
inline constexpr uint64_t kFewMessages = 4;
constexpr int sizeClassOf(uint32_t length, uint64_t messages = 1) {
  return messages > kFewMessages ? 31 : std::bit_width(length) - 1;
}
/// In memory that both see the messages of longer calls go as the program says. All is between the memory and
/// one side then, and whether results are written past the caches is measured by call
/// (runtime/executor/result_writes.h).
inline constexpr uint64_t kMostChosen = 16;

/// The choices of one receiving end for messages that have the same ways. A value. One thread at a time.
class WayChoice {
 public:
  static constexpr int64_t kMeasured = -1;
  /// Bytes from which messages are streamed, and read, whatever it takes: of a size that is a power of two, all
  /// of its class. 0: none are; kMeasured: as measured. What is streamed whatever it takes stands for what is
  /// written.
  WayChoice(int64_t streamFrom, int64_t readFrom)
      : measured_{true, streamFrom == kMeasured, readFrom == kMeasured},
        streamed_(classesFrom(streamFrom)),
        read_(classesFrom(readFrom)) {}
  /// Of messages that the receiver can read where they are, or have written where it wants them. It reads those
  /// of less than `readBelow` bytes, and has the others written, until another way proves better.
  static WayChoice ofShown(int64_t streamFrom, uint32_t readBelow = kWriteFrom) {
    WayChoice made(streamFrom, kMeasured);
    made.inPlace_ = true;
    for (int c = 0; (uint32_t{1} << c) < readBelow; ++c) {
      made.read_ |= 1u << c;
      made.sizes_[c].best = made.sizes_[c].tried = made.sizes_[c].last = DataWay::reads;
    }
    return made;
  }
  /// Messages cannot be read after all.
  void neverRead() {
    measured_[index(DataWay::reads)] = false;
    read_ = triesToRead_ = 0;
  }

  /// What is to be streamed, unless it is read: bit c for messages of class c.
  uint32_t streamed() const { return streamed_; }
  /// What is to be read, where it can be.
  uint32_t read() const { return read_; }
  /// What of that is read for a trial alone.
  uint32_t triesToRead() const { return triesToRead_; }

  /// Its notice took so many ticks: from when the sender had done its part until the receiver, who waited, saw
  /// it. The least counts, and a greater one in time: cores move.
  void noteNotice(uint64_t ticks) {
    notice_ = notice_ == 0 ? ticks : std::min(ticks, notice_ + notice_ / 16 + 1);
  }

  /// A message came that way, and that took so many ticks; 0: it was not measured. `messages`: of the call.
  void note(DataWay way, uint32_t length, uint64_t ticks, uint64_t messages = 1) {
    if (way == DataWay::streams && !measured_[index(way)]) way = DataWay::writes;
    if (!weighed(way, length)) return;
    if (ticks > 0 && inPlace_ && way != DataWay::reads) ticks += notice_ / messages;
    const int c = sizeClassOf(length, messages);
    Size& size = sizes_[c];
    ++size.messages;
    if (ticks > 0) size.costs[index(way)].note(std::max<uint64_t>((ticks << 16) / length, 1));
    if (size.tried != size.best) {
      if (way == size.tried && ticks > 0) ++size.samples;
      if (size.samples < kTrial && !size.isHopeless() && size.messages < kTrialMost) return;
      size.endTrial(inPlace_);
    } else if (size.isChallenged()) {
      if (way == size.best && ticks > 0) ++size.samples;
      if (size.samples < kAgain && size.messages < kTrialMost) return;
      size.endChallenge(inPlace_);
    } else {
      if (ticks > 0) ++size.samples;
      const DataWay other = next(size, length);
      if (other != size.best && size.of(way) > 0 && (way == size.best || size.best == DataWay::reads) &&
          size.samples >= size.pause << size.backoff[index(other)])
        size.begin(other);
      else
        size.prefer(inPlace_);
    }
    const uint32_t bit = 1u << c;
    if (measured_[index(DataWay::streams)])
      streamed_ = size.streams(inPlace_) ? streamed_ | bit : streamed_ & ~bit;
    if (!measured_[index(DataWay::reads)]) return;
    read_ = size.tried == DataWay::reads ? read_ | bit : read_ & ~bit;
    const bool isTrial = size.tried == DataWay::reads && size.best != DataWay::reads;
    triesToRead_ = isTrial ? triesToRead_ | bit : triesToRead_ & ~bit;
  }

 private:
  static constexpr int kClasses = 32;
  static constexpr int64_t kFullSlot = 131072;  // or more: slotBytesFor()
  /// A trial costs up to some times as much as the best way, so it is made seldom: the less often, the more of
  /// them have changed nothing. Slots get dear all of a sudden, which shows in their own cost; the others
  /// hardly change. The first trials come soon: the way that is taken at first may be five times as dear. What
  /// a trial finds better is not taken before some more messages have gone the old way: what made that dear may
  /// be over, as with a first long call, all of which goes into fresh memory. Where nothing comes the old way
  /// any more, it counts as it was.
  static constexpr uint32_t kTrial = 4, kTrialMost = 64, kAgain = 3, kFirstPause = 8, kLongestPause = 4096;
  /// Of the first samples of all the least counts: those messages go into memory that nobody has touched
  /// before, the slots and the program's own, which takes several times as long.
  static constexpr uint32_t kCold = 32;
  static constexpr int kMostBackoff = 8;

  static constexpr size_t index(DataWay way) { return static_cast<size_t>(way); }
  static constexpr uint32_t classesFrom(int64_t bytes) {
    uint32_t classes = 0;
    for (int c = 0; c < kClasses - 1 && bytes > 0; ++c)
      if ((int64_t{1} << c) >= bytes) classes |= 1u << c;
    // Most messages of long calls fill a slot.
    if (bytes > 0 && bytes <= kFullSlot) classes |= 1u << (kClasses - 1);
    return classes;
  }

  struct Cost {
    uint64_t ticks = 0;  // for 64 KiB; 0: not known
    uint32_t samples = 0;
    /// The least of some; then about the mean, but for single long times, which say that something interrupted.
    void note(uint64_t its) {
      if (++samples <= kCold)
        ticks = ticks == 0 ? its : std::min(ticks, its);
      else
        ticks = (15 * ticks + std::min(its, 2 * ticks) + 8) / 16;
    }
  };
  static constexpr Cost kAnew{0, kCold - kTrial};  // of the next kTrial samples, too, the least counts
  struct Size {
    Cost costs[kDataWays];
    DataWay best = DataWay::writes;
    DataWay tried = DataWay::writes;  // the way that is wanted; `best` unless there is a trial
    DataWay last = DataWay::writes;   // that was tried
    uint32_t messages = 0;            // noted in this trial, or challenge
    uint32_t samples = 0;             // of its way; else of all messages since the last one
    uint32_t pause = kFirstPause;     // samples before the next trial
    int backoff[kDataWays] = {};      // after trials without a sample: that way is not taken
    Cost former;                      // of `best`, which is measured anew as a trial was better; else not known

    uint64_t of(DataWay way) const { return costs[index(way)].ticks; }
    void begin(DataWay way) {
      tried = last = way;
      messages = samples = 0;
      costs[index(way)] = kAnew;
    }
    void endTrial(bool inPlace) {
      int& its = backoff[index(tried)];
      its = samples > 0 ? 0 : std::min(its + 1, kMostBackoff);
      pause = std::min(2 * pause, kLongestPause);
      if (beats(tried, best, inPlace)) former = std::exchange(costs[index(best)], kAnew);
      tried = best;
      messages = samples = 0;
    }
    bool isChallenged() const { return former.ticks > 0; }
    // Where nothing has come the old way any more, it counts as it was. If it gives way it keeps its mean: the
    // least of some samples would soon bring it back.
    void endChallenge(bool inPlace) {
      samples = 0;
      const DataWay old = best;
      const Cost before = std::exchange(former, {});
      if (of(old) == 0) costs[index(old)] = before;
      prefer(inPlace);
      if (best != old) costs[index(old)] = before;
    }
    // Two samples are enough to see that a trial changes nothing.
    bool isHopeless() const { return samples >= 2 && of(best) > 0 && of(tried) > 2 * of(best); }
    // Reads by the kernel make the sender wait for the receiver, and streams keep the caches from others' data,
    // so they have to be better by something. Where reads are in place any change has to be: a trial begins
    // with lines that the other way has left where it does not want them.
    bool beats(DataWay way, DataWay other, bool inPlace) const {
      if (of(way) == 0 || of(other) == 0) return false;
      return of(way) + (inPlace || way > other ? of(other) / 4 : 0) < of(other);
    }
    void prefer(bool inPlace) {
      for (const DataWay way : {DataWay::writes, DataWay::streams, DataWay::reads})
        if (way != best && beats(way, best, inPlace)) {
          best = way;
          pause = kFirstPause;
        }
      tried = best;
    }
    // What cannot be read, though it should be, is copied the better way.
    bool streams(bool inPlace) const {
      return tried == DataWay::streams ||
             (tried == DataWay::reads && beats(DataWay::streams, DataWay::writes, inPlace));
    }
  };

  bool weighed(DataWay way, uint32_t length) const {
    return measured_[index(way)] && length >= (way == DataWay::reads && !inPlace_ ? kReadFrom : kStreamFrom);
  }
  /// What is to be tried next: they take turns. The best, if there is no other.
  DataWay next(const Size& size, uint32_t length) const {
    for (size_t i = 1; i <= kDataWays; ++i) {
      const auto way = static_cast<DataWay>((index(size.last) + i) % kDataWays);
      if (way != size.best && weighed(way, length)) return way;
    }
    return size.best;
  }

  bool measured_[kDataWays];
  bool inPlace_ = false;
  uint32_t streamed_, read_, triesToRead_ = 0;
  uint64_t notice_ = 0;  // ticks; 0: not known
  Size sizes_[kClasses];
};

/// All choices of a receiving end, by MessageKind.
using WayChoices = std::array<WayChoice, kMessageKinds>;

}  // namespace eccl
