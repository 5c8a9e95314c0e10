// The bound of a cluster: how fast an AllGather over all its ranks can be at best.
#pragma once

#include <string>

#include "base/status.h"
#include "topology/model/cluster.h"

namespace eccl::topology {

/// The worst cut that was found. As with CutBound, no schedule moves each rank's data faster than perRank().
struct ClusterBound {
  double gigabytes = 0;  ///< GB/s that lead out of the worst set of devices and switches
  int ranks = 0;         ///< inside it, at least 1
  std::string inside;    ///< what it is, for people: "all but node3", "leaf0.1 and the 4 ranks at its ports"
  double perRank() const { return gigabytes / ranks; }
};

/// The worst of these cuts and, for each, of its other side (the data of all others has to enter):
///
///  - every division of one host's devices, with everything else on one side;
///  - for every tier, the hosts that switches up to that tier join, with these switches;
///  - for every tier, the switches that links up to that tier join, with the ports at them, the accelerators
///    near these ports (by PCI without a CPU between), and what of the hosts is best taken along.
///
/// Other sets of several hosts or of switches are not considered; graph_of_cluster.h's whole graph has all of
/// them, for small clusters. On fabrics whose pods and rails are alike no worse set is known.
///
/// The cost is some maximal flows for each kind of host (type, cables, ranks), and n log n beside that.
/// Errors (invalidArgument): fewer than two ranks, or ranks that others cannot reach. For a valid cluster;
/// pure.
Result<ClusterBound> boundOf(const Cluster& cluster);

}  // namespace eccl::topology
