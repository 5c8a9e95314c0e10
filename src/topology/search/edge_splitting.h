// Edge splitting: takes the nodes that only pass data on out of a graph, without loss. What led through them
// becomes routes between the other nodes.
#pragma once

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "topology/search/capacity_graph.h"

namespace eccl::topology {

/// Capacity from its first node to its last, by way of the nodes between.
struct Route {
  std::vector<int> nodes;
  int64_t amount = 0;
};
using Routes = std::map<std::pair<int, int>, std::vector<Route>>;  ///< by the ends

/// Routes between terminals that use no edge beyond its capacity (by the edge's number in `graph`). Over them
/// every terminal still gets `each` from every terminal at once, as canFlow() says it can in the graph
/// itself. Nothing if that cannot be done; this happens only where the edges in and out of a node differ in
/// capacity.
///
/// Edge splitting as in ForestColl (arXiv 2402.06787, section 5.3), which goes back to Bang-Jensen, Frank and
/// Jackson (SIAM J. Discrete Math. 8, 1995). Pure.
std::optional<Routes> splitOff(const CapacityGraph& graph, const std::vector<int64_t>& capacities,
                               int64_t each);

}  // namespace eccl::topology
