#include "base/placement.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <numeric>
#include <utility>

#include "base/status.h"

namespace eccl {
namespace {

/// Numbers names in the order in which they come.
class Numbers {
 public:
  int operator()(const std::string& name) {
    return numbers_.try_emplace(name, static_cast<int>(numbers_.size())).first->second;
  }

 private:
  std::map<std::string, int> numbers_;
};

std::vector<int> upTo(size_t count) {
  std::vector<int> all(count);
  std::iota(all.begin(), all.end(), 0);
  return all;
}

}  // namespace

RankLocation::RankLocation(std::string machineName, std::string memoryName, std::string port, double coreCount)
    : machine(std::move(machineName)),
      host(machine),
      memory(std::move(memoryName)),
      cores(coreCount),
      ports(1) {
  ports[0].name = std::move(port);
}

std::string RankLocation::text() const {
  std::string text = numaNode < 0 ? "no NUMA node of its own" : format("NUMA node %d", numaNode);
  text += format(", %g cores", cores);
  if (!accelerator.empty()) text += ", accelerator " + accelerator;
  if (rdma) text += ", RDMA";
  if (ucx) text += ", UCX";
  for (const NetworkPort& port : ports) {
    text += ", port " + port.name;
    text += port.gigabytes > 0 ? format(" (%g GB/s", port.gigabytes) : " (speed not known";
    text += port.rail >= 0 ? format(", rail %d)", port.rail) : ")";
  }
  return text;
}

Placement::Placement(std::span<const RankLocation> locations) : Placement(locations, upTo(locations.size())) {}

Placement::Placement(std::span<const RankLocation> locations, std::span<const int> locationOf) {
  Numbers machines, hostNames, memories, accelerators, portNames;
  std::vector<int> firstRank(locations.size(), -1);  // at each location
  for (size_t rank = 0; rank < locationOf.size(); ++rank) {
    const auto at = static_cast<size_t>(locationOf[rank]);
    const RankLocation& location = locations[at];
    const int first = std::exchange(firstRank[at], firstRank[at] < 0 ? static_cast<int>(rank) : firstRank[at]);
    const auto like = static_cast<size_t>(first);
    const bool alone = location.memory.empty();
    rdma.push_back(location.rdma);
    ucx.push_back(location.ucx);
    if (first >= 0) {
      machine.push_back(machine[like]);
      host.push_back(host[like]);
      memory.push_back(alone ? memories("of rank " + std::to_string(rank)) : memory[like]);
      numaNode.push_back(numaNode[like]);
      accelerator.push_back(accelerator[like]);
      portsOf.push_back(portsOf[like]);
      port.push_back(port[like]);
      continue;
    }
    machine.push_back(machines(location.machine));
    host.push_back(hostNames(location.host));
    memory.push_back(memories(alone ? "of rank " + std::to_string(rank) : location.memory));
    numaNode.push_back(location.numaNode);
    accelerator.push_back(
        location.accelerator.empty() ? -1 : accelerators(location.host + '\n' + location.accelerator));
    std::vector<int>& own = portsOf.emplace_back();
    for (const NetworkPort& each : location.ports) {
      own.push_back(portNames(each.name));
      if (own.back() == static_cast<int>(ports.size()))
        ports.push_back({each.gigabytes, each.microseconds, each.rail});
    }
    port.push_back(own.front());
    cores.resize(std::max(cores.size(), static_cast<size_t>(machine.back()) + 1));
    double& most = cores[static_cast<size_t>(machine.back())];
    most = std::max(most, location.cores);
  }
}

Placement Placement::oneHost(int ranks, double cores) {
  return Placement(std::vector<RankLocation>(static_cast<size_t>(ranks), {"host", "host", "host", cores}));
}

Placement Placement::hosts(int ranks) {
  std::vector<RankLocation> locations;
  for (int rank = 0; rank < ranks; ++rank) {
    const std::string name = std::to_string(rank);
    locations.emplace_back(name, name, name);
  }
  return Placement(locations);
}

Placement Placement::blocks(int ranks, int hosts) {
  std::vector<RankLocation> locations;
  for (int rank = 0; rank < ranks; ++rank) {
    const std::string name = std::to_string(static_cast<int64_t>(rank) * hosts / ranks);
    locations.emplace_back(name, name, name, (ranks + hosts - 1) / hosts);
  }
  return Placement(locations);
}

Placement Placement::of(std::span<const int> some) const {
  std::vector<RankLocation> locations;
  for (int rank : some) {
    const auto at = static_cast<size_t>(rank);
    RankLocation& location = locations.emplace_back();
    location.machine = std::to_string(machine[at]);
    location.host = std::to_string(host[at]);
    location.memory = std::to_string(memory[at]);
    location.numaNode = numaNode[at];
    location.rdma = rdma[at];
    location.ucx = ucx[at];
    if (accelerator[at] >= 0) location.accelerator = std::to_string(accelerator[at]);
    location.cores = cores[static_cast<size_t>(machine[at])];
    for (int number : portsOf[at]) {
      const Port& known = ports[static_cast<size_t>(number)];
      location.ports.push_back({std::to_string(number), known.gigabytes, known.microseconds, known.rail});
    }
  }
  return Placement(locations);
}

int Placement::ranksOf(int whichMachine) const {
  return static_cast<int>(std::count(machine.begin(), machine.end(), whichMachine));
}

bool Placement::hierarchical() const {
  const int hostCount = host.empty() ? 0 : *std::max_element(host.begin(), host.end()) + 1;
  return hostCount > 1 && hostCount < ranks();
}

bool Placement::spansHosts() const {
  return std::adjacent_find(host.begin(), host.end(), std::not_equal_to<>()) != host.end();
}

bool Placement::sharesMemory() const {
  return std::adjacent_find(memory.begin(), memory.end(), std::not_equal_to<>()) == memory.end();
}

bool Placement::oversubscribed() const {
  for (size_t which = 0; which < cores.size(); ++which) {
    if (oversubscribed(static_cast<int>(which))) return true;
  }
  return false;
}

}  // namespace eccl
