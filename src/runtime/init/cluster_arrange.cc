// What follows from who is where: names of hosts, cores, ports and the placement.
#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "runtime/init/cluster_exchange.h"
#include "topology/model/locations.h"
#include "topology/probe/host_summary.h"

namespace eccl::runtime {
namespace {

/// Rails that connections are spread over, as the one port that they are to each message. Speed 0: not all are
/// known.
NetworkPort together(const std::vector<transport::Rail>& rails, const std::string& hostName) {
  NetworkPort port{hostName + '/'};
  bool known = true;
  for (const transport::Rail& rail : rails) {
    port.name += (&rail == &rails[0] ? "" : "+") + rail.interface;
    port.gigabytes += rail.megabits / 8e3;
    known = known && rail.megabits > 0;
  }
  if (!known) port.gigabytes = 0;
  return port;
}

/// Of the ports that are good for RDMA, or of all, those that are nearest to a device.
std::vector<int> nearestPorts(const topology::Host& host, int device, bool rdma) {
  std::vector<int> ports = topology::portsNear(host, device);
  std::erase_if(ports,
                [&](int port) { return rdma && !topology::isRdma(host.devices[static_cast<size_t>(port)]); });
  return topology::nearestOf(std::move(ports), host, device);
}

}  // namespace

std::string namesOf(const std::vector<transport::Rail>& rails) {
  std::string names;
  for (const transport::Rail& rail : rails)
    names.append(rail.interface).append(1, ' ').append(std::to_string(rail.megabits)).append(1, ' ');
  return names;
}

/// By name of the machine.
std::map<std::string, double> RankHosts::coresOfMachines() const {
  struct Sum {
    std::vector<bool> cores;
    std::map<int, int> quotas;  // by host, as each has a cgroup
    bool limited = true;
  };
  std::map<std::string, Sum> sums;
  for (const Kind& rank : kinds_) {
    Sum& sum = sums[rank.machine];
    if (sum.cores.size() < rank.cores.size()) sum.cores.resize(rank.cores.size());
    for (size_t i = 0; i < rank.cores.size(); ++i) sum.cores[i] = sum.cores[i] || rank.cores[i];
    sum.limited = sum.limited && rank.quota > 0;
    int& quota = sum.quotas[rank.host];
    quota = std::max(quota, rank.quota);
  }
  std::map<std::string, double> cores;
  for (const auto& [machine, sum] : sums) {
    double quota = 0;
    for (const auto& [host, its] : sum.quotas) quota += sum.limited ? its : 0;
    cores[machine] =
        topology::usableCores(static_cast<int>(std::count(sum.cores.begin(), sum.cores.end(), true)), quota);
  }
  return cores;
}

/// The device that a rank's ports are to be near: its GPU, if the host's topology has it, else its CPU.
int RankHosts::placeOf(const Kind& rank, int cpu) const {
  const auto& made = hosts_[static_cast<size_t>(rank.host)].made;
  const int gpu = made == nullptr || rank.gpu.empty() ? topology::Device::kNone : made->find(rank.gpu);
  return gpu != topology::Device::kNone ? gpu : cpu;
}

/// The ports of a host that is known, nearest to a rank's place first; of those that are as near the one first
/// whose turn it is.
std::vector<int> RankHosts::nearPorts(const Kind& rank, int device, int turn) const {
  const topology::Host& made = *hosts_[static_cast<size_t>(rank.host)].made;
  std::vector<int> ports = nearestPorts(made, device, rank.rdma);
  if (!ports.empty())
    std::rotate(ports.begin(), ports.begin() + turn % static_cast<int>(ports.size()), ports.end());
  for (const int port : topology::portsNear(made, device))
    if (std::find(ports.begin(), ports.end(), port) == ports.end()) ports.push_back(port);
  return ports;
}

std::vector<NetworkPort> RankHosts::portsFor(const Kind& rank, int device, int turn,
                                             const std::string& hostName) const {
  const PlaceOfRanks& host = hosts_[static_cast<size_t>(rank.host)];
  const NetworkPort told = together(rank.rails, hostName);
  if (host.made == nullptr) return {told};
  int used = rank.rails.empty() ? topology::Device::kNone
                                : topology::portOfInterface(*host.made, rank.rails[0].interface);
  if (used == topology::Device::kNone && host.fromFile) used = topology::fastestPort(*host.made);
  std::vector<int> near = topology::portsNear(*host.made, device);
  if (rank.rdma) {
    near = nearPorts(rank, device, turn);
    const auto first = std::find_if(near.begin(), near.end(), [&](int port) {
      return topology::isRdma(host.made->devices[static_cast<size_t>(port)]);
    });
    if (first != near.end()) used = *first;  // else the host is described by one who saw it down
  }
  std::stable_partition(near.begin(), near.end(), [&](int port) { return port == used; });
  std::vector<NetworkPort> ports = topology::networkPorts(*host.made, near, hostName);
  if (used == topology::Device::kNone) {
    ports.insert(ports.begin(), told);
  } else if (!rank.rdma && rank.rails.size() > 1 && told.gigabytes > 0) {
    ports.insert(ports.begin(), told);
    ports[0].microseconds = ports[1].microseconds;
  }
  return ports;
}

/// Which CPU each rank is on, of those that it may be on, and which of the ports that are nearest to it it uses
/// first. `cpusOf`: by kind.
void RankHosts::takeTurns(const std::vector<std::vector<int>>& cpusOf) {
  std::map<std::tuple<int, int, bool>, std::vector<int>>
      nearest;                                              // ports, by host, device and whether for RDMA
  std::map<std::pair<int, std::vector<int>>, int> ranksAt;  // by host and ports
  std::vector<size_t> turn(hosts_.size());
  for (const int number : ranks_) {
    const int host = kinds_[static_cast<size_t>(number)].host;
    const std::vector<int>& near = cpusOf[static_cast<size_t>(number)];
    size_t& next = turn[static_cast<size_t>(host)];
    const int device =
        near.empty() ? topology::Device::kNone : near[near.size() == 1 ? 0 : next++ % near.size()];
    const Kind& kind = kinds_[static_cast<size_t>(number)];
    const int place = placeOf(kind, device);
    const auto [ports, isNew] = nearest.try_emplace({host, place, kind.rdma});
    const auto& made = hosts_[static_cast<size_t>(host)].made;
    if (isNew && made != nullptr) ports->second = nearestPorts(*made, place, kind.rdma);
    cpus_.push_back(device);
    turns_.push_back(ranksAt[{host, ports->second}]++ % std::max(1, static_cast<int>(ports->second.size())));
  }
}

/// What follows from who is where.
void RankHosts::arrange() {
  std::set<std::string> names;
  for (const PlaceOfRanks& host : hosts_) {
    const std::string base = host.name.empty() ? "host" : host.name;
    std::string name = base;
    for (int n = 2; !names.insert(name).second; ++n) name = base + format("#%d", n);
    hostNames_.push_back(name);
  }
  const std::map<std::string, double> cores = coresOfMachines();
  std::vector<std::vector<int>> cpusOf;  // by kind: those that its ranks may be on
  std::vector<bool> certain;             // by kind: they are on the one there is
  for (const Kind& kind : kinds_) {
    std::vector<int>& near = cpusOf.emplace_back();
    const auto& made = hosts_[static_cast<size_t>(kind.host)].made;
    certain.push_back(false);
    if (made == nullptr) continue;
    const std::vector<int> all = made->all(topology::DeviceKind::cpu);
    for (int cpu : all) {
      const std::vector<int>& its = made->devices[static_cast<size_t>(cpu)].cpu->cores;
      if (std::any_of(its.begin(), its.end(), [&](int core) {
            return static_cast<size_t>(core) < kind.cores.size() && kind.cores[static_cast<size_t>(core)];
          }))
        near.push_back(cpu);
    }
    certain.back() = near.size() == 1;
    if (near.empty()) near = all;  // the file's cores are not this machine's
  }
  std::map<std::tuple<int, int, int>, int> known;  // locations, by kind, CPU and turn
  // By host, CPU or GPU, turn, interfaces and whether there is RDMA.
  std::map<std::tuple<int, int, int, std::string, bool>, std::vector<NetworkPort>> portsOf;
  if (cpus_.empty()) takeTurns(cpusOf);
  for (size_t rank = 0; rank < ranks_.size(); ++rank) {
    const int number = ranks_[rank], cpu = cpus_[rank];
    const Kind& kind = kinds_[static_cast<size_t>(number)];
    const auto& made = hosts_[static_cast<size_t>(kind.host)].made;
    const int itsTurn = kind.rdma ? turns_[rank] : 0;  // by TCP all use the same port
    const auto [location, isNew] =
        known.try_emplace({number, cpu, itsTurn}, static_cast<int>(locations_.size()));
    locationOf_.push_back(location->second);
    if (!isNew) continue;
    RankLocation& fresh = locations_.emplace_back();
    fresh.machine = kind.machine;
    fresh.host = hostNames_[static_cast<size_t>(kind.host)];
    fresh.memory = kind.memory;
    fresh.rdma = kind.rdma;
    fresh.ucx = kind.ucx;
    fresh.accelerator = kind.gpu;
    fresh.cores = cores.at(kind.machine);
    if (certain[static_cast<size_t>(number)]) fresh.numaNode = topology::numaNodeOf(*made, cpu);
    const int place = kind.rdma ? placeOf(kind, cpu) : cpu;
    const auto [found, isNewPort] =
        portsOf.try_emplace({kind.host, place, itsTurn, namesOf(kind.rails), kind.rdma});
    if (isNewPort) found->second = portsFor(kind, place, itsTurn, fresh.host);
    fresh.ports = found->second;
  }
  placement_ = Placement(locations_, locationOf_);
}

std::vector<RankLocation> RankHosts::locations() const {
  std::vector<RankLocation> all;
  for (const int each : locationOf_) all.push_back(locations_[static_cast<size_t>(each)]);
  return all;
}

std::vector<std::string> RankHosts::portsOf(int rank) const {
  const auto at = static_cast<size_t>(rank);
  const Kind& kind = kinds_[static_cast<size_t>(ranks_[at])];
  const auto& made = hosts_[static_cast<size_t>(kind.host)].made;
  std::vector<std::string> names;
  if (made == nullptr || cpus_[at] == topology::Device::kNone) return names;
  for (const int port : nearPorts(kind, placeOf(kind, cpus_[at]), turns_[at]))
    names.push_back(made->devices[static_cast<size_t>(port)].name);
  return names;
}

Result<topology::Cluster> RankHosts::cluster() const {
  std::vector<topology::Host> made;
  topology::Cluster cluster;
  for (size_t h = 0; h < hosts_.size(); ++h) {
    if (hosts_[h].made == nullptr) return unknown_;
    made.push_back(*hosts_[h].made);
    made.back().name = hosts_[h].name;
    cluster.hosts.push_back({hostNames_[h]});
  }
  topology::MergedHosts merged = topology::mergeHosts(made);
  cluster.types = std::move(merged.types);
  for (size_t h = 0; h < cluster.hosts.size(); ++h) cluster.hosts[h].type = merged.typeOf[h];
  for (size_t rank = 0; rank < ranks_.size(); ++rank)
    cluster.ranks.push_back({kinds_[static_cast<size_t>(ranks_[rank])].host, cpus_[rank]});
  return cluster;
}

}  // namespace eccl::runtime
