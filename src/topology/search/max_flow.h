// Maximal flow between two nodes, and the cut that limits it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace eccl::topology {

/// Dinic's algorithm (E. A. Dinic, Soviet Math. Doklady 11, 1970): O(V²E), and much less on the small, shallow
/// graphs of hosts. One thread. Edges stay; capacities can be set anew and flows found again without
/// allocating.
class MaxFlow {
 public:
  static constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max() / 4;

  explicit MaxFlow(int nodes) : outgoing_(static_cast<size_t>(nodes)) {}
  /// The number of the edge, ascending from 0.
  int add(int from, int to, int64_t capacity);
  void setCapacity(int edge, int64_t capacity) { capacities_[static_cast<size_t>(edge)] = capacity; }
  int64_t capacity(int edge) const { return capacities_[static_cast<size_t>(edge)]; }
  /// Starts from no flow. Stops once the flow is `enough`: then it is at least that, not maximal.
  int64_t flow(int source, int sink, int64_t enough = kUnlimited);
  /// After flow() that was not stopped: the nodes on the source's side of a minimal cut.
  std::vector<bool> sourceSide() const;

 private:
  struct Arc {
    int to;
    int64_t residual;
  };
  bool layer(int source, int sink);
  int64_t push(int node, int sink, int64_t limit);

  std::vector<int64_t> capacities_;         // by edge
  std::vector<Arc> arcs_;                   // edge e is arc 2e, its way back arc 2e + 1
  std::vector<std::vector<int>> outgoing_;  // arcs by node
  std::vector<int> depth_, queue_;
  std::vector<size_t> next_;
};

}  // namespace eccl::topology
