// What LaneExecutors tell each other: the first byte.
#pragma once

#include <cstdint>

namespace eccl::runtime::cuda {

/// ring: a part of a ring is lent (rings.h). The rest: a block of ecclMemAlloc's is shown, and opened; it is
/// taken back, and closed (shown_memory.h).
enum class Said : uint8_t { ring = 1, shown = 2, opened = 3, taken = 4, closed = 5 };

}  // namespace eccl::runtime::cuda
