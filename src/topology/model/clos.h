// Generates clusters whose network is a rail-optimised Clos (C. Clos, Bell System Technical Journal 32, 1953;
// the rails are those of W. Wang et al., arXiv 2307.12169). Simulations and plans start from such clusters.
#pragma once

#include "topology/model/cluster.h"

namespace eccl::topology {

/// What to generate. Port r of every host is on rail r. A pod is hostsPerPod hosts and one leaf switch per
/// rail. Spines of a pod join its leaves; a core group for each spine number joins the pods. Where one layer
/// of spines can join all leaves there is no core, and a single leaf needs no spines.
struct ClosShape {
  Host host;
  int hosts = 1;
  int hostsPerPod = 32;  ///< the last pod may have fewer hosts, not fewer switches
  int radix = 64;        ///< ports of every switch
  double portGigabytes = 50,
         trunkGigabytes = 50;  ///< GB/s one way of a host's cables and of those between switches
  double microseconds = 0.5;   ///< of every cable, with half of the switches at its ends
  /// What may come from below over what leads up, at the leaves of a full pod and at the spines of three tiers:
  /// 1 or more. Rounded to whole cables it has to be exact.
  double leafOversubscription = 1, spineOversubscription = 1;
};

/// The cluster of a shape; it is valid. Hosts are called node0 and on, switches leaf<pod>.<rail>,
/// spine<pod>.<index> (of two tiers spine<index>) and core<spine>.<index>. n log n, pure.
///
/// Errors (invalidArgument) say what to change: a host without ports, numbers out of range, uplinks that are
/// no whole number of cables, or more than the radix can join.
Result<Cluster> makeClos(const ClosShape& shape);

/// The ports of a host that a network is wired to, ascending: its ports, and adapters of which no port is
/// named.
std::vector<int> networkPorts(const Host& host);

}  // namespace eccl::topology
