// Which hosts and switches of a cluster lower tiers join.
#pragma once

#include <cstddef>
#include <vector>

#include "topology/model/cluster.h"

namespace eccl::topology {

/// Parts are numbered from 0.
struct SwitchParts {
  size_t count = 0;
  std::vector<size_t> ofHost;  ///< part by host; empty where hosts are not looked at
  std::vector<size_t> ofSwitch;
};

/// By switches up to a tier, and by hosts, whose ports may be on several. Switches above are parts of their
/// own.
SwitchParts joinedWithHosts(const Cluster& cluster, int tier);
/// By links between switches up to a tier alone.
SwitchParts joinedBySwitches(const Cluster& cluster, int tier);

}  // namespace eccl::topology
