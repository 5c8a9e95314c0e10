// How long the parts of a communicator's making take.
#pragma once

#include <string>

#include "base/status.h"
#include "base/system.h"

namespace eccl::runtime {

/// A stopwatch that runs from its making. Time of the rank's System. One thread.
class InitTimes {
 public:
  explicit InitTimes(System& system) : system_(system), begun_(system.now()), last_(begun_) {}

  /// What has been done since the last call, or since the making, was `part`.
  void passed(const char* part) {
    const TimePoint now = system_.now();
    parts_ += format("%s%s %.3g", parts_.empty() ? "" : ", ", part, seconds(now - last_));
    last_ = now;
  }
  /// "1.23 s (rendezvous 1.1, control tree 0.1, ...)": until the last call, each part in seconds.
  std::string text() const { return format("%.3g s (%s)", seconds(last_ - begun_), parts_.c_str()); }

 private:
  static double seconds(Duration time) { return std::chrono::duration<double>(time).count(); }

  System& system_;
  const TimePoint begun_;
  TimePoint last_;
  std::string parts_;
};

}  // namespace eccl::runtime
