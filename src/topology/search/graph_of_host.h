// A Host as the graph that the searches for rings and trees work on.
#pragma once

#include <vector>

#include "topology/model/link_model.h"
#include "topology/search/capacity_graph.h"

namespace eccl::topology {

inline constexpr double kCapacityPerGigabyte = 1000;  ///< capacities are in MB/s

/// Nodes are the host's devices, by their indices. Edges are its links, without those of kind `network`: what
/// leaves the host is not the host's. `terminals` are indices of devices, ascending. Links slower than 1 MB/s
/// count as 1 MB/s. For a valid host; pure.
CapacityGraph graphOf(const Host& host, std::vector<int> terminals);

}  // namespace eccl::topology
