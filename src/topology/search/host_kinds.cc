#include "topology/search/host_kinds.h"

#include <map>
#include <tuple>

#include "topology/search/graph_of_cluster.h"

namespace eccl::topology {

HostKinds kindsOf(const Cluster& cluster) {
  using Cables = std::vector<std::pair<int, double>>;
  std::map<std::tuple<int, Cables, std::vector<std::pair<int, int>>>, int> known;
  HostKinds result;
  auto users = usersByHost(cluster);
  for (size_t h = 0; h < cluster.hosts.size(); ++h) {
    Cables cables;
    for (const Uplink& link : cluster.hosts[h].uplinks) cables.emplace_back(link.port, link.gigabytes);
    const auto [place, isNew] = known.emplace(std::tuple(cluster.hosts[h].type, std::move(cables), users[h]),
                                              static_cast<int>(result.kinds.size()));
    if (isNew) {
      HostKind& kind = result.kinds.emplace_back();
      kind.host = static_cast<int>(h);
      for (const auto& user : users[h]) kind.ranks += user.second;
      kind.users = std::move(users[h]);
    }
    result.kindOf.push_back(place->second);
    result.ranks += result.kinds[static_cast<size_t>(place->second)].ranks;
  }
  return result;
}

}  // namespace eccl::topology
