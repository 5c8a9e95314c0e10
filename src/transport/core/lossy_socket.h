// A socket that a path has found to lose packets.
#pragma once

#include <cstdint>

#include "base/clock.h"
#include "transport/net/socket_ends.h"

namespace eccl::transport {

/// A value.
struct LossySocket {
  SocketEnds ends;
  uint64_t packets = 0, lost = 0;
  Duration during{};   ///< in which that was counted
  Duration rest{};     ///< messages leave it out for so long
  bool again = false;  ///< it was left out before, and has proved no better since
};

}  // namespace eccl::transport
