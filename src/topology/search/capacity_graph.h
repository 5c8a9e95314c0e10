// Who can send to whom, and how much: what the searches for rings and trees work on. Made from a Host by
// graph_of_host.h, or by hand.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/status.h"

namespace eccl::topology {

/// One direction of a link. Capacity is in whole units of the maker's choice (MB/s, say), at least 1.
struct CapacityEdge {
  int from = 0, to = 0;
  int64_t capacity = 0;
  bool operator==(const CapacityEdge&) const = default;
};

/// A value. Terminals hold and want data; all other nodes only pass it on. Several edges between the same two
/// nodes count together.
struct CapacityGraph {
  int nodes = 0;
  std::vector<int> terminals;  ///< ascending, at least two
  std::vector<CapacityEdge> edges;
};

/// What the searches ask for: two terminals or more, edges between nodes that exist, capacities of 1 or more.
/// An error (invalidArgument) names the edge.
Status validate(const CapacityGraph& graph);

/// What all ways, each a list of neighbours, can carry at once, every one the same. Infinity if there are none.
double evenRate(const CapacityGraph& graph, const std::vector<std::vector<int>>& ways);

}  // namespace eccl::topology
