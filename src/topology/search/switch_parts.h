// Parts of a cluster's network: which hosts and switches are joined by lower tiers alone.
#pragma once

#include <cstddef>
#include <vector>

#include "topology/model/cluster.h"

namespace eccl::topology {

/// The parts, numbered from 0.
struct SwitchParts {
  size_t count = 0;
  std::vector<size_t> ofHost;  ///< part by host; empty where hosts are not looked at
  std::vector<size_t> ofSwitch;
};

/// The parts that switches up to a tier make, together with hosts, whose ports may be on several switches.
/// Each switch above that tier is a part of its own.
SwitchParts joinedWithHosts(const Cluster& cluster, int tier);
/// The parts that links between switches up to a tier make, without hosts.
SwitchParts joinedBySwitches(const Cluster& cluster, int tier);

}  // namespace eccl::topology
