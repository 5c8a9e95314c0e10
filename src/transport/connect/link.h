// One Connection on its way to being established: what the Connector's table holds.
#pragma once

#include <memory>
#include <string>

#include "transport/connect/connector.h"
#include "transport/connect/peer_watch.h"
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
  /// The peer is gone. Called last: it may end in Connector::poison().
  std::function<void(Link& link, const std::string& reason)> onBroken;

  std::string describe(int rank) const { return transports.describe(rank); }
};

/// Owner: the Connector. Threads: the driver's. Failure: in the Connection.
class Link : public ReadyHandler {
 public:
  ~Link() override { hangUp(); }
  /// While this is true progress() has to be called at nextDeadline().
  virtual bool pending() const { return false; }
  virtual void progress() {}
  virtual TimePoint nextDeadline() const { return TimePoint::max(); }
  /// Gives up what is not ready yet; nothing is logged.
  virtual void abandon(const Status& why);
  virtual void closeAfterFork();
  /// "rank 0 (...) to rank 1 (...), channel 2, tag 3".
  std::string text() const { return context_.transports.context().text(connection.id()); }

  Connection connection;

 protected:
  Link(LinkContext& context, ConnectionId id) : connection(id, context.options.rank), context_(context) {}
  void hangUp();
  /// Logged: the first of a Connector for everybody, more for who looks closely.
  void fail(Code code, const std::string& why);
  /// For a path that takes what it wants of `socket`.
  Opening opening(Fd& socket) {
    return {socket, [this](const std::string& reason) { context_.onBroken(*this, reason); }};
  }

  LinkContext& context_;
  SetupSocket socket_;
};

}  // namespace eccl::transport
