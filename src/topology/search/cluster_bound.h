// How fast an AllGather over a whole cluster can be at best.
#pragma once

#include <string>

#include "base/status.h"
#include "topology/model/cluster.h"

namespace eccl::topology {

/// As CutBound: no schedule moves each rank's data faster than perRank().
struct ClusterBound {
  double gigabytes = 0;  ///< GB/s that lead out of the worst set of devices and switches
  int ranks = 0;         ///< inside it, at least 1
  std::string inside;    ///< what it is, for people: "all but node3", "leaf0.1 and the 4 ranks at its ports"
  double perRank() const { return gigabytes / ranks; }
};

/// The worst of these cuts and, of each, its other side (the data of all others has to enter): every division
/// of one host's devices, with everything else on one side; for every tier the hosts that switches up to that
/// tier join, with these switches; for every tier the switches that links up to that tier join, and of the
/// hosts at them the ports there with the accelerators near these (by PCI without a CPU between) and what of
/// the host is best taken along. Not considered are other sets of several hosts or of switches;
/// graph_of_cluster.h's whole graph has all, for small clusters. On fabrics whose pods and rails are alike
/// there is none worse that we know of.
///
/// For each kind of host (type, cables, ranks) some maximal flows on it; beside that n log n. Errors
/// (invalidArgument): fewer than two ranks, ranks that others cannot reach. Of a valid cluster; pure.
Result<ClusterBound> boundOf(const Cluster& cluster);

}  // namespace eccl::topology
