// The search for forests: shares of the bound are tried from the whole downwards, and for each share numbers
// of channels from 1 upwards, until edge splitting and tree packing succeed.
#include "topology/search/forest.h"

#include <cmath>

namespace eccl::topology {
namespace {

/// Shares of the bound that are tried, in this order.
constexpr double kShares[] = {1,    0.995, 0.99, 0.98, 0.97, 0.96, 0.95, 0.925, 0.9,
                              0.85, 0.8,   0.7,  0.6,  0.5,  0.4,  0.3,  0.2,   0.1};

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
  ECCL_TRY(validate(graph));
  Forest forest;
  ECCL_ASSIGN(forest.bound, reachableBound(graph));
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
      std::vector<std::vector<int>> branches;  // on which more may be free than was asked for
      for (const SpanningTree& tree : forest.trees)
        branches.insert(branches.end(), tree.branches.begin(), tree.branches.end());
      forest.rate = evenRate(graph, branches);
      return forest;
    }
  }
  return Status::error(Code::internal, "no forest with a tenth of the bound was found");
}

}  // namespace eccl::topology
