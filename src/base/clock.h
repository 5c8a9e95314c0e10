// Time as a value.
#pragma once

#include <chrono>

namespace eccl {

/// Of the monotonic clock of a System (base/system.h).
using Duration = std::chrono::nanoseconds;
using TimePoint = std::chrono::time_point<std::chrono::steady_clock, Duration>;

}  // namespace eccl
