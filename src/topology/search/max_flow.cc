// Dinic's algorithm: breadth-first layers, then blocking flows by depth-first search along them, until the
// sink is out of reach.
#include "topology/search/max_flow.h"

#include <algorithm>

namespace eccl::topology {

int MaxFlow::add(int from, int to, int64_t capacity) {
  const int edge = static_cast<int>(capacities_.size());
  capacities_.push_back(capacity);
  outgoing_[static_cast<size_t>(from)].push_back(2 * edge);
  arcs_.push_back({to, 0});
  outgoing_[static_cast<size_t>(to)].push_back(2 * edge + 1);
  arcs_.push_back({from, 0});
  return edge;
}

int64_t MaxFlow::flow(int source, int sink, int64_t enough) {
  for (size_t edge = 0; edge < capacities_.size(); ++edge) {
    arcs_[2 * edge].residual = capacities_[edge];
    arcs_[2 * edge + 1].residual = 0;
  }
  int64_t total = 0;
  while (total < enough && layer(source, sink)) {
    next_.assign(outgoing_.size(), 0);
    while (total < enough) {
      const int64_t more = push(source, sink, kUnlimited);
      if (more == 0) break;
      total += more;
    }
  }
  return total;
}

// Depths by breadth-first search; false if the sink is out of reach.
bool MaxFlow::layer(int source, int sink) {
  depth_.assign(outgoing_.size(), -1);
  queue_.assign(1, source);
  depth_[static_cast<size_t>(source)] = 0;
  for (size_t at = 0; at < queue_.size(); ++at) {
    const auto node = static_cast<size_t>(queue_[at]);
    for (int arc : outgoing_[node]) {
      const Arc& a = arcs_[static_cast<size_t>(arc)];
      if (a.residual == 0 || depth_[static_cast<size_t>(a.to)] >= 0) continue;
      depth_[static_cast<size_t>(a.to)] = depth_[node] + 1;
      queue_.push_back(a.to);
    }
  }
  return depth_[static_cast<size_t>(sink)] >= 0;
}

int64_t MaxFlow::push(int node, int sink, int64_t limit) {
  if (node == sink) return limit;
  const auto at = static_cast<size_t>(node);
  for (size_t& next = next_[at]; next < outgoing_[at].size(); ++next) {
    const auto arc = static_cast<size_t>(outgoing_[at][next]);
    Arc& a = arcs_[arc];
    if (a.residual == 0 || depth_[static_cast<size_t>(a.to)] != depth_[at] + 1) continue;
    const int64_t got = push(a.to, sink, std::min(limit, a.residual));
    if (got == 0) continue;
    a.residual -= got;
    arcs_[arc ^ 1].residual += got;
    return got;
  }
  return 0;
}

std::vector<bool> MaxFlow::sourceSide() const {
  std::vector<bool> side(outgoing_.size());
  for (size_t node = 0; node < side.size(); ++node) side[node] = depth_[node] >= 0;
  return side;
}

}  // namespace eccl::topology
