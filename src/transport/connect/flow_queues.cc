#include "transport/connect/flow_queues.h"

#include "base/log.h"

namespace eccl::transport {

FlowQueues::FlowQueues(LinkContext& context, Connection& connection)
    : context_(context), connection_(connection) {
  for (const DeviceFlow& each : connection.path()->deviceFlows())
    flows_.push_back({{each.interface, each.from, 0}, {"", each.to.withPort(calledAt(each.to)), 0}});
  for (size_t flow = 0; flow < flows_.size(); ++flow) {
    const uint16_t port = dynamicPort(*context.options.system);
    if (const Status status = connection.path()->moveDeviceFlow(flow, port); status.ok()) {
      flows_[flow].port = port;
    } else {
      ECCL_INFO("%s stays where it is in the network: %s",
                context.transports.context().text(connection.id()).c_str(), status.message().c_str());
      flows_.clear();
    }
  }
  if (!flows_.empty()) context.rails.start(context.options.endpoint(context.options.rank).rails);
}

// The first port of a probe is traced by a call. Any port will do: who refuses it answers, too.
uint16_t FlowQueues::calledAt(const SocketAddress& peer) const {
  for (const SocketAddress& listener : context_.options.endpoint(connection_.peer()).addresses)
    if (listener.family() == peer.family()) return listener.port();
  return kRocePort;
}

FlowProbe::Options FlowQueues::probeOf(size_t flow, std::vector<uint16_t> ports) const {
  const Flow& between = flows_[flow];
  return {context_.options.system, between.mine.interface, between.mine.address,
          between.theirs.address,  std::move(ports),       kRocePort};
}

SocketReport FlowQueues::carried() const {
  SocketReport carried;
  carried.sentBytes = connection_.sendEnd.next;  // messages, which say as well that there were more
  return carried;
}

bool FlowQueues::move(size_t flow, uint16_t port) {
  moved_ = connection_.path()->moveDeviceFlow(flow, port);
  if (moved_->ok()) flows_[flow].before = std::exchange(flows_[flow].port, port);
  return true;
}

}  // namespace eccl::transport
