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

std::vector<NetworkPort> RankHosts::portsFor(const Kind& rank, int cpu, const std::string& hostName) const {
  const PlaceOfRanks& host = hosts_[static_cast<size_t>(rank.host)];
  const NetworkPort told = together(rank.rails, hostName);
  if (host.made == nullptr) return {told};
  int used = rank.rails.empty() ? topology::Device::kNone
                                : topology::portOfInterface(*host.made, rank.rails[0].interface);
  if (used == topology::Device::kNone && host.fromFile) used = topology::fastestPort(*host.made);
  std::vector<int> near = topology::portsNear(*host.made, cpu);
  std::stable_partition(near.begin(), near.end(), [&](int port) { return port == used; });
  std::vector<NetworkPort> ports = topology::networkPorts(*host.made, near, hostName);
  if (used == topology::Device::kNone) {
    ports.insert(ports.begin(), told);
  } else if (rank.rails.size() > 1 && told.gigabytes > 0) {
    ports.insert(ports.begin(), told);
    ports[0].microseconds = ports[1].microseconds;
  }
  return ports;
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
  std::map<std::pair<int, int>, int> known;                                       // locations, by kind and CPU
  std::map<std::tuple<int, int, std::string>, std::vector<NetworkPort>> portsOf;  // by host, CPU and interfaces
  std::vector<size_t> turn(hosts_.size());
  for (const int number : ranks_) {
    const Kind& kind = kinds_[static_cast<size_t>(number)];
    const std::vector<int>& near = cpusOf[static_cast<size_t>(number)];
    size_t& next = turn[static_cast<size_t>(kind.host)];
    const int cpu = near.empty() ? topology::Device::kNone : near[near.size() == 1 ? 0 : next++ % near.size()];
    cpus_.push_back(cpu);
    const auto [location, isNew] = known.try_emplace({number, cpu}, static_cast<int>(locations_.size()));
    locationOf_.push_back(location->second);
    if (!isNew) continue;
    RankLocation& fresh = locations_.emplace_back();
    fresh.machine = kind.machine;
    fresh.host = hostNames_[static_cast<size_t>(kind.host)];
    fresh.memory = kind.memory;
    fresh.cores = cores.at(kind.machine);
    if (certain[static_cast<size_t>(number)])
      fresh.numaNode = topology::numaNodeOf(*hosts_[static_cast<size_t>(kind.host)].made, cpu);
    const auto [ports, isNewPort] = portsOf.try_emplace({kind.host, cpu, namesOf(kind.rails)});
    if (isNewPort) ports->second = portsFor(kind, cpu, fresh.host);
    fresh.ports = ports->second;
  }
  placement_ = Placement(locations_, locationOf_);
}

std::vector<RankLocation> RankHosts::locations() const {
  std::vector<RankLocation> all;
  for (const int each : locationOf_) all.push_back(locations_[static_cast<size_t>(each)]);
  return all;
}

std::vector<std::string> RankHosts::portsOf(int rank) const {
  const auto hostOf = [this](size_t r) { return kinds_[static_cast<size_t>(ranks_[r])].host; };
  const auto self = static_cast<size_t>(rank);
  const auto& made = hosts_[static_cast<size_t>(hostOf(self))].made;
  std::vector<std::string> names;
  if (made == nullptr || cpus_[self] == topology::Device::kNone) return names;
  std::vector<int> ports = topology::portsNear(*made, cpus_[self]);
  const auto far = std::stable_partition(ports.begin(), ports.end(),
                                         [&](int port) { return made->cpuOf(port) == cpus_[self]; });
  const auto near = far - ports.begin();
  // Where its CPU has none, all are alike to it.
  const auto alike = near > 0 ? near : static_cast<std::ptrdiff_t>(ports.size());
  std::ptrdiff_t before = 0;
  for (size_t r = 0; r < self; ++r)
    before += hostOf(r) == hostOf(self) && (near == 0 || cpus_[r] == cpus_[self]);
  if (alike > 0) std::rotate(ports.begin(), ports.begin() + before % alike, ports.begin() + alike);
  for (const int port : ports) names.push_back(made->devices[static_cast<size_t>(port)].name);
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
