// A Cluster as the graphs that the searches work on: the whole cluster, for small ones, or one of its hosts
// against all the rest.
#pragma once

#include <vector>

#include "topology/model/cluster.h"
#include "topology/search/capacity_graph.h"

namespace eccl::topology {

/// A graph and how many ranks use each of its terminals.
struct WeightedGraph {
  CapacityGraph graph;  ///< capacities in MB/s, as those of graphOf(Host)
  std::vector<int> weights;
  int total() const;
};

/// Where ranks are: by host, the devices they use, ascending, and how many ranks use each. The ranks are
/// those of the cluster, or allPlaces() if it names none.
std::vector<std::vector<std::pair<int, int>>> usersByHost(const Cluster& cluster);

/// The whole cluster as one graph. Nodes are all hosts' devices, host by host, then all switches (if there
/// are none, one node that joins all ports and never limits). For some hundred nodes: the exact bound is
/// cutBound() of this.
WeightedGraph graphOf(const Cluster& cluster);

/// One host's devices and, as the last node, everything else: `others` ranks, joined with the host by its
/// cables. Its cuts are those cuts of the cluster that divide no other host and no switch from another.
WeightedGraph graphOfHostIn(const Cluster& cluster, int host, const std::vector<std::pair<int, int>>& users,
                            int others);

}  // namespace eccl::topology
