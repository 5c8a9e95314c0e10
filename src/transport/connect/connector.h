// Makes Connections: the sending side dials the receiver's Acceptor, the receiving side expects the call.
//
// The transport is found by trial, never by comparing names: the dialer goes through those that the settings
// allow (core/transport.h), by priority. Each is offered to the peer over what it reaches: among the threads
// of this process, over the peer's AF_UNIX socket, or over TCP. If a transport does not work, the dialer says
// so in the log (INFO) and tries the next.
//
// Set-ups are many when a communicator is large, and descriptors few. So dials and offers wait for one of few
// turns (net/descriptors.h). A receiver keeps few callers whose connection it has not asked for yet, and
// takes few offers at a time. It tells the rest when to come again, and they hold no descriptor meanwhile.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "program/delivery.h"
#include "transport/core/connection.h"
#include "transport/core/reactor.h"
#include "transport/core/transport.h"
#include "transport/net/acceptor.h"
#include "transport/net/dialer.h"

namespace eccl::transport {

struct FaultPlan;
class RankTransports;

/// Messages that a peer has not taken and never will.
struct Untaken {
  int peer = 0;
  bool pointToPoint = false;  // by Send, else of a collective
  bool inGraph = false;       // that a graph made
  uint64_t messages = 0;
};

/// What a Connector is made with. Constant afterwards. The functions are called by the driver, endpoint()
/// only when the ranks have met.
struct ConnectorOptions {
  uint64_t communicator = 0;
  Secret secret;
  int rank = 0;
  Identity identity{};  // of this rank's Acceptor: under it, threads of this process find this rank
  RingShape ring;       // the same on all ranks; none: setRings() comes before the first get()
  uint64_t firstMessage =
      0;  // number of a connection's first message; the same on all ranks; for tests near a wrap
  uint16_t epoch = 0;
  TransportChoice transports;
  bool allowDirect = true;            // ranks on this host read and write each other's user memory
  uint32_t directFrom = kDirectFrom;  // bytes from which they do
  int64_t singleCopy = -1;            // bytes from which plain memory is read; 0: never; -1: as measured
  int64_t slotStreaming = -1;         // likewise: from which messages are written past the caches
  uint32_t zeroCopyFrom = 16384;      // bytes from which a socket sends straight from the user's memory
  Duration connectLimit = std::chrono::seconds(20);  // to reach a peer; see get()
  int socketsPerRail = 1;                            // of connections over the network; see railPairs()
  bool crossRail = true;
  // Long against a frame and a system call, short against what a slow link carries while a fast one is done.
  uint32_t partBytes = 32 << 10;
  size_t mostUnasked = 0;  // callers kept until somebody asks for their connections; 0: descriptorShare()
  System* system = &System::real();
  /// "rank 3 (host pid 12)", for messages.
  std::function<std::string(int rank)> describe;
  /// TransportContext's; not set: all settings are empty.
  std::function<std::string(std::string_view name)> setting;
  /// Where a rank's Acceptor is.
  std::function<const Endpoint&(int rank)> endpoint;
  /// A peer's socket broke, or it was found dead, outside any orderly end. Once per rank; logged (INFO). It
  /// may call poison(); it must not destroy the Connector.
  std::function<void(int rank, const std::string& reason)> onBroken;
  /// One of several rails is lost: the sentence names connection, sockets and cause. At most once; not logged.
  /// It may call poison().
  std::function<void(const std::string& what)> onRailLost;
  /// Tells rank `target`, or all ranks if it is negative, what its Connector::hearFlows() is to hear. Not set:
  /// flows are not placed.
  std::function<void(int target, std::string message)> tellFlows;
  bool placeUnseen = false;           // flows are moved by trial also where there seem to be no routers
  const FaultPlan* faults = nullptr;  // for tests: what goes wrong on the way; not owned
};

/// The connections of one rank. Owner: the engine. Threads: the driver's, one at a time, except where said.
/// Failure: of a connection, in its state; of a peer, by onBroken; no call of this class fails.
///
/// Destruction closes all connections. Peers that have not been told of an orderly end take it for a failure.
class Connector {
 public:
  /// Threads of this process find the rank from now on. `reactor` is the driver's, and outlives this.
  Connector(ConnectorOptions options, Reactor& reactor);
  ~Connector();

  /// Sets ConnectorOptions::ring, and TransportContext::directFrom and slotSpread, for connections to come.
  /// Callers that wait already and have other rings are turned away.
  void setRings(const RingShape& ring, uint32_t directFrom, uint64_t slotSpread);
  /// The connection of this name, made on first use; never null, and there as long as the Connector. See
  /// Connection::state(): it is usually still connecting.
  ///
  /// If the peer cannot be reached within connectLimit, the connection fails with a message that names the
  /// peer and everything that was tried. When the peer is reached, the connection waits without limit until
  /// the peer asks for it too: a rank may come to a collective later than another.
  Connection* get(const ConnectionId& id);
  /// Takes an authenticated caller (Hello::purpose data), before or after get() of that name. One that cannot
  /// be served is told why, or when to come again.
  void adopt(Incoming incoming);
  /// What rank `origin` says of the placing of flows (ConnectorOptions::tellFlows).
  void hearFlows(int origin, std::string_view message);
  /// Takes what threads of this process have offered, goes on with unfinished dials and set-ups, and lets
  /// transports poll. To be called with each pass of the driver.
  void progress();
  /// When progress() must be called although nothing becomes ready; TimePoint::max() if never.
  TimePoint nextDeadline() const;

  /// Poisons every connection: peers learn that this rank has failed, and their access to its memory is
  /// revoked (Path::poison()). What is not ready is given up, and nobody new is let in. May wait for peers
  /// that are in the middle of a message. Idempotent.
  void poison();
  /// Tells all senders that nothing more will be taken here. Once, after the last Run.
  void endReceiving();
  /// Asks all receivers for the releases that drained() waits for. Once, after the last Run.
  void askForReleases();
  /// True when every message sent has been released by its receiver, or never will be, and every release told.
  bool drained() const;
  /// What has been sent and not been taken, by peer and kind: after drained() that is what never will be.
  /// Counts broken connections too.
  std::vector<Untaken> untaken() const;
  /// The other side has left in order: from now on broken sockets of that rank are not told to onBroken.
  void expectEnd(int rank);
  /// expectEnd() was called for it.
  bool hasLeft(int rank) const;
  /// Visits every connection, in whatever state. `visit` must not make any.
  void forEach(const std::function<void(Connection&)>& visit);
  /// Those of this rank, for what concerns them alone: memory, and ports (TransportContext::nearPorts, before
  /// the first connection).
  RankTransports& transports();
  /// In a forked child: closes descriptors and tells nobody.
  void closeAfterFork();

 private:
  struct Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace eccl::transport
