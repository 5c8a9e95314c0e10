// A Host as the searches for rings and trees see it.
#pragma once

#include <vector>

#include "topology/model/link_model.h"
#include "topology/search/capacity_graph.h"

namespace eccl::topology {

inline constexpr double kCapacityPerGigabyte = 1000;  ///< capacities are in MB/s

/// Nodes are the host's devices, by their indices; edges are its links, those of `network` left out: what
/// leaves the host is not the host's. `terminals`: indices of devices, ascending. Links slower than 1 MB/s
/// count as 1 MB/s.
CapacityGraph graphOf(const Host& host, std::vector<int> terminals);

}  // namespace eccl::topology
