// Maximal flow between two nodes of a graph, and the cut that limits it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace eccl::topology {

/// Dinic's algorithm (E. A. Dinic, Soviet Math. Doklady 11, 1970): O(V²E), and much less on the small,
/// shallow graphs of hosts. Edges stay; capacities can be set anew and flows found again without allocating.
/// Owner: one search. One thread.
class MaxFlow {
 public:
  static constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max() / 4;

  explicit MaxFlow(int nodes) : outgoing_(static_cast<size_t>(nodes)) {}
  /// Adds an edge and returns its number, ascending from 0.
  int add(int from, int to, int64_t capacity);
  /// Takes effect with the next flow().
  void setCapacity(int edge, int64_t capacity) { capacities_[static_cast<size_t>(edge)] = capacity; }
  int64_t capacity(int edge) const { return capacities_[static_cast<size_t>(edge)]; }
  /// The maximal flow, found anew from none. It stops once the flow is `enough`: the result is then at least
  /// that, and not maximal.
  int64_t flow(int source, int sink, int64_t enough = kUnlimited);
  /// The nodes on the source's side of a minimal cut, by node. Only after a flow() that was not stopped.
  std::vector<bool> sourceSide() const;

 private:
  struct Arc {
    int to;
    int64_t residual;
  };
  // Numbers the nodes by their distance from the source in the residual graph; false if the sink is not
  // reached.
  bool layer(int source, int sink);
  // Sends up to `limit` along edges that lead one layer on.
  int64_t push(int node, int sink, int64_t limit);

  std::vector<int64_t> capacities_;         // by edge
  std::vector<Arc> arcs_;                   // edge e is arc 2e, its way back arc 2e + 1
  std::vector<std::vector<int>> outgoing_;  // arcs by node
  std::vector<int> depth_, queue_;
  std::vector<size_t> next_;
};

}  // namespace eccl::topology
