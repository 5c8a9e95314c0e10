// How rings on rails pass one host.
#pragma once

#include <utility>
#include <vector>

#include "base/status.h"
#include "topology/search/rail_rings.h"

namespace eccl::topology {

struct RailChains {
  std::vector<RailChain> chains;  ///< by channel
  double gigabytes = 0;           ///< GB/s of each, all at once, cables included
};

/// Through `users` (devices and how many ranks use each) of a host, one chain for each of the ports given. An
/// error (invalidArgument) if no ring inside it is found.
Result<RailChains> railChains(const Cluster& cluster, int host, const std::vector<std::pair<int, int>>& users,
                              const std::vector<int>& ports);

}  // namespace eccl::topology
