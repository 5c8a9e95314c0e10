// Groups of hosts that are alike in all that collectives see. What is found for one host of a group holds for
// all of it, so work is done once for each group.
#pragma once

#include <vector>

#include "topology/model/cluster.h"

namespace eccl::topology {

/// Hosts of one type, wired alike.
struct HostGroup {
  int type = 0;            ///< index into Cluster::types
  std::vector<int> hosts;  ///< ascending, at least one
  const ClusterHost& first(const Cluster& cluster) const {
    return cluster.hosts[static_cast<size_t>(hosts.front())];
  }
};

/// All groups of a cluster. Every host is in exactly one.
struct HostGroups {
  std::vector<HostGroup> groups;  ///< by their first host
  std::vector<int> groupOf;       ///< by host
};

/// Groups hosts that are of one type and whose ports are wired to the same switches by the same cables. n log
/// n. Pure.
HostGroups groupsOf(const Cluster& cluster);

}  // namespace eccl::topology
