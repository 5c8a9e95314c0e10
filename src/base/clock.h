// Time as a value that tests can hold still.
#pragma once

#include <chrono>

namespace eccl {

using Duration = std::chrono::nanoseconds;
using TimePoint = std::chrono::time_point<std::chrono::steady_clock, Duration>;

/// Thread-safe. now() never goes back.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual TimePoint now() const = 0;

  /// The machine's monotonic clock.
  static const Clock& system();
};

}  // namespace eccl
