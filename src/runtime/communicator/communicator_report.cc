// What a communicator tells of its connections: to programs that ask, and to ECCL_CONNECTIONS_DUMP_FILE;
// and of the ways of its flows.

#include <poll.h>

#include <algorithm>

#include "base/log.h"
#include "runtime/communicator/communicator.h"
#include "transport/flows/flow_probe.h"

namespace eccl::runtime {

Result<ConnectionList> Communicator::connections() {
  if (!running_.load() || !introduced_.load(std::memory_order_acquire)) return ConnectionList();
  ECCL_ASSIGN(auto reports, engine_.reports());
  return named(std::move(reports));
}

ConnectionList Communicator::named(std::vector<transport::ConnectionReport> connections) const {
  const std::vector<transport::Rail>& rails = met_->endpoints[static_cast<size_t>(rank_)].rails;
  ConnectionList list;
  list.connections = std::move(connections);
  transport::nameInterfaces(list.connections, rails, system());
  for (const transport::ConnectionReport& each : list.connections)
    list.hosts.push_back(met_->endpoints[static_cast<size_t>(each.peer)].host);
  list.rails = transport::sumByRail(list.connections, rails);
  return list;
}

std::vector<transport::FlowWay> Communicator::traceFlows(int peer, size_t ports, uint16_t datagramsTo) const {
  const std::vector<transport::Rail>& mine = met_->endpoints[static_cast<size_t>(rank_)].rails;
  const std::vector<transport::Rail>& theirs = met_->endpoints[static_cast<size_t>(peer)].rails;
  if (mine.empty() || theirs.empty() || findAt(mine, theirs[0].address) != nullptr) return {};
  transport::FlowProbe probe({&system(), mine[0].interface, mine[0].address, theirs[0].address,
                              std::vector<uint16_t>(ports + 1), datagramsTo});
  while (!probe.progress()) {
    const Duration left = std::max(probe.nextDeadline() - system().now(), Duration::zero());
    system().poll(probe.fd(), POLLIN, left);
  }
  return probe.ways();
}

// By the driver, before the calls that have failed return: a program may end then.
void Communicator::onFailed(std::vector<transport::ConnectionReport> connections) {
  if (!introduced_.load(std::memory_order_acquire)) return;
  dump(named(std::move(connections)));
}

// What goes wrong is a warning only: nothing depends on the file.
void Communicator::dump(const ConnectionList& connections) const {
  const std::string& path = options_.settings.connectionsDump;
  const transport::Endpoint& mine = met_->endpoints[static_cast<size_t>(rank_)];
  const double age = readySince_ == TimePoint{} ? 0 : transport::seconds(system().now() - readySince_);
  const Status status = writeDump(path, connections,
                                  {id_, options_.name, rank_, ranks_, mine.host, mine.pid, age, asyncStatus()});
  if (!status.ok())
    ECCL_WARN("ECCL_CONNECTIONS_DUMP_FILE: %s; rank %d goes on without", status.message().c_str(), rank_);
}

}  // namespace eccl::runtime
