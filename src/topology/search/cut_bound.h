// The bound of a graph: how fast an AllGather can be at best. It follows from what must leave a set of nodes,
// and the bandwidth of the edges that lead out of it.
#pragma once

#include <span>

#include "base/status.h"
#include "topology/search/capacity_graph.h"

namespace eccl::topology {

/// No schedule of an AllGather of M bytes over n terminals takes less than M/n / perTerminal() seconds
/// (capacities in bytes per second): the data of all terminals inside `inside` have to leave it, since at least
/// one terminal is outside. The bound is the worst of all such sets; ForestColl (arXiv 2402.06787, theorem 1)
/// shows that trees reach it, on graphs where as much leads into every node as out of it.
struct CutBound {
  int64_t capacity = 0;      ///< of the edges out of the set
  int terminals = 0;         ///< inside
  std::vector<bool> inside;  ///< by node: the binding cut. Of several, one that is found first
  /// What each terminal's data can flow at, all at once. 0: some terminal cannot be reached.
  double perTerminal() const { return static_cast<double>(capacity) / terminals; }
};

/// The bound of a graph with at least two terminals. `weights`: how many terminals each of them stands for,
/// at least 1; none: one each. O(terminals) maximal flows for each of a few rounds. Pure.
CutBound cutBound(const CapacityGraph& graph, std::span<const int> weights = {});

/// As cutBound(), but an error (invalidArgument) if some terminal cannot be reached.
Result<CutBound> reachableBound(const CapacityGraph& graph);

/// Whether every terminal can receive `each` from every terminal at once, over edges with these capacities
/// (by the edge's number in `graph`).
bool canFlow(const CapacityGraph& graph, const std::vector<int64_t>& capacities, int64_t each);

}  // namespace eccl::topology
