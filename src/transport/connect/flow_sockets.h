// The sockets over which the flows of one connection go.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "transport/connect/further_socket.h"

namespace eccl::transport {

/// One flow for each socket that the connection is to have between two rails. Each has a socket and can take
/// another, from another port; long messages then go over that alone. Rails of which nothing is known keep all
/// sockets they have.
///
/// Owner: FlowPlacing. Threads: the driver's. Failure: the Status of each move.
class FlowSockets {
 public:
  struct Flow {
    Rail mine, theirs;
    uint16_t port = 0;    ///< from which it goes; 0: not known, it has none of its own
    uint16_t before = 0;  ///< the latest move: from which it went before
    uint32_t megabits() const { return std::min(mine.megabits, theirs.megabits); }
  };
  /// `hello` names the connection. All outlive this. `onReady`: progress() has something to do. No flows:
  /// between these ranks there are no ways to choose from.
  FlowSockets(LinkContext& context, Connection& connection, const Hello& hello, std::function<void()> onReady);
  const std::vector<Flow>& flows() const { return flows_; }
  /// Which sockets there are: once, when the connection has all that it begins with.
  void find();
  /// What the kernel knows of the sockets of the flows, in their order; known: it has one.
  std::vector<SocketReport> reports() const;
  /// Begins to have the flow go from this port, 0: any that is free. One at a time. False: it goes from there
  /// already, over a socket that was still open.
  bool move(size_t flow, uint16_t port);
  bool moving() const { return socket_.calling(); }
  /// How the move has ended, once. The socket before stays open until tidy().
  std::optional<Status> progress();
  TimePoint nextDeadline() const { return socket_.nextDeadline(); }
  /// Takes the latest move of a flow back.
  void takeBack(size_t flow);
  /// Closes the sockets that are not needed any more; those that still carry something the next time.
  void tidy() { connection_.path()->closeSpareSockets(); }
  void stop() { socket_.stop(); }
  void closeAfterFork() { socket_.closeAfterFork(); }

 private:
  void take(size_t flow, uint16_t port);
  void prefer();
  Connection& connection_;
  std::vector<Flow> flows_;
  size_t moving_ = 0;
  FurtherSocket socket_;
};

}  // namespace eccl::transport
