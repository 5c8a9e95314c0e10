#include "topology/search/forest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <random>
#include <set>

#include "topology/graphs.h"
#include "topology/search/max_flow.h"

namespace eccl::topology {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// All cuts, one by one.
double boundByTrial(const CapacityGraph& graph) {
  double least = 1e300;
  for (uint32_t set = 1; set < (1U << graph.nodes) - 1; ++set) {
    int terminals = 0;
    for (int t : graph.terminals) terminals += static_cast<int>(set >> t & 1);
    if (terminals == 0 || terminals == static_cast<int>(graph.terminals.size())) continue;
    int64_t capacity = 0;
    for (const CapacityEdge& edge : graph.edges) {
      if ((set >> edge.from & 1) != 0 && (set >> edge.to & 1) == 0) capacity += edge.capacity;
    }
    least = std::min(least, static_cast<double>(capacity) / terminals);
  }
  return least;
}

// Every tree spans, leads from terminal to terminal over edges that exist, and all together fit the capacities.
void expectValid(const CapacityGraph& graph, const Forest& forest) {
  std::map<std::pair<int, int>, int64_t> capacity;
  std::map<std::pair<int, int>, double> used;
  for (const CapacityEdge& edge : graph.edges) capacity[{edge.from, edge.to}] += edge.capacity;
  const std::set<int> terminals(graph.terminals.begin(), graph.terminals.end());
  std::map<int, int> channels;
  for (const SpanningTree& tree : forest.trees) {
    ++channels[tree.root];
    std::set<int> reached{tree.root};
    for (const std::vector<int>& branch : tree.branches) {
      ASSERT_GE(branch.size(), 2U);
      EXPECT_TRUE(reached.count(branch.front())) << "a branch from where the tree has not been";
      EXPECT_TRUE(reached.insert(branch.back()).second) << "reached twice";
      for (size_t i = 0; i + 1 < branch.size(); ++i) {
        EXPECT_TRUE(i == 0 || terminals.count(branch[i]) == 0) << "a terminal in passing";
        used[{branch[i], branch[i + 1]}] += forest.rate;
      }
    }
    EXPECT_EQ(reached, terminals);
  }
  for (int t : graph.terminals) EXPECT_EQ(channels[t], forest.channels) << "root " << t;
  for (const auto& [ends, load] : used)
    EXPECT_LE(load, static_cast<double>(capacity[ends]) * (1 + 1e-9)) << ends.first << " to " << ends.second;
}

Forest searched(const CapacityGraph& graph, int mostChannels = 32) {
  Result<Forest> forest = searchForest(graph, mostChannels);
  EXPECT_TRUE(forest.ok()) << forest.status().message();
  if (!forest.ok()) return {};
  expectValid(graph, *forest);
  return forest.take();
}

TEST(MaxFlow, FindsFlowAndCut) {
  MaxFlow flow(4);
  flow.add(0, 1, 3);
  flow.add(0, 2, 2);
  const int narrow = flow.add(1, 3, 1);
  flow.add(2, 3, 4);
  flow.add(1, 2, 1);
  EXPECT_EQ(flow.flow(0, 3), 4);
  EXPECT_THAT(flow.sourceSide(), ElementsAre(true, true, false, false));
  flow.setCapacity(narrow, 5);
  EXPECT_EQ(flow.flow(0, 3), 5);
  EXPECT_GE(flow.flow(0, 3, 2), 2);
  EXPECT_EQ(flow.flow(3, 0), 0);
}

TEST(CutBound, OfASwitchIsWhatATerminalGets) {
  CapacityGraph graph;  // 4 terminals at a switch
  graph.nodes = 5;
  graph.terminals = {0, 1, 2, 3};
  for (int t : graph.terminals) addLink(graph, t, 4, 60);
  const CutBound bound = cutBound(graph);
  EXPECT_EQ(bound.capacity, 60);  // into the one terminal outside, for three inside
  EXPECT_EQ(bound.terminals, 3);
  const Forest forest = searched(graph);
  EXPECT_DOUBLE_EQ(forest.ofBound(), 1);
}

TEST(CutBound, NamesTheNarrowPlace) {
  CapacityGraph graph;  // two switches of 4 terminals each, joined by a thin link
  graph.nodes = 10;
  for (int t = 0; t < 8; ++t) {
    graph.terminals.push_back(t);
    addLink(graph, t, t < 4 ? 8 : 9, 100);
  }
  addLink(graph, 8, 9, 40);
  const CutBound bound = cutBound(graph);
  EXPECT_DOUBLE_EQ(bound.perTerminal(), 10);
  EXPECT_EQ(bound.inside[8], bound.inside[0]);
  EXPECT_NE(bound.inside[8], bound.inside[9]);
  EXPECT_DOUBLE_EQ(searched(graph).ofBound(), 1);
}

TEST(CutBound, IsTheLeastOfAllCuts) {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    CapacityGraph graph = terminalsOnly(2 + static_cast<int>(random() % 6));
    graph.nodes += static_cast<int>(random() % 4);
    for (int a = 0; a < graph.nodes; ++a) {
      for (int b = 0; b < graph.nodes; ++b) {
        if (a != b && random() % 3 != 0) graph.edges.push_back({a, b, 1 + static_cast<int64_t>(random() % 50)});
      }
    }
    EXPECT_NEAR(cutBound(graph).perTerminal(), boundByTrial(graph), 1e-9) << "round " << round;
  }
}

// Links that are equally fast both ways, with switches between: the whole bound within 1 %.
TEST(Forest, ReachesTheBoundOfRandomHosts) {
  std::mt19937 random(11);
  for (int round = 0; round < 60; ++round) {
    CapacityGraph graph = terminalsOnly(2 + static_cast<int>(random() % 6));
    const int switches = static_cast<int>(random() % 4);
    graph.nodes += switches;
    for (int node = 1; node < graph.nodes; ++node)  // connected, then more at random
      addLink(graph, node, static_cast<int>(random() % static_cast<unsigned>(node)),
              10 * (1 + static_cast<int64_t>(random() % 5)));
    for (int more = 0; more < graph.nodes; ++more) {
      const int a = static_cast<int>(random() % static_cast<unsigned>(graph.nodes)),
                b = static_cast<int>(random() % static_cast<unsigned>(graph.nodes));
      if (a != b) addLink(graph, a, b, 10 * (1 + static_cast<int64_t>(random() % 5)));
    }
    const Forest forest = searched(graph);
    EXPECT_GE(forest.ofBound(), 0.95) << "round " << round << ", " << forest.channels << " channels";
    EXPECT_LE(forest.ofBound(), 1 + 1e-9);
  }
}

// What is faster one way than the other cannot always be split off, but is searched all the same.
TEST(Forest, OfUnequalLinksIsValid) {
  std::mt19937 random(13);
  for (int round = 0; round < 60; ++round) {
    CapacityGraph graph = terminalsOnly(3 + static_cast<int>(random() % 3));
    graph.nodes += 1;
    for (int a = 0; a < graph.nodes; ++a) {
      for (int b = 0; b < graph.nodes; ++b) {
        if (a != b && random() % 2 != 0) graph.edges.push_back({a, b, 1 + static_cast<int64_t>(random() % 50)});
      }
    }
    if (cutBound(graph).capacity == 0) continue;
    EXPECT_LE(searched(graph).ofBound(), 1 + 1e-9);
  }
}

TEST(Forest, OfARingGoesBothWays) {
  CapacityGraph graph = terminalsOnly(8);
  for (int t = 0; t < 8; ++t) addLink(graph, t, (t + 1) % 8, 25);
  const Forest forest = searched(graph);
  EXPECT_DOUBLE_EQ(forest.ofBound(), 1);  // 2 * 25 into each terminal, for 7 others
}

TEST(Forest, KeepsToTheChannels) {
  CapacityGraph graph = terminalsOnly(3);
  addLink(graph, 0, 1, 7);
  addLink(graph, 1, 2, 11);
  addLink(graph, 0, 2, 13);
  for (int channels : {1, 2, 5}) EXPECT_LE(searched(graph, channels).channels, channels);
  EXPECT_GT(searched(graph, 32).ofBound(), searched(graph, 1).ofBound());
}

TEST(Forest, SaysWhatIsWrong) {
  const auto error = [](const CapacityGraph& graph) { return searchForest(graph).status().message(); };
  CapacityGraph graph = terminalsOnly(4);
  addLink(graph, 0, 1, 10);
  addLink(graph, 2, 3, 10);
  EXPECT_THAT(error(graph), HasSubstr("have no way to the others"));
  addLink(graph, 1, 2, 0);
  EXPECT_THAT(error(graph), HasSubstr("the edge from node 1 to node 2 has no capacity"));
  graph = terminalsOnly(1);
  EXPECT_THAT(error(graph), HasSubstr("two terminals or more, not 1"));
  graph = terminalsOnly(2);
  graph.edges.push_back({0, 5, 1});
  EXPECT_THAT(error(graph), HasSubstr("an edge from node 0 to node 5 in a graph of 2 nodes"));
}

// A figure to look at, not a limit: 8 accelerators below 4 PCI switches and 2 CPUs, with 12 links each to the
// others.
TEST(Forest, TakesMilliseconds) {
  CapacityGraph graph = pciServer();
  for (int a = 0; a < 8; ++a) {
    for (int b = 0; b < a; ++b) addLink(graph, a, b, (a ^ b) < 4 ? 50000 : 25000);
  }
  const auto begun = std::chrono::steady_clock::now();
  const Forest forest = searched(graph);
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begun;
  RecordProperty("milliseconds", std::to_string(took.count()));
  std::printf("%d channels, %.4f of the bound, %.1f ms\n", forest.channels, forest.ofBound(), took.count());
  EXPECT_GE(forest.ofBound(), 0.95);
}

}  // namespace
}  // namespace eccl::topology
