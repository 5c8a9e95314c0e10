// What can be said of a connection from outside: to whom it leads, by which path, what it has carried, and how
// its sockets fare.
#pragma once

#include <string>
#include <vector>

#include "transport/core/connection.h"
#include "transport/net/rails.h"

namespace eccl::transport {

/// A value. One end's view.
struct ConnectionReport {
  ConnectionId id;
  int peer = 0;
  bool sends = false;
  Connection::State state = Connection::State::connecting;
  std::string failure;    ///< why it failed, if it has
  std::string path;       ///< Path::name(); empty: there is none yet, or it never came to be
  uint64_t messages = 0;  ///< published by the sender, or taken by the receiver
  uint64_t bytes = 0;     ///< of these messages, also of those that went from memory to memory
  std::vector<SocketReport> sockets;
  LinkReport link;  ///< of a path without sockets
};

/// By the driver. Three system calls for each socket.
ConnectionReport reportOf(const Connection& connection);

/// Finds out by which interface of this host each socket goes: one of `rails`, or any other that is up. What is
/// not found stays empty. Any thread.
void nameInterfaces(std::vector<ConnectionReport>& connections, const std::vector<Rail>& rails, System& system);

/// What the sockets through one interface have carried together.
struct RailReport {
  std::string interface;
  SocketAddress address;  ///< without a port
  int sockets = 0;        ///< 0: a rail that is not used
  uint64_t sentBytes = 0, receivedBytes = 0;
  uint64_t retransmitted = 0, retransmittedBytes = 0;
  uint32_t roundTripMicroseconds = 0;  ///< the longest
};

/// After nameInterfaces(): `rails` in their order, used or not, then the other interfaces that sockets go by.
std::vector<RailReport> sumByRail(const std::vector<ConnectionReport>& connections,
                                  const std::vector<Rail>& rails);

}  // namespace eccl::transport
