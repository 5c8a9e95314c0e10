// One Connection on its way to being established: what the Connector's table holds.
#pragma once

#include <memory>
#include <string>

#include "transport/connect/connector.h"
#include "transport/connect/peer_watch.h"
#include "transport/connect/setup.h"
#include "transport/shm/shared_heap.h"
#include "transport/tcp/tcp_path.h"

namespace eccl::transport {

class Link;

/// What all links of one Connector share.
struct LinkContext {
  const ConnectorOptions& options;
  Reactor& reactor;
  PeerWatch peers;
  /// Each rank of another process has one doorbell, whatever the number of connections, and this process one
  /// descriptor of it, whatever the number of its own ranks: descriptors are scarce.
  std::map<int, std::shared_ptr<Fd>> doorbells;
  /// A connection could not be made, and the log says so: more of them are seldom news.
  bool failed = false;
  /// The peer is gone. Called last: it may end in Connector::poison().
  std::function<void(Link& link, const std::string& reason)> onBroken;

  std::shared_ptr<Fd> doorbellOf(int rank, Fd offered);
  std::string describe(int rank) const {
    return options.describe ? options.describe(rank) : format("rank %d", rank);
  }
  /// " (ECCL_TRANSPORT=shm)", or nothing.
  std::string restrictions() const;
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
  std::string text() const;

  Connection connection;

 protected:
  Link(LinkContext& context, ConnectionId id) : connection(id, context.options.rank), context_(context) {}
  /// The end of the ring in `memory` that this side has.
  template <class End>
  void attach(End& end, void* memory) const {
    const ConnectorOptions& options = context_.options;
    attachRing(end, memory, options.ring, options.firstMessage, options.epoch);
    end.mine = mine_;
    end.theirs = theirs_.window;
  }
  /// Adds this process's heap to what the peer, another process, is given.
  void giveHeap(SetupMessage& message, std::vector<int>& fds) const;
  /// Maps the peer's heap, if the message came with one. Returns how much of it; 0: nothing.
  uint64_t takeHeap(const SetupMessage& message);
  /// The peer has mapped so much of this process's heap.
  void showHeap(uint64_t mapped);
  void hangUp();
  /// Logged: the first of a Connector for everybody, more for who looks closely.
  void fail(Code code, const std::string& why);
  TcpPath::Wiring tcpWiring(Fd socket, RingMemory memory);

  LinkContext& context_;
  SetupSocket socket_;
  Window mine_;      // what the peer can get at
  PeerHeap theirs_;  // what this side can get at
};

}  // namespace eccl::transport
