// How a plan's results are written: through the caches, or past them into memory. What is read again at once
// should stay in the caches; what they cannot hold is written twice as fast past them, since lines are then not
// read before they are written. From which size on depends on the processor, and on what others do to caches
// that they share (on virtual machines, for hours), so it is measured while calls are made.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace eccl::runtime {

/// By the size of a rank's buffers and its share of the largest cache, in bytes.
enum class ResultSize : uint8_t {
  small,   ///< never past the caches
  medium,  ///< as measured
  large,   ///< always past them: the first results would be out again before the last are there
};
/// Two ranks that share 32 MiB of L3 (AMD EPYC, family 25 model 1; perf/results/epyc-25-1/thresholds.md): with
/// buffers of .75 to 1 share a call past the caches took .6 to .9 of the time on 28 November 2026, and 1.0
/// to 1.3 times the time on the 25th; with a quarter of it, 1.2 times and more on both. From 1.5 on it was
/// never slower.
constexpr ResultSize resultSizeOf(size_t footprint, size_t cacheShare) {
  if (footprint / 3 >= cacheShare / 2) return ResultSize::large;
  return footprint >= cacheShare / 3 ? ResultSize::medium : ResultSize::small;
}

/// The choice for one plan, whose calls are all alike. The other way is tried for some calls now and then, and
/// taken if the best of them took clearly less than the best of the latest before: interruptions, which only
/// add, mislead neither. Owner: the plan. Threads: the driver's.
class ResultWrites {
 public:
  /// How the call that begins writes.
  bool past() const { return past_ != trying_; }
  /// A call that wrote so took so long for each byte, in whatever unit; 0: that is not known.
  void note(bool past, uint64_t cost) {
    if (past != this->past() || cost == 0) return;  // it began before a trial, or there is no clock
    if (!trying_) {
      latest_[calls_ % kTrial] = cost;
      trying_ = ++calls_ >= pause_;
      if (trying_) calls_ = 0;
      return;
    }
    best_ = calls_ == 0 ? cost : std::min(best_, cost);
    if (++calls_ < kTrial) return;
    const bool better = best_ < *std::min_element(latest_, latest_ + kTrial) / 8 * 7;
    if (better) past_ = !past_;
    pause_ = better ? kFirstPause : std::min(2 * pause_, kLongestPause);
    calls_ = 0;
    trying_ = false;
  }

 private:
  /// The longest pause makes one call in 128 a trial.
  static constexpr uint32_t kTrial = 4, kFirstPause = 8, kLongestPause = 512;
  bool past_ = false, trying_ = false;
  uint32_t pause_ = kFirstPause;
  uint32_t calls_ = 0;  // of this trial, or since the last one
  uint64_t latest_[kTrial] = {};
  uint64_t best_ = 0;  // of this trial
};

}  // namespace eccl::runtime
