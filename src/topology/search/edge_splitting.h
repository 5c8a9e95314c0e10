// Takes the nodes out of a graph that only pass data on, without loss: what led through them becomes routes
// between the others.
#pragma once

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "topology/search/capacity_graph.h"

namespace eccl::topology {

/// Capacity from its first node to its last, by way of those between.
struct Route {
  std::vector<int> nodes;
  int64_t amount = 0;
};
using Routes = std::map<std::pair<int, int>, std::vector<Route>>;  ///< by the ends

/// Routes between terminals that use no edge beyond its capacity (by the edge's number in `graph`), and over
/// which every terminal still gets `each` from every terminal at once, as canFlow() says it can in the graph
/// itself. Nothing where that cannot be done, which happens only where a node's edges in and out differ in
/// capacity.
///
/// Edge splitting as in ForestColl (arXiv 2402.06787, section 5.3), which goes back to Bang-Jensen, Frank and
/// Jackson (SIAM J. Discrete Math. 8, 1995). Pure.
std::optional<Routes> splitOff(const CapacityGraph& graph, const std::vector<int64_t>& capacities,
                               int64_t each);

}  // namespace eccl::topology
