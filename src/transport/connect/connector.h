// Makes Connections: the sending side dials the receiver's Acceptor, the receiving side expects the call.
//
// The transport is found by trial, never by comparing names: the dialer goes through those that the settings
// allow (core/transport.h), by priority. Each is offered to the peer over what it reaches: among the threads of
// this process, over the peer's AF_UNIX socket, or over TCP. If anything of this fails the dialer says so in
// the log (INFO) and tries the next.
//
// Set-ups are many when a communicator is large, and descriptors few. So dials and offers wait for one of few
// turns (net/descriptors.h), and a receiver keeps few callers that nobody has asked for yet, and takes few
// offers at a time: the rest are told when to come again, and hold nothing meanwhile.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "program/delivery.h"
#include "transport/core/connection.h"
#include "transport/core/reactor.h"
#include "transport/core/transport.h"
#include "transport/net/acceptor.h"
#include "transport/net/dialer.h"

namespace eccl::transport {

struct FaultPlan;

/// Messages that a peer has not taken and never will.
struct Untaken {
  int peer = 0;
  bool pointToPoint = false;  // by Send, else of a collective
  uint64_t messages = 0;
};

struct ConnectorOptions {
  uint64_t communicator = 0;
  Secret secret;
  int rank = 0;
  Identity identity{};  // of this rank's Acceptor: under it, threads of this process find this rank
  RingShape ring;       // the same on all ranks
  uint64_t firstMessage =
      0;  // number of a connection's first message; the same on all ranks; for tests near a wrap
  uint16_t epoch = 0;
  TransportChoice transports;
  bool allowDirect = true;            // ranks on this host read and write each other's user memory
  uint32_t directFrom = kDirectFrom;  // bytes from which they do
  uint32_t zeroCopyFrom = 16384;      // bytes from which a socket sends straight from the user's memory
  Duration connectLimit = std::chrono::seconds(20);  // to reach a peer; see get()
  size_t mostUnasked = 0;  // callers kept until somebody asks for their connections; 0: descriptorShare()
  System* system = &System::real();
  /// "rank 3 (host pid 12)", for messages.
  std::function<std::string(int rank)> describe;
  /// Where a rank's Acceptor is.
  std::function<const Endpoint&(int rank)> endpoint;
  /// A peer's socket broke, or it was found dead, outside any orderly end.
  /// Once per rank; logged. It may call poison(); it must not destroy the Connector.
  std::function<void(int rank, const std::string& reason)> onBroken;
  const FaultPlan* faults = nullptr;  // for tests: what goes wrong on the way; not owned
};

/// Owner: the engine. Threads: the driver's, one at a time, except where said.
class Connector {
 public:
  Connector(ConnectorOptions options, Reactor& reactor);
  ~Connector();

  /// Sets ConnectorOptions::directFrom for connections to come.
  void setDirectFrom(uint32_t bytes);
  /// The connection of this name, made on first use. Not null; see Connection::state(). If the peer
  /// cannot be reached within connectLimit the connection fails with a message that names the peer and
  /// everything that was tried. Once there it waits, without limit, until the peer asks for the connection too:
  /// a rank may come to a collective later than another.
  Connection* get(const ConnectionId& id);
  /// An authenticated caller (Hello::purpose data). May come before or after get() of that name.
  void adopt(Incoming incoming);
  /// Goes on with unfinished dials and set-ups. `now` decides limits.
  void progress();
  /// When progress() must be called although nothing becomes ready; TimePoint::max() if never.
  TimePoint nextDeadline() const;

  /// Poisons every connection. Idempotent.
  void poison();
  /// Tells all senders that nothing more will be taken here.
  void endReceiving();
  /// True when every message sent has been released by its receiver, or never will be, and every release told.
  bool drained() const;
  /// What of it never will be, by peer and kind.
  std::vector<Untaken> untaken() const;
  /// The other side has disconnected in order: broken sockets of that rank are no longer news.
  void expectEnd(int rank);
  void forEach(const std::function<void(Connection&)>& visit);
  /// Tells the transports of memory that the user registers, and of the end of each registration. The same
  /// range may be registered several times. Any thread.
  void registerMemory(const MemoryRange& memory);
  void deregisterMemory(const MemoryRange& memory);
  void closeAfterFork();

 private:
  struct Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace eccl::transport
