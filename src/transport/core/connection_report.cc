#include "transport/core/connection_report.h"

#include <algorithm>
#include <utility>

namespace eccl::transport {
ConnectionReport reportOf(const Connection& connection) {
  ConnectionReport report;
  report.id = connection.id();
  report.peer = connection.peer();
  report.sends = connection.sends();
  report.state = connection.state();
  report.failure = connection.failure().message();
  const RingEnd& end = connection.sends() ? static_cast<const RingEnd&>(connection.sendEnd)
                                          : static_cast<const RingEnd&>(connection.receiveEnd);
  report.messages = end.next - end.first;
  report.bytes = end.bytes;
  if (const Path* path = connection.path(); path != nullptr) {
    report.path = path->name();
    report.sockets = path->sockets();
    report.link = path->link();
  }
  return report;
}

void nameInterfaces(std::vector<ConnectionReport>& connections, const std::vector<Rail>& rails,
                    System& system) {
  // Listed when it is first needed: most sockets go over rails.
  std::vector<Interface> interfaces;
  bool listed = false;
  for (ConnectionReport& connection : connections) {
    for (SocketReport& socket : connection.sockets) {
      const SocketAddress& local = socket.ends.local;
      if (!local.valid()) continue;
      if (const Rail* rail = findAt(rails, local); rail != nullptr) {
        socket.interface = rail->interface;
        continue;
      }
      if (!std::exchange(listed, true)) {
        if (Result<std::vector<Interface>> all = listInterfaces(system); all.ok()) interfaces = all.take();
      }
      if (const Interface* other = findAt(interfaces, local); other != nullptr) socket.interface = other->name;
    }
  }
}

std::vector<RailReport> sumByRail(const std::vector<ConnectionReport>& connections,
                                  const std::vector<Rail>& rails) {
  std::vector<RailReport> sums;
  for (const Rail& rail : rails) sums.push_back({rail.interface, rail.address.withPort(0)});
  for (const ConnectionReport& connection : connections) {
    for (const SocketReport& socket : connection.sockets) {
      const SocketAddress local = socket.ends.local.withPort(0);
      auto sum = std::find_if(sums.begin(), sums.end(), [&](const RailReport& one) {
        return one.interface == socket.interface && one.address.sharesHost(local);
      });
      if (sum == sums.end()) sum = sums.insert(sums.end(), {socket.interface, local});
      sum->sockets += socket.ends.local.port() != 0;  // not those that are closed
      sum->sentBytes += socket.sentBytes;
      sum->receivedBytes += socket.receivedBytes;
      sum->retransmitted += socket.retransmitted;
      sum->retransmittedBytes += socket.retransmittedBytes;
      sum->roundTripMicroseconds = std::max(sum->roundTripMicroseconds, socket.roundTripMicroseconds);
    }
  }
  return sums;
}

}  // namespace eccl::transport
