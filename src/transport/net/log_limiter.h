// Keeps lines that peers or strangers cause from filling the log.
#pragma once

#include "base/clock.h"

namespace eccl::transport {

/// Lets five lines through in ten seconds and counts the rest. One thread.
class LogLimiter {
 public:
  /// True when the line may be written; `*suppressed` is then how many were dropped since the last one that
  /// was. False: it is to be dropped, and `*suppressed` is left alone.
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
