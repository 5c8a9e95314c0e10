// The sockets over which the flows of one connection go.
#pragma once

#include <functional>

#include "transport/connect/further_socket.h"
#include "transport/connect/placed_flows.h"

namespace eccl::transport {

/// One flow for each socket that the connection is to have between two rails. Each has a socket and can take
/// another, from another port; long messages then go over that alone. Rails of which nothing is known keep all
/// sockets they have.
class FlowSockets final : public PlacedFlows {
 public:
  /// `hello` names the connection. All outlive this. `onReady`: progress() has something to do.
  FlowSockets(LinkContext& context, Connection& connection, const Hello& hello, std::function<void()> onReady);
  void find() override;
  FlowProbe::Options probeOf(size_t flow, std::vector<uint16_t> ports) const override;
  std::vector<SocketReport> reports() const override;
  SocketReport carried() const override;
  /// At once where a socket from this port is still open. The one before stays open until tidy().
  bool move(size_t flow, uint16_t port) override;
  bool moving() const override { return socket_.calling(); }
  std::optional<Status> progress() override;
  TimePoint nextDeadline() const override { return socket_.nextDeadline(); }
  void takeBack(size_t flow) override;
  /// Closes sockets; those that still carry something the next time.
  void tidy() override { connection_.path()->closeSpareSockets(); }
  void stop() override { socket_.stop(); }
  void closeAfterFork() override { socket_.closeAfterFork(); }

 private:
  void take(size_t flow, uint16_t port);
  void prefer();
  LinkContext& context_;
  Connection& connection_;
  size_t moving_ = 0;
  FurtherSocket socket_;
};

}  // namespace eccl::transport
