// The search for rings across hosts: one ring on each rail.
#pragma once

#include <vector>

#include "base/status.h"
#include "topology/model/cluster.h"
#include "topology/search/cluster_bound.h"

namespace eccl::topology {

/// How a ring passes through a host: in by the port of its rail, through all devices that ranks use, and out
/// by the same port. The list has devices of the host's type, with those between that only pass data on. The
/// port is first and last. Where the device at the port comes a second time before the end, it hands on what
/// the last device sends (PXN).
using RailChain = std::vector<int>;

/// The rings that were found, and how good they are.
struct RailRings {
  std::vector<int> rails;  ///< that rings are on, one channel each: switches' or ports' numbers of the rail
  std::vector<int> hosts;  ///< in the order of all rings: hosts on the same switches follow one another
  std::vector<std::vector<RailChain>> chains;  ///< by channel, for hosts that are alike
  std::vector<int> chainsOf;  ///< index into `chains` by index of Cluster::hosts; -1: not on the rings
  double gigabytes = 0;       ///< GB/s of each ring, all at once
  int ranks = 0;
  ClusterBound bound;
  int channels() const { return static_cast<int>(rails.size()); }
  /// What each rank's data flow at in an AllGather over all rings, in GB/s; at most bound.perRank().
  double perRank() const { return gigabytes * channels() / (ranks - 1); }
  double ofBound() const { return perRank() / bound.perRank(); }
};

/// One ring for every rail that all hosts with ranks are wired to. In a host, the rings inside it
/// (searchRings()) are opened at the accelerator next to each port; this is done once for each kind of host.
/// Between hosts the ways are taken to be shared evenly, as routing over equal ways means to: a ring gets its
/// share of what leads out of a switch, or of switches that lower tiers join, among the rings that cross.
/// Whether other rings are better is not known; the bound says how much at most.
///
/// Errors (invalidArgument): fewer than two hosts with ranks, no rail that joins all, or no ring inside a
/// host. For a valid cluster; n log n beside the searches in each kind of host. Pure.
Result<RailRings> searchRailRings(const Cluster& cluster);

}  // namespace eccl::topology
