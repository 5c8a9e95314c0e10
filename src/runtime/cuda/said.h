// What LaneExecutors tell each other: the first byte.
#pragma once

#include <cstdint>

namespace eccl::runtime::cuda {

/// ring: a part of a ring is lent (rings.h). shown, opened: memory of ecclMemAlloc is (shown_memory.h).
enum class Said : uint8_t { ring = 1, shown = 2, opened = 3 };

}  // namespace eccl::runtime::cuda
