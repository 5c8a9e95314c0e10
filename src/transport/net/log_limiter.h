// Keeps outsiders from filling the log.
#pragma once

#include "base/clock.h"

namespace eccl::transport {

/// Lets a burst of lines through per period and counts the rest. One thread.
class LogLimiter {
 public:
  /// True when the line may be written; `*suppressed` is how many were swallowed since the last one that was.
  bool allow(TimePoint now, int* suppressed) {
    if (now - windowStart_ >= kPeriod) {
      windowStart_ = now;
      inWindow_ = 0;
    }
    if (++inWindow_ > kBurst) {
      ++suppressed_;
      return false;
    }
    *suppressed = suppressed_;
    suppressed_ = 0;
    return true;
  }

 private:
  static constexpr Duration kPeriod = std::chrono::seconds(10);
  static constexpr int kBurst = 5;
  TimePoint windowStart_ = TimePoint(-kPeriod);
  int inWindow_ = 0;
  int suppressed_ = 0;
};

}  // namespace eccl::transport
