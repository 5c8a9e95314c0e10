#include "topology/search/capacity_graph.h"

#include <algorithm>
#include <limits>
#include <map>

namespace eccl::topology {

Status validate(const CapacityGraph& graph) {
  if (graph.terminals.size() < 2)
    return Status::error(Code::invalidArgument, "a search needs two terminals or more, not %zu",
                         graph.terminals.size());
  for (const CapacityEdge& edge : graph.edges) {
    if (edge.from < 0 || edge.to < 0 || edge.from >= graph.nodes || edge.to >= graph.nodes ||
        edge.from == edge.to)
      return Status::error(Code::invalidArgument, "an edge from node %d to node %d in a graph of %d nodes",
                           edge.from, edge.to, graph.nodes);
    if (edge.capacity < 1)
      return Status::error(Code::invalidArgument, "the edge from node %d to node %d has no capacity", edge.from,
                           edge.to);
  }
  return {};
}

double evenRate(const CapacityGraph& graph, const std::vector<std::vector<int>>& ways) {
  std::map<std::pair<int, int>, int64_t> capacity, uses;
  for (const CapacityEdge& edge : graph.edges) capacity[{edge.from, edge.to}] += edge.capacity;
  for (const std::vector<int>& way : ways) {
    for (size_t i = 0; i + 1 < way.size(); ++i) ++uses[{way[i], way[i + 1]}];
  }
  double rate = std::numeric_limits<double>::infinity();
  for (const auto& [ends, count] : uses)
    rate = std::min(rate, static_cast<double>(capacity[ends]) / static_cast<double>(count));
  return rate;
}

}  // namespace eccl::topology
