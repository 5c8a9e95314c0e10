// What the fault decorator (fault_path.h) does to the sending ends of a rank's connections.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/clock.h"

namespace eccl::transport {

/// Plain value. The same seed does the same to a connection, given the same clock. Order is never changed.
struct FaultPlan {
  uint64_t seed = 1;
  Duration delay{};                ///< every message and credit waits between zero and this
  uint64_t stallAt = UINT64_MAX;   ///< the message, counted from 0, before which the way is blocked ...
  Duration stallFor{};             ///< ... for so long
  uint64_t cutAfter = UINT64_MAX;  ///< messages after which the way ends
  size_t bytesPerCall = SIZE_MAX;  ///< TCP: most bytes that one socket call moves
};

}  // namespace eccl::transport
