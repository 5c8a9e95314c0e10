#include "topology/forest.h"

#include <cmath>

namespace eccl {
namespace {

/// Shares of the bound that are tried, in this order.
constexpr double kShares[] = {1,    0.995, 0.99, 0.98, 0.97, 0.96, 0.95, 0.925, 0.9,
                              0.85, 0.8,   0.7,  0.6,  0.5,  0.4,  0.3,  0.2,   0.1};

Status check(const CapacityGraph& graph) {
  if (graph.terminals.size() < 2)
    return Status::error(Code::invalidArgument, "a search for trees needs two terminals or more, not %zu",
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

// Edges in units of one tree's share: a tree carries share * bound / channels.
std::vector<int64_t> inTrees(const CapacityGraph& graph, const CutBound& bound, double share, int channels) {
  std::vector<int64_t> trees;
  for (const CapacityEdge& edge : graph.edges) {
    const auto scaled = static_cast<__int128>(edge.capacity) * bound.terminals * channels;
    trees.push_back(share == 1 ? static_cast<int64_t>(scaled / bound.capacity)
                               : static_cast<int64_t>(static_cast<double>(scaled) / share /
                                                      static_cast<double>(bound.capacity)));
  }
  return trees;
}

}  // namespace

Result<Forest> searchForest(const CapacityGraph& graph, int mostChannels) {
  ECCL_TRY(check(graph));
  Forest forest;
  forest.bound = cutBound(graph);
  if (forest.bound.capacity == 0) {
    int reached = 0;
    for (bool inside : forest.bound.inside) reached += inside ? 1 : 0;
    return Status::error(Code::invalidArgument, "%d of %d nodes have no way to the others", reached,
                         graph.nodes);
  }
  for (double share : kShares) {
    for (int channels = 1; channels <= mostChannels; ++channels) {
      const std::vector<int64_t> capacities = inTrees(graph, forest.bound, share, channels);
      if (!canFlow(graph, capacities, channels)) continue;
      std::optional<Routes> routes = splitOff(graph, capacities, channels);
      if (!routes) continue;
      auto trees = packTrees(graph.terminals, std::move(*routes), channels);
      if (!trees) continue;
      forest.trees = std::move(*trees);
      forest.channels = channels;
      forest.rate = share * forest.bound.perTerminal() / channels;
      return forest;
    }
  }
  return Status::error(Code::internal, "no forest with a tenth of the bound was found");
}

}  // namespace eccl
