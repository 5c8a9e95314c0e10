#include "topology/search/graph_of_host.h"

#include <algorithm>
#include <cmath>

namespace eccl::topology {

CapacityGraph graphOf(const Host& host, std::vector<int> terminals) {
  CapacityGraph graph;
  graph.nodes = static_cast<int>(host.devices.size());
  graph.terminals = std::move(terminals);
  std::vector<int> degree(host.devices.size());
  std::vector<bool> terminal(host.devices.size());
  for (int t : graph.terminals) terminal[static_cast<size_t>(t)] = true;
  for (const Link& link : linksOf(host)) {
    if (link.kind == LinkKind::network) continue;
    const auto capacity = std::max<int64_t>(1, std::llround(link.gigabytes * kCapacityPerGigabyte));
    graph.edges.push_back({link.a, link.b, capacity});
    ++degree[static_cast<size_t>(link.a)];
  }
  // Nothing passes a device that only one link leads away from: without these the searches have less to look
  // at.
  for (bool pruned = true; pruned;) {
    pruned = false;
    std::erase_if(graph.edges, [&](const CapacityEdge& edge) {
      const auto dead = [&](int node) {
        return !terminal[static_cast<size_t>(node)] && degree[static_cast<size_t>(node)] <= 1;
      };
      if (!dead(edge.from) && !dead(edge.to)) return false;
      --degree[static_cast<size_t>(edge.from)];
      pruned = true;
      return true;
    });
  }
  return graph;
}

}  // namespace eccl::topology
