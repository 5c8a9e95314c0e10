#include "transport/flows/flow_assignment.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace eccl::transport {
namespace {

LinkLoads loadsOf(const std::vector<FlowChoice>& flows) {
  LinkLoads loads;
  const std::vector<size_t> chosen = assignFlows(flows);
  for (size_t i = 0; i < flows.size(); ++i) loads.add(flows[i].ways[chosen[i]], flows[i].source);
  return loads;
}

uint32_t most(const LinkLoads& loads) {
  uint32_t most = 0;
  for (const auto& [link, load] : loads.flows) most = std::max(most, load);
  return most;
}

/// Hosts under leaves that are joined by spines. Link names: host's leaf, spine, direction.
struct Clos {
  int leaves, hostsEach, spines;
  int leafOf(int host) const { return host / hostsEach; }
  std::vector<LinkName> way(int from, int to, int spine) const {
    return {static_cast<LinkName>(1000 * leafOf(from) + spine),
            static_cast<LinkName>(100'000 + 1000 * leafOf(to) + spine)};
  }
  /// As a hash would give them to `ports` source ports.
  FlowChoice flow(int from, int to, int ports, std::mt19937& random) const {
    FlowChoice choice{from, {}};
    for (int port = 0; port < ports; ++port)
      choice.ways.push_back(way(from, to, static_cast<int>(random() % static_cast<unsigned>(spines))));
    return choice;
  }
};

TEST(FlowAssignment, AFlowWithOneWayTakesIt) {
  const std::vector<FlowChoice> flows = {{2, {{7, 8}}}};
  EXPECT_EQ(assignFlows(flows), std::vector<size_t>{0});
  EXPECT_EQ(loadsOf(flows).flows, (std::map<LinkName, uint32_t>{{7, 1}, {8, 1}}));
}

TEST(FlowAssignment, KeepsAwayFromWhatIsThere) {
  std::vector<FlowChoice> flows = {{0, {{1}, {2}, {3}}}, {1, {{1}, {2}, {3}}}};
  for (const LinkName link : {1, 1, 2, 3, 3}) flows.push_back({9, {{link}}, 0});
  const std::vector<size_t> chosen = assignFlows(flows);
  EXPECT_EQ(std::count(chosen.begin(), chosen.begin() + 2, 1u), 1);
  EXPECT_EQ(loadsOf(flows).flows[2], 2u);
}

TEST(FlowAssignment, WhatIsThereStaysWhereNothingIsGained) {
  EXPECT_EQ(assignFlows(std::vector<FlowChoice>{{0, {{1}, {2}}, 1}, {1, {{1}, {2}}, 0}}),
            (std::vector<size_t>{1, 0}));
}

// The one that came late can take link 1 alone, where another is that can go elsewhere.
TEST(FlowAssignment, WhatIsThereMakesRoomForALateOne) {
  EXPECT_EQ(assignFlows(std::vector<FlowChoice>{{0, {{1}, {2}}, 0}, {1, {{1}}}}), (std::vector<size_t>{1, 0}));
}

// Greedily the first takes link 1, which the second needs.
TEST(FlowAssignment, OneMakesRoomForAnother) {
  const std::vector<FlowChoice> flows = {{0, {{1}, {2}}}, {1, {{1}, {1}, {1}}}};
  EXPECT_EQ(assignFlows(flows)[0], 1u);
  EXPECT_EQ(most(loadsOf(flows)), 1u);
}

TEST(FlowAssignment, NoFlowsNoWays) {
  EXPECT_TRUE(assignFlows({}).empty());
}

TEST(FlowAssignment, IsTheSameEachTime) {
  std::mt19937 random(3);
  const Clos fabric{4, 4, 4};
  std::vector<FlowChoice> flows;
  for (int i = 0; i < 60; ++i) flows.push_back(fabric.flow(i % 16, (i * 7 + 5) % 16, 8, random));
  EXPECT_EQ(assignFlows(flows), assignFlows(flows));
}

// Every host of one leaf to one of the other: a permutation, for which random ports collide nearly always.
TEST(FlowAssignment, APermutationHasNoCollisions) {
  const Clos fabric{2, 4, 4};
  int perfect = 0, byChance = 0;
  const int rounds = 200;
  for (int seed = 0; seed < rounds; ++seed) {
    std::mt19937 random(static_cast<unsigned>(seed));
    std::vector<FlowChoice> flows;
    LinkLoads random1;
    for (int host = 0; host < 4; ++host) {
      flows.push_back(fabric.flow(host, 4 + host, 8, random));
      random1.add(flows.back().ways[0], host);
    }
    const LinkLoads loads = loadsOf(flows);
    perfect += most(loads) == 1;
    byChance += most(random1) == 1;
  }
  EXPECT_GE(perfect, rounds * 97 / 100);  // in the others some spine is not among the ports of two flows
  EXPECT_LE(byChance, rounds / 5);        // 4!/4^4 = 9 %
}

// Four sockets each, as of a ring with four channels: as many flows on each link in any case, but of one host.
TEST(FlowAssignment, FlowsOfOneSourceKeepTogetherWhereThatIsFree) {
  const Clos fabric{2, 4, 4};
  int links = 0;
  const int rounds = 50;
  for (int seed = 0; seed < rounds; ++seed) {
    std::mt19937 random(static_cast<unsigned>(seed));
    std::vector<FlowChoice> flows;
    for (int host = 0; host < 4; ++host)
      for (int socket = 0; socket < 4; ++socket) flows.push_back(fabric.flow(host, 4 + host, 8, random));
    const LinkLoads loads = loadsOf(flows);
    EXPECT_LE(most(loads), 5u);
    links += static_cast<int>(loads.ofSource.size());
  }
  // At best 4 hosts with a link up and one down each; spread by chance 4 sockets take 2.7 of 4 spines.
  EXPECT_LE(links, rounds * 8 * 3 / 2);
}

// One alone takes all there is.
TEST(FlowAssignment, FlowsOfOneSourceAreSpreadWhereNobodyElseSends) {
  EXPECT_EQ(most(loadsOf(std::vector<FlowChoice>(4, FlowChoice{0, {{1}, {2}, {3}, {4}}}))), 1u);
}

// AlltoAll between the hosts of several leaves.
TEST(FlowAssignment, SpreadsAllPairsEvenly) {
  for (const auto& [leaves, hosts, spines] :
       {std::array{2, 4, 4}, {2, 8, 4}, {4, 4, 4}, {3, 5, 2}, {4, 4, 8}}) {
    const Clos fabric{leaves, hosts, spines};
    std::mt19937 random(11);
    std::vector<FlowChoice> flows;
    for (int from = 0; from < leaves * hosts; ++from)
      for (int to = 0; to < leaves * hosts; ++to)
        if (fabric.leafOf(from) != fabric.leafOf(to)) flows.push_back(fabric.flow(from, to, 8, random));
    const LinkLoads loads = loadsOf(flows);
    const int flowsOfLeaf = hosts * hosts * (leaves - 1);
    const auto even = static_cast<uint32_t>((flowsOfLeaf + spines - 1) / spines);
    EXPECT_LE(most(loads), even + 1) << leaves << " leaves of " << hosts << " hosts, " << spines << " spines";
  }
}

}  // namespace
}  // namespace eccl::transport
