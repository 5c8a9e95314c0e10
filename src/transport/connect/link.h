// One Connection on its way to being established: what the Connector's table holds.
#pragma once

#include <memory>
#include <set>
#include <string>

#include "transport/connect/connector.h"
#include "transport/connect/flow_desk.h"
#include "transport/connect/peer_watch.h"
#include "transport/connect/rail_watch.h"
#include "transport/connect/rank_transports.h"
#include "transport/connect/setup.h"

namespace eccl::transport {

class Link;

/// What all links of one Connector share.
struct LinkContext {
  const ConnectorOptions& options;
  Reactor& reactor;
  RankTransports transports;
  PeerWatch peers;
  /// A connection could not be made, and the log says so: more of them are seldom news.
  bool failed = false;
  /// What the log says of rails that cannot be had, or lose packets, as "eth1 of node7".
  std::set<std::string> saidOfRails;
  RailWatch rails;  // started with the first connection of several sockets
  FlowDesk flows;
  /// A link that was not pending() is.
  std::function<void(Link& link)> onPending;
  /// The peer is gone. Called last: it may end in Connector::poison().
  std::function<void(Link& link, const Breakage& why)> onBroken;

  std::string describe(int rank) const { return transports.describe(rank); }
};

/// One Connection, and what it takes to make it. Owner: the Connector. Threads: the driver's. Failure: in the
/// Connection.
class Link : public ReadyHandler {
 public:
  ~Link() override { hangUp(); }
  /// Whether progress() has to be called: at once when something has happened, and at nextDeadline().
  virtual bool pending() const { return false; }
  virtual void progress() {}
  virtual TimePoint nextDeadline() const { return TimePoint::max(); }
  /// Some times in a second, once a connection of this rank has several sockets, or flows that are placed.
  virtual void look() {}
  /// Ends what is not ready yet, and fails the connection with `why` unless it has failed before. Nothing is
  /// logged. A path that is there stays.
  virtual void abandon(const Status& why);
  /// In a forked child: closes descriptors, takes nothing out of the reactor.
  virtual void closeAfterFork();
  /// "rank 0 (...) to rank 1 (...), channel 2, tag 3".
  std::string text() const { return context_.transports.context().text(connection.id()); }

  Connection connection;

 protected:
  /// The path has use for further sockets. Only senders' do.
  virtual void widen() {}
  virtual void narrowed(const SocketEnds& /*lost*/, const std::string& /*why*/) {}
  Link(LinkContext& context, ConnectionId id) : connection(id, context.options.rank), context_(context) {}
  /// Closes the socket of an unfinished set-up; does nothing if there is none.
  void hangUp();
  /// Abandons the connection with a sentence that names it and `why`. The first failure of a Connector is
  /// logged as a warning; later ones, and what the peer has ended, as INFO.
  void fail(Code code, const Breakage& why);
  /// For a path that takes what it wants of `socket`.
  Opening opening(Stream& socket) {
    return {socket, [this](const Breakage& why) { context_.onBroken(*this, why); }, [this] { widen(); },
            [this](const SocketEnds& lost, const std::string& why) { narrowed(lost, why); }};
  }

  LinkContext& context_;
  SetupSocket socket_;
};

}  // namespace eccl::transport
