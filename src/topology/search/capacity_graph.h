// The graph that the searches for rings and trees work on: who can send to whom, and how much.
// graph_of_host.h and graph_of_cluster.h make one; tests make theirs by hand.
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

/// Checks what the searches need: two terminals or more, edges between nodes that exist, capacities of 1 or
/// more. An error (invalidArgument) names the edge.
Status validate(const CapacityGraph& graph);

/// The rate at which all ways can carry data at once, every one the same, in the graph's units. Each way is a
/// list of neighbours. Infinity if there are none.
double evenRate(const CapacityGraph& graph, const std::vector<std::vector<int>>& ways);

}  // namespace eccl::topology
