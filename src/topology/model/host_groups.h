// Hosts of a cluster that are alike in all that collectives see: what is found for one holds for all.
#pragma once

#include <vector>

#include "topology/model/cluster.h"

namespace eccl::topology {

struct HostGroup {
  int type = 0;            ///< index into Cluster::types
  std::vector<int> hosts;  ///< ascending, at least one
  const ClusterHost& first(const Cluster& cluster) const {
    return cluster.hosts[static_cast<size_t>(hosts.front())];
  }
};

struct HostGroups {
  std::vector<HostGroup> groups;  ///< by their first host
  std::vector<int> groupOf;       ///< by host
};

/// Hosts of one type whose ports are wired to the same switches by the same cables. n log n. Pure.
HostGroups groupsOf(const Cluster& cluster);

}  // namespace eccl::topology
