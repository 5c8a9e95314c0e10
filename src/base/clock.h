// Time as a value.
#pragma once

#include <chrono>

namespace eccl {

/// A span of time, in nanoseconds.
using Duration = std::chrono::nanoseconds;
/// A point on the monotonic clock of a System (base/system.h). Points of two Systems cannot be compared.
/// TimePoint::max() stands for never.
using TimePoint = std::chrono::time_point<std::chrono::steady_clock, Duration>;

}  // namespace eccl
