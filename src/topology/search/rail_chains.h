// How rings on rails pass through one host. Internal to the search for rail rings.
#pragma once

#include <utility>
#include <vector>

#include "base/status.h"
#include "topology/search/rail_rings.h"

namespace eccl::topology {

/// The chains through one host, one for each channel.
struct RailChains {
  std::vector<RailChain> chains;  ///< by channel
  double gigabytes = 0;           ///< GB/s of each, all at once, cables included
};

/// Chains through a host's `users` (devices, and how many ranks use each), one for each of the given ports.
/// An error (invalidArgument) if no ring inside the host is found.
Result<RailChains> railChains(const Cluster& cluster, int host, const std::vector<std::pair<int, int>>& users,
                              const std::vector<int>& ports);

}  // namespace eccl::topology
