// Generates clusters whose network is a rail-optimised Clos (C. Clos, Bell System Technical Journal 32, 1953;
// with the rails of W. Wang et al., arXiv 2307.12169): what simulations and plans start from.
#pragma once

#include "topology/model/cluster.h"

namespace eccl::topology {

/// Port r of every host is on rail r. A pod is hostsPerPod hosts and a leaf switch per rail. The leaves of one
/// pod are joined by spines of that pod, spine s of all pods by a core group of its own; where one layer of
/// spines can join all leaves there is no core, and a single leaf needs no spines.
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

/// Hosts are node0 and on, switches leaf<pod>.<rail>, spine<pod>.<index> (of two tiers spine<index>),
/// core<spine>.<index>. The result is valid. Errors (invalidArgument): a host without ports, numbers out of
/// range, uplinks that are no whole number of cables, or more than the radix can join; they say what to change.
/// n log n.
Result<Cluster> makeClos(const ClosShape& shape);

/// The ports of a host that a network is wired to, ascending: its ports, or the adapters nobody named ports of.
std::vector<int> networkPorts(const Host& host);

}  // namespace eccl::topology
