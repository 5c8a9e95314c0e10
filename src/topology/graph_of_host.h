// A Host as the searches for rings and trees see it.
#pragma once

#include <vector>

#include "topology/capacity_graph.h"
#include "topology/link_model.h"

namespace eccl {

inline constexpr double kCapacityPerGigabyte = 1000;  ///< capacities are in MB/s

/// Nodes are the host's devices, by their indices; edges are its links, those of `network` left out: what
/// leaves the host is not the host's. `terminals`: indices of devices, ascending. Links slower than 1 MB/s
/// count as 1 MB/s.
CapacityGraph graphOf(const Host& host, std::vector<int> terminals);

/// The devices that an AllGather on this host alone is between: its accelerators, or where there are none its
/// CPUs.
std::vector<int> participantsOf(const Host& host);

}  // namespace eccl
