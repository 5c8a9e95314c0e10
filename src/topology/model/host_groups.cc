#include "topology/model/host_groups.h"

#include <functional>
#include <map>

namespace eccl::topology {

HostGroups groupsOf(const Cluster& cluster) {
  HostGroups result;
  const auto less = [](const ClusterHost* a, const ClusterHost* b) {
    return a->type != b->type ? a->type < b->type : a->uplinks < b->uplinks;
  };
  std::map<const ClusterHost*, int, decltype(less)> known(less);
  for (int h = 0; h < static_cast<int>(cluster.hosts.size()); ++h) {
    const ClusterHost& host = cluster.hosts[static_cast<size_t>(h)];
    const auto [place, isNew] = known.emplace(&host, static_cast<int>(result.groups.size()));
    if (isNew) result.groups.push_back({host.type, {}});
    result.groups[static_cast<size_t>(place->second)].hosts.push_back(h);
    result.groupOf.push_back(place->second);
  }
  return result;
}

}  // namespace eccl::topology
