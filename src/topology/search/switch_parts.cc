#include "topology/search/switch_parts.h"

#include "topology/model/disjoint_sets.h"

namespace eccl::topology {
namespace {

SwitchParts joined(const Cluster& cluster, int tier, size_t hosts) {
  DisjointSets sets(hosts + cluster.switches.size());
  const auto low = [&](int s) { return cluster.switches[static_cast<size_t>(s)].tier <= tier; };
  for (size_t h = 0; h < hosts; ++h) {
    for (const Uplink& link : cluster.hosts[h].uplinks) {
      if (low(link.toSwitch)) sets.join(h, hosts + static_cast<size_t>(link.toSwitch));
    }
  }
  for (const Trunk& trunk : cluster.trunks) {
    if (low(trunk.a) && low(trunk.b))
      sets.join(hosts + static_cast<size_t>(trunk.a), hosts + static_cast<size_t>(trunk.b));
  }
  SwitchParts parts;
  const size_t all = hosts + cluster.switches.size();
  std::vector<size_t> number(all, all);
  for (size_t i = 0; i < all; ++i) {
    size_t& part = number[sets.of(i)];
    if (part == all) part = parts.count++;
    (i < hosts ? parts.ofHost : parts.ofSwitch).push_back(part);
  }
  return parts;
}

}  // namespace

SwitchParts joinedWithHosts(const Cluster& cluster, int tier) {
  return joined(cluster, tier, cluster.hosts.size());
}
SwitchParts joinedBySwitches(const Cluster& cluster, int tier) {
  return joined(cluster, tier, 0);
}

}  // namespace eccl::topology
