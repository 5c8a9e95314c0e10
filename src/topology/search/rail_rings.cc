// Rings on rails. First the rails that join all hosts with ranks; then the chains inside each kind of host;
// then what the rings get of the links between switches, tier by tier. The slowest of these is the rate of
// all rings.
#include "topology/search/rail_rings.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>

#include "topology/model/clos.h"
#include "topology/search/host_kinds.h"
#include "topology/search/rail_chains.h"
#include "topology/search/switch_parts.h"

namespace eccl::topology {
namespace {

/// A port of a host, and the switch at its cable.
struct RailPort {
  int port = Device::kNone, atSwitch = 0;
};

/// By rail; of several ports on one rail the first. A rail is what the switch says, else the port, else the
/// port's place among the host's.
std::map<int, RailPort> railsOf(const Cluster& cluster, int host) {
  std::vector<RailPort> ports;
  if (cluster.switches.empty()) {
    for (int port : networkPorts(cluster.typeOf(host))) ports.push_back({port, 0});
  }
  for (const Uplink& link : cluster.hosts[static_cast<size_t>(host)].uplinks)
    ports.push_back({link.port, link.toSwitch});
  std::map<int, RailPort> rails;
  for (size_t i = 0; i < ports.size(); ++i) {
    const auto& facts = cluster.typeOf(host).devices[static_cast<size_t>(ports[i].port)].port;
    std::optional<int> rail;
    if (!cluster.switches.empty()) rail = cluster.switches[static_cast<size_t>(ports[i].atSwitch)].rail;
    if (!rail && facts) rail = facts->rail;
    rails.emplace(rail.value_or(static_cast<int>(i)), ports[i]);
  }
  return rails;
}

/// One search. Steps fill in `rings_`.
class RailRingSearch {
 public:
  explicit RailRingSearch(const Cluster& cluster) : cluster_(cluster), kinds_(kindsOf(cluster)) {}

  Result<RailRings> run() {
    rings_.ranks = kinds_.ranks;
    ECCL_ASSIGN(rings_.bound, boundOf(cluster_));
    ECCL_TRY(findRails());
    ECCL_TRY(withinHosts());
    acrossSwitches();
    return std::move(rings_);
  }

 private:
  Status findRails() {
    std::map<int, int> onRail;
    for (int h = 0; h < static_cast<int>(cluster_.hosts.size()); ++h) {
      ports_.push_back(railsOf(cluster_, h));
      if (kinds_.kinds[static_cast<size_t>(kinds_.kindOf[static_cast<size_t>(h)])].ranks == 0) continue;
      rings_.hosts.push_back(h);
      for (const auto& rail : ports_.back()) ++onRail[rail.first];
    }
    if (rings_.hosts.size() < 2)
      return Status::error(Code::invalidArgument,
                           "cluster: ranks are on %zu host: rings on rails need two or more",
                           rings_.hosts.size());
    const SwitchParts parts = joinedBySwitches(cluster_, kMaxTier);
    for (const auto& [rail, hosts] : onRail) {
      if (hosts == static_cast<int>(rings_.hosts.size()) && isJoined(parts, rail)) rings_.rails.push_back(rail);
    }
    std::stable_sort(rings_.hosts.begin(), rings_.hosts.end(), [this](int a, int b) {
      const auto& left = cluster_.hosts[static_cast<size_t>(a)].uplinks;
      const auto& right = cluster_.hosts[static_cast<size_t>(b)].uplinks;
      return std::lexicographical_compare(
          left.begin(), left.end(), right.begin(), right.end(),
          [](const Uplink& x, const Uplink& y) { return x.toSwitch < y.toSwitch; });
    });
    if (!rings_.rails.empty()) return {};
    return Status::error(
        Code::invalidArgument,
        "cluster: no rail joins all %zu hosts with ranks: wire a port of each to it, or give switches "
        "their rail",
        rings_.hosts.size());
  }

  /// Once for all hosts of a kind whose rails are at the same ports.
  Status withinHosts() {
    rings_.gigabytes = std::numeric_limits<double>::infinity();
    rings_.chainsOf.assign(cluster_.hosts.size(), -1);
    std::map<std::pair<int, std::vector<int>>, int> known;
    for (int host : rings_.hosts) {
      const int kind = kinds_.kindOf[static_cast<size_t>(host)];
      std::vector<int> ports;
      for (int rail : rings_.rails) ports.push_back(ports_[static_cast<size_t>(host)].at(rail).port);
      const auto [place, isNew] = known.emplace(std::pair(kind, ports), static_cast<int>(rings_.chains.size()));
      rings_.chainsOf[static_cast<size_t>(host)] = place->second;
      if (!isNew) continue;
      ECCL_ASSIGN(RailChains found,
                  railChains(cluster_, host, kinds_.kinds[static_cast<size_t>(kind)].users, ports));
      rings_.chains.push_back(std::move(found.chains));
      rings_.gigabytes = std::min(rings_.gigabytes, found.gigabytes);
    }
    return {};
  }

  int switchOf(int host, int rail) const { return ports_[static_cast<size_t>(host)].at(rail).atSwitch; }

  bool isJoined(const SwitchParts& parts, int rail) const {
    if (cluster_.switches.empty()) return true;
    const auto partOf = [&](int host) { return parts.ofSwitch[static_cast<size_t>(switchOf(host, rail))]; };
    return std::all_of(rings_.hosts.begin(), rings_.hosts.end(),
                       [&](int host) { return partOf(host) == partOf(rings_.hosts.front()); });
  }

  /// What rings that cross share: for each tier, what leads out of switches that lower ones join.
  void acrossSwitches() {
    int tiers = 0;
    for (const Switch& sw : cluster_.switches) tiers = std::max(tiers, sw.tier);
    for (int tier = 0; tier < tiers; ++tier) {  // tier 0: every switch for itself
      const SwitchParts parts = joinedBySwitches(cluster_, tier);
      std::vector<double> out(parts.count);
      std::vector<int> crossing(parts.count);
      for (const Trunk& trunk : cluster_.trunks) {
        const size_t a = parts.ofSwitch[static_cast<size_t>(trunk.a)],
                     b = parts.ofSwitch[static_cast<size_t>(trunk.b)];
        if (a == b) continue;
        out[a] += trunk.gigabytes * trunk.count;
        out[b] += trunk.gigabytes * trunk.count;
      }
      for (int rail : rings_.rails) {
        for (size_t i = 0; i < rings_.hosts.size(); ++i) {
          const int next = rings_.hosts[(i + 1) % rings_.hosts.size()];
          const size_t from = parts.ofSwitch[static_cast<size_t>(switchOf(rings_.hosts[i], rail))];
          if (from != parts.ofSwitch[static_cast<size_t>(switchOf(next, rail))]) ++crossing[from];
        }
      }
      for (size_t part = 0; part < parts.count; ++part) {
        if (crossing[part] > 0) rings_.gigabytes = std::min(rings_.gigabytes, out[part] / crossing[part]);
      }
    }
  }

  const Cluster& cluster_;
  const HostKinds kinds_;
  std::vector<std::map<int, RailPort>> ports_;  // by host and rail
  RailRings rings_;
};

}  // namespace

Result<RailRings> searchRailRings(const Cluster& cluster) {
  return RailRingSearch(cluster).run();
}

}  // namespace eccl::topology
