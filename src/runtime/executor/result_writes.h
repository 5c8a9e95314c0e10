// How a plan's results are written: through the caches, or past them into memory. What is read again at once
// should stay in the caches; what they cannot hold is written faster past them, since lines are then not read
// before they are written. From which size on depends on the processor, and on what others do to caches
// that they share (on virtual machines, for hours), so it is measured while calls are made.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace eccl::runtime {

/// What is usual: past the caches if a rank's buffers (`footprint`) are 1.5 times its share of the largest
/// cache, or more, as the first results would be out again before the last are there. Bytes.
constexpr bool writesPastCaches(size_t footprint, size_t cacheShare) {
  return footprint / 3 >= cacheShare / 2;
}
/// From a third of the share to three of them it is measured. What others do decides there: of two ranks that
/// share 32 MiB of L3, calls with buffers of .75 to 1.1 shares took .6 to .8 of the time past the caches on
/// one day, and .97 to 1.2 on another (AMD EPYC, family 25 model 1; perf/results/epyc-25-1/thresholds.md), and
/// at 1.5 shares up to 1.4 on another processor (perf/results/epyc-26-2/thresholds.md).
constexpr bool isMeasured(size_t footprint, size_t cacheShare) {
  return footprint >= cacheShare / 3 && footprint / 3 < cacheShare;
}

/// The choice for one plan, whose calls are alike. The other way is tried for some calls now and then, and
/// taken if the best of them took clearly less than the best of the latest before: interruptions, which only
/// add, mislead neither; two calls of a trial that take half as long again end it, and the next comes much
/// later. Only the moves that write results count: what peers, or the caller, wait for when they read them is
/// not known. Owner: the plan. Threads: the driver's.
class ResultWrites {
 public:
  explicit ResultWrites(bool past) : past_(past) {}
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
    const uint64_t before = *std::min_element(latest_, latest_ + kTrial);
    const bool hopeless = ++calls_ >= 2 && best_ >= before / 2 * 3;
    if (calls_ < kTrial && !hopeless) return;
    const bool better = best_ < before / 8 * 7;
    if (better) past_ = !past_;
    pause_ = better ? kFirstPause : std::min((hopeless ? 8 : 2) * pause_, kLongestPause);
    calls_ = 0;
    trying_ = false;
  }

 private:
  /// Of calls one after the other, one in 128 is a trial in the end.
  static constexpr uint32_t kTrial = 4, kFirstPause = 8, kLongestPause = 512;
  bool past_, trying_ = false;
  uint32_t pause_ = kFirstPause;
  uint32_t calls_ = 0;  // of this trial, or since the last one
  uint64_t latest_[kTrial] = {};
  uint64_t best_ = 0;  // of this trial
};

}  // namespace eccl::runtime
