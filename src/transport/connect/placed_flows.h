// The flows of one connection, whose source ports decide by which way through the network they go.
#pragma once

#include <algorithm>
#include <optional>
#include <vector>

#include "transport/core/socket_report.h"
#include "transport/flows/flow_probe.h"
#include "transport/net/rails.h"

namespace eccl::transport {

/// Flows of a kind: sockets (FlowSockets), or queue pairs of an RDMA device (FlowQueues). One moves at a time.
///
/// Owner: FlowPlacing. Threads: the driver's. Failure: the Status of each move.
class PlacedFlows {
 public:
  struct Flow {
    Rail mine, theirs;
    uint16_t port = 0;    ///< from which it goes; 0: not known
    uint16_t before = 0;  ///< the latest move: from which it went before
    uint32_t megabits() const { return std::min(mine.megabits, theirs.megabits); }
  };
  virtual ~PlacedFlows() = default;
  /// None: between these ranks there are no ways to choose from.
  const std::vector<Flow>& flows() const { return flows_; }
  /// Finds out from which ports they go: once, when the connection has all that it begins with.
  virtual void find() {}
  /// What traces the ways of a flow from these ports; 0: any that is free.
  virtual FlowProbe::Options probeOf(size_t flow, std::vector<uint16_t> ports) const = 0;
  /// What the kernel knows of each, in their order; known: it does. Empty: of such flows it knows nothing.
  virtual std::vector<SocketReport> reports() const { return {}; }
  /// What all have carried: bytes that were sent, and packets sent again, are other numbers when there were
  /// more.
  virtual SocketReport carried() const = 0;
  /// Begins to have the flow go from this port, 0: any that is free. False: it goes from there already.
  virtual bool move(size_t flow, uint16_t port) = 0;
  virtual bool moving() const = 0;
  /// How the move has ended, once.
  virtual std::optional<Status> progress() = 0;
  virtual TimePoint nextDeadline() const = 0;
  /// Takes the latest move of a flow back, before tidy().
  virtual void takeBack(size_t /*flow*/) {}
  /// What moves have left is given up, as far as it is not needed any more.
  virtual void tidy() {}
  virtual void stop() = 0;
  virtual void closeAfterFork() {}

 protected:
  std::vector<Flow> flows_;
};

}  // namespace eccl::transport
