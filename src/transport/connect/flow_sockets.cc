#include "transport/connect/flow_sockets.h"

#include <algorithm>

namespace eccl::transport {
namespace {

bool isBetween(const FlowSockets::Flow& flow, const SocketEnds& ends) {
  return flow.mine.address.sharesHost(ends.local) && flow.theirs.address.sharesHost(ends.remote);
}

}  // namespace

FlowSockets::FlowSockets(LinkContext& context, Connection& connection, const Hello& hello,
                         std::function<void()> onReady)
    : context_(context), connection_(connection), socket_(context, connection, hello, std::move(onReady)) {
  const ConnectorOptions& options = context.options;
  const std::vector<Rail>& mine = options.endpoint(options.rank).rails;
  const std::vector<Rail>& theirs = options.endpoint(connection.peer()).rails;
  for (const RailPair& pair : railPairs(mine, theirs, options.socketsPerRail, options.crossRail)) {
    const Rail& here = mine[static_cast<size_t>(pair.mine)];
    const Rail& there = theirs[static_cast<size_t>(pair.theirs)];
    const bool sameHost = findAt(mine, there.address) != nullptr;
    if (!sameHost && here.address.family() == there.address.family()) flows_.push_back({here, there});
  }
}

void FlowSockets::find() {
  for (const SocketReport& socket : connection_.path()->sockets()) {
    const auto without = std::find_if(flows_.begin(), flows_.end(), [&](const Flow& flow) {
      return flow.port == 0 && isBetween(flow, socket.ends);
    });
    if (without != flows_.end()) without->port = socket.ends.local.port();
  }
}

FlowProbe::Options FlowSockets::probeOf(size_t flow, std::vector<uint16_t> ports) const {
  const Flow& between = flows_[flow];
  return {context_.options.system, between.mine.interface, between.mine.address, between.theirs.address,
          std::move(ports)};
}

SocketReport FlowSockets::carried() const {
  SocketReport all;
  for (const SocketReport& one : connection_.path()->sockets()) all.add(one);
  return all;
}

std::vector<SocketReport> FlowSockets::reports() const {
  std::vector<SocketReport> reports(flows_.size());
  for (const SocketReport& socket : connection_.path()->sockets()) {
    const uint16_t port = socket.ends.local.port();
    for (size_t flow = 0; port != 0 && flow < flows_.size(); ++flow)
      if (flows_[flow].port == port && isBetween(flows_[flow], socket.ends)) reports[flow] = socket;
  }
  return reports;
}

bool FlowSockets::move(size_t flow, uint16_t port) {
  if (port != 0) {
    for (const SocketReport& socket : connection_.path()->sockets()) {
      if (socket.ends.local.port() != port || !isBetween(flows_[flow], socket.ends)) continue;
      take(flow, port);
      return false;
    }
  }
  moving_ = flow;
  DialOptions how;
  how.interface = flows_[flow].mine.interface;
  how.from = flows_[flow].mine.address.withPort(port);
  socket_.call(flows_[flow].theirs.address, std::move(how));
  return true;
}

std::optional<Status> FlowSockets::progress() {
  std::optional<Status> status = socket_.progress();
  if (status && status->ok()) take(moving_, socket_.ends().local.port());
  return status;
}

void FlowSockets::take(size_t flow, uint16_t port) {
  flows_[flow].before = std::exchange(flows_[flow].port, port);
  prefer();
}

void FlowSockets::takeBack(size_t flow) {
  std::swap(flows_[flow].port, flows_[flow].before);
  prefer();
}

// A flow whose socket is lost counts for nothing: there may be another between its rails.
void FlowSockets::prefer() {
  const std::vector<SocketReport> there = reports();
  connection_.path()->preferSockets([&](const SocketEnds& ends) {
    bool between = false, itself = false;
    for (size_t i = 0; i < flows_.size(); ++i) {
      const Flow& flow = flows_[i];
      if (there[i].ends.local.port() == 0 || !isBetween(flow, ends)) continue;
      between = true;
      itself = itself || ends.local.port() == flow.port;
    }
    return itself || !between;
  });
}

}  // namespace eccl::transport
