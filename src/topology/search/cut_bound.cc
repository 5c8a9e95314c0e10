// The bound of a graph by maximal flows. A source feeds every terminal. If all terminals can receive what is
// fed, at a rate that a cut suggests, no cut is worse; if one cannot, the flow's minimal cut is.
#include "topology/search/cut_bound.h"

#include <algorithm>
#include <numeric>

#include "topology/search/max_flow.h"

namespace eccl::topology {
namespace {

/// The graph, with a source that feeds every terminal.
struct Fed {
  explicit Fed(const CapacityGraph& graph) : flow(graph.nodes + 1), source(graph.nodes) {
    for (const CapacityEdge& edge : graph.edges) flow.add(edge.from, edge.to, edge.capacity);
    firstFeed = static_cast<int>(graph.edges.size());
    for (int terminal : graph.terminals) flow.add(source, terminal, 0);
  }
  MaxFlow flow;
  const int source;
  int firstFeed;
};

/// How many terminals one stands for.
int weightOf(std::span<const int> weights, size_t terminal) {
  return weights.empty() ? 1 : weights[terminal];
}

/// The cut around a set of nodes: the capacity of the edges that lead out of it, and the terminals inside.
CutBound ratioOf(const CapacityGraph& graph, std::span<const int> weights, std::vector<bool> inside) {
  CutBound cut;
  for (const CapacityEdge& edge : graph.edges) {
    if (inside[static_cast<size_t>(edge.from)] && !inside[static_cast<size_t>(edge.to)])
      cut.capacity += edge.capacity;
  }
  for (size_t t = 0; t < graph.terminals.size(); ++t) {
    if (inside[static_cast<size_t>(graph.terminals[t])]) cut.terminals += weightOf(weights, t);
  }
  inside.resize(static_cast<size_t>(graph.nodes));
  cut.inside = std::move(inside);
  return cut;
}

/// Compares the ratios without rounding.
bool less(const CutBound& a, const CutBound& b) {
  return static_cast<__int128>(a.capacity) * b.terminals < static_cast<__int128>(b.capacity) * a.terminals;
}

}  // namespace

Result<CutBound> reachableBound(const CapacityGraph& graph) {
  CutBound bound = cutBound(graph);
  if (bound.capacity > 0) return bound;
  const auto inside = std::count(bound.inside.begin(), bound.inside.end(), true);
  return Status::error(Code::invalidArgument, "%d of %d nodes have no way to the others",
                       static_cast<int>(inside), graph.nodes);
}

// Each round takes the worst cut so far and asks whether all terminals could send at its ratio; a flow that
// falls short has a minimal cut with a smaller ratio. (Dinkelbach's method, Management Science 13, 1967; exact,
// since both sides are multiplied by the cut's number of terminals.)
CutBound cutBound(const CapacityGraph& graph, std::span<const int> weights) {
  std::vector<bool> allButOne(static_cast<size_t>(graph.nodes), true);
  allButOne[static_cast<size_t>(graph.terminals.back())] = false;
  CutBound worst = ratioOf(graph, weights, std::move(allButOne));
  Fed fed(graph);
  int64_t all = 0;
  for (size_t t = 0; t < graph.terminals.size(); ++t) all += weightOf(weights, t);
  for (bool improved = true; improved && worst.capacity > 0;) {
    improved = false;
    const CutBound tried = worst;
    const int64_t common = std::gcd(tried.capacity, static_cast<int64_t>(tried.terminals));
    const int64_t each = tried.capacity / common, scale = tried.terminals / common;
    for (size_t e = 0; e < graph.edges.size(); ++e)
      fed.flow.setCapacity(static_cast<int>(e), graph.edges[e].capacity * scale);
    for (size_t t = 0; t < graph.terminals.size(); ++t)
      fed.flow.setCapacity(fed.firstFeed + static_cast<int>(t), each * weightOf(weights, t));
    for (int terminal : graph.terminals) {
      if (fed.flow.flow(fed.source, terminal, all * each) >= all * each) continue;
      const CutBound cut = ratioOf(graph, weights, fed.flow.sourceSide());
      improved = true;
      if (less(cut, worst)) worst = cut;
    }
  }
  return worst;
}

bool canFlow(const CapacityGraph& graph, const std::vector<int64_t>& capacities, int64_t each) {
  Fed fed(graph);
  for (size_t e = 0; e < capacities.size(); ++e) fed.flow.setCapacity(static_cast<int>(e), capacities[e]);
  for (size_t t = 0; t < graph.terminals.size(); ++t)
    fed.flow.setCapacity(fed.firstFeed + static_cast<int>(t), each);
  const int64_t needed = each * static_cast<int64_t>(graph.terminals.size());
  for (int terminal : graph.terminals) {
    if (fed.flow.flow(fed.source, terminal, needed) < needed) return false;
  }
  return true;
}

}  // namespace eccl::topology
