// The queue pairs over which the flows of one connection go, where its path says that their ports can be
// chosen.
#pragma once

#include <utility>

#include "transport/connect/link.h"
#include "transport/connect/placed_flows.h"

namespace eccl::transport {

/// A queue pair goes on from another port at once: it stays what it is. At first it is moved to any port, which
/// shows whether the device does that. Where it does not, there are no flows, and the log says why.
///
/// Their ways are traced over UDP, from the interface of the device's. Packets that are lost the device sends
/// again itself, so nobody hears of them here.
class FlowQueues final : public PlacedFlows {
 public:
  /// Both outlive this.
  FlowQueues(LinkContext& context, Connection& connection);
  FlowProbe::Options probeOf(size_t flow, std::vector<uint16_t> ports) const override;
  SocketReport carried() const override;
  bool move(size_t flow, uint16_t port) override;
  bool moving() const override { return moved_.has_value(); }
  std::optional<Status> progress() override { return std::exchange(moved_, std::nullopt); }
  TimePoint nextDeadline() const override { return moving() ? TimePoint{} : TimePoint::max(); }
  void stop() override { moved_.reset(); }

 private:
  uint16_t calledAt(const SocketAddress& peer) const;
  LinkContext& context_;
  Connection& connection_;
  std::optional<Status> moved_;  // how, to be told
};

}  // namespace eccl::transport
