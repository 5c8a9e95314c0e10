#include "topology/search/rings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "topology/graphs.h"

namespace eccl::topology {
namespace {

using ::testing::HasSubstr;

// Every ring passes every terminal once, over edges that exist, and all together fit the capacities.
void expectValid(const CapacityGraph& graph, const Rings& rings) {
  std::map<std::pair<int, int>, int64_t> capacity;
  std::map<std::pair<int, int>, double> used;
  for (const CapacityEdge& edge : graph.edges) capacity[{edge.from, edge.to}] += edge.capacity;
  for (const Ring& ring : rings.rings) {
    std::map<int, int> visits;
    for (size_t i = 0; i < ring.nodes.size(); ++i) {
      ++visits[ring.nodes[i]];
      used[{ring.nodes[i], ring.nodes[(i + 1) % ring.nodes.size()]}] += rings.rate;
    }
    for (int t : graph.terminals) EXPECT_EQ(visits[t], 1) << "terminal " << t;
  }
  for (const auto& [ends, load] : used)
    EXPECT_LE(load, static_cast<double>(capacity[ends]) * (1 + 1e-6)) << ends.first << " to " << ends.second;
}

Rings searched(const CapacityGraph& graph, int mostChannels = 32) {
  Result<Rings> rings = searchRings(graph, mostChannels);
  EXPECT_TRUE(rings.ok()) << rings.status().message();
  if (!rings.ok()) return {};
  expectValid(graph, *rings);
  EXPECT_LE(rings->ofBound(), 1 + 1e-9);
  return rings.take();
}

TEST(Rings, GoBothWaysRoundACycle) {
  CapacityGraph graph = terminalsOnly(8);
  for (int t = 0; t < 8; ++t) addLink(graph, t, (t + 1) % 8, 25);
  const Rings rings = searched(graph);
  EXPECT_EQ(rings.rings.size(), 2U);
  EXPECT_DOUBLE_EQ(rings.ofBound(), 1);
}

TEST(Rings, OfASwitchAreOne) {
  CapacityGraph graph = terminalsOnly(8);
  graph.nodes = 9;
  for (int t = 0; t < 8; ++t) addLink(graph, t, 8, 450);
  const Rings rings = searched(graph);
  EXPECT_EQ(rings.rings.size(), 1U);
  EXPECT_DOUBLE_EQ(rings.ofBound(), 1);
}

// Seven links per terminal: Hamilton's cycles use all of them, but for what an odd number leaves over.
TEST(Rings, OfAMeshUseMostLinks) {
  CapacityGraph graph = terminalsOnly(8);
  for (int a = 0; a < 8; ++a) {
    for (int b = 0; b < a; ++b) addLink(graph, a, b, 50);
  }
  EXPECT_GE(searched(graph).ofBound(), 6.0 / 7 - 1e-9);
}

TEST(Rings, PassEverySwitchOfATree) {
  // One ring at what joins the CPUs; trees need less of that.
  EXPECT_DOUBLE_EQ(searched(pciServer()).ofBound(), 20.0 / 24);
}

TEST(Rings, OfRandomHostsAreValid) {
  std::mt19937 random(17);
  for (int round = 0; round < 60; ++round) {
    CapacityGraph graph = terminalsOnly(2 + static_cast<int>(random() % 6));
    graph.nodes += 2;
    for (int node = 0; node < graph.nodes - 2; ++node)
      addLink(graph, node, graph.nodes - 1 - static_cast<int>(random() % 2),
              10 * (1 + static_cast<int64_t>(random() % 5)));
    addLink(graph, graph.nodes - 2, graph.nodes - 1, 10 * (1 + static_cast<int64_t>(random() % 5)));
    searched(graph);
  }
}

TEST(Rings, SaysWhenThereIsNone) {
  CapacityGraph graph = terminalsOnly(4);  // a star: all ways lead through a terminal
  for (int t = 1; t < 4; ++t) addLink(graph, 0, t, 10);
  EXPECT_THAT(searchRings(graph).status().message(), HasSubstr("no ring through all 4 terminals"));
  graph.edges.resize(4);
  EXPECT_THAT(searchRings(graph).status().message(), HasSubstr("have no way to the others"));
}

}  // namespace
}  // namespace eccl::topology
