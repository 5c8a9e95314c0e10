// Graphs for the tests of the searches.
#pragma once

#include "topology/search/capacity_graph.h"

namespace eccl {

inline void addLink(topology::CapacityGraph& graph, int a, int b, int64_t capacity) {
  graph.edges.push_back({a, b, capacity});
  graph.edges.push_back({b, a, capacity});
}

inline topology::CapacityGraph terminalsOnly(int n) {
  topology::CapacityGraph graph;
  graph.nodes = n;
  for (int t = 0; t < n; ++t) graph.terminals.push_back(t);
  return graph;
}

/// 8 accelerators below 4 PCI switches (8 to 11) and 2 CPUs (12 and 13).
inline topology::CapacityGraph pciServer() {
  topology::CapacityGraph graph = terminalsOnly(8);
  graph.nodes = 14;
  for (int t = 0; t < 8; ++t) addLink(graph, t, 8 + t / 2, 24000);
  for (int s = 0; s < 4; ++s) addLink(graph, 8 + s, 12 + s / 2, 24000);
  addLink(graph, 12, 13, 20000);
  return graph;
}

}  // namespace eccl
