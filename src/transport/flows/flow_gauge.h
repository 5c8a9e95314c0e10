// How fast a flow is, as far as the network decides.
#pragma once

#include <optional>
#include <vector>

#include "base/clock.h"
#include "transport/core/socket_report.h"
#include "transport/flows/flow_message.h"

namespace eccl::transport {

/// Told of a flow's socket some times in a second. What a flow sends in the time in which it has something to
/// send is what the network lets through, but only if more is waiting: a rank that passes on what it receives
/// has always something to send, and sends what it gets. Where little waits, the rate at which bursts arrive
/// counts, as the kernel finds it: in three quarters of the looks it was more.
///
/// A value.
class FlowGauge {
 public:
  /// `megabits`: FlowPace's.
  explicit FlowGauge(uint32_t megabits = 0) : megabits_(megabits) {}
  /// `now` is of the socket over which the flow goes now. Nothing: more has to be seen, or it sends nothing.
  std::optional<FlowPace> look(const SocketReport& now);
  /// Whether it had sent anything at the latest look, since the one before.
  bool active() const { return active_; }

 private:
  void restart();
  uint32_t megabits_;
  SocketReport since_, latest_;
  std::vector<uint64_t> arriving_;  // bytes per second, as of each look
  size_t waiting_ = 0;              // looks that found bytes unsent
  bool active_ = false;
};

/// So many round trips, but no less time than 50 ms.
Duration roundTrips(int count, const SocketReport& socket);

}  // namespace eccl::transport
