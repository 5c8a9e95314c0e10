// What the hierarchical algorithms are for: what crosses between hosts, and between whom.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "algorithms/builder/groups.h"
#include "algorithms/library/algorithm.h"
#include "algorithms/selection/selection_rules.h"
#include "support/placements.h"

namespace eccl::algorithms {
namespace {

const Algorithm& rail(Collective collective) {
  return *findAlgorithm(collective, "rail");
}

/// Messages of one part that come to each host from others, by the rank that gets them.
std::vector<int> arrivalsFromOutside(const std::vector<Program>& programs, const Placement& placement) {
  std::vector<int> arrivals(programs.size());
  for (const Program& program : programs) {
    for (const Step& step : program.steps) {
      const Operand* operands = &program.operands[static_cast<size_t>(step.firstOperand)];
      for (int i = 0; i < step.sources; ++i) {
        for (int repeat = 0; operands[i].space == Space::connection && repeat < step.repeat; ++repeat) {
          const auto peer =
              static_cast<size_t>(program.connections[static_cast<size_t>(operands[i].index.at(repeat))].peer);
          const auto rank = static_cast<size_t>(program.rank);
          arrivals[rank] += placement.host[peer] != placement.host[rank];
        }
      }
    }
  }
  return arrivals;
}

TEST(RailAllToAll, NothingCrossesBetweenRails) {
  for (Collective collective : {Collective::allToAll, Collective::allToAllv}) {
    for (int ranks : {4, 7, 12, 16}) {
      for (const Placement& placement : test::placementsOf(ranks)) {
        const Groups hosts(placement.host);
        for (const Program& program : buildAll(rail(collective), {collective, ranks, 0}, placement, 1)) {
          std::set<int> across;
          for (const ConnectionSpec& connection : program.connections) {
            if (hosts.groupOf(connection.peer) == hosts.groupOf(program.rank)) continue;
            across.insert(connection.peer);
            // Where hosts are unequal, a rank beyond the smaller one's size is served by its place there.
            const int from = connection.sends ? program.rank : connection.peer;
            const int to = connection.sends ? connection.peer : program.rank;
            EXPECT_EQ(hosts.placeOf(from), hosts.placeOf(to) % hosts.size(hosts.groupOf(from)));
          }
          if (hosts.least() * hosts.number() != ranks) continue;
          EXPECT_EQ(static_cast<int>(across.size()), hosts.number() - 1);
        }
      }
    }
  }
}

TEST(RailAllToAll, EachBlockCrossesOnce) {
  const int ranks = 12;
  for (const Placement& placement : test::placementsOf(ranks)) {
    const Groups hosts(placement.host);
    const auto programs = buildAll(rail(Collective::allToAll), {Collective::allToAll, ranks, 0}, placement, 1);
    int least = 0;
    for (int rank = 0; rank < ranks; ++rank) least += ranks - hosts.size(hosts.groupOf(rank));
    const std::vector<int> arrivals = arrivalsFromOutside(programs, placement);
    EXPECT_EQ(std::accumulate(arrivals.begin(), arrivals.end(), 0), least);
  }
}

TEST(HostRings, EachBlockEntersAHostOnceAndAllPortsBringAsMany) {
  for (Collective collective : {Collective::allGather, Collective::reduceScatter}) {
    for (int ranks : {4, 7, 12, 16}) {
      for (const Placement& placement : test::placementsOf(ranks)) {
        const Groups hosts(placement.host);
        const auto programs =
            buildAll(*findAlgorithm(collective, "hierarchical"), {collective, ranks, 0}, placement, 1);
        const std::vector<int> arrivals = arrivalsFromOutside(programs, placement);
        // Sums: that of a block leaves every host but its own once.
        const bool sums = collective == Collective::reduceScatter;
        const int together = std::accumulate(arrivals.begin(), arrivals.end(), 0);
        EXPECT_EQ(together, ranks * (hosts.number() - 1)) << nameOf(collective);
        const bool equal = hosts.least() * hosts.number() == ranks;
        for (int host = 0; host < hosts.number(); ++host) {
          int entering = 0;
          for (int rank : hosts.members[static_cast<size_t>(host)]) {
            entering += arrivals[static_cast<size_t>(rank)];
            EXPECT_TRUE(!equal || arrivals[static_cast<size_t>(rank)] == hosts.number() - 1);
          }
          EXPECT_TRUE(sums || entering == ranks - hosts.size(host));
        }
      }
    }
  }
}

TEST(HostRings, AnAllReduceBringsEachPortItsShareTwice) {
  for (const auto& [hosts, each] : {std::pair(2, 4), std::pair(3, 3), std::pair(5, 2), std::pair(4, 1)}) {
    const Placement placement = Placement::blocks(hosts * each, hosts);
    const auto programs =
        buildAll(rail(Collective::allReduce), {Collective::allReduce, hosts * each, 0}, placement, 1);
    EXPECT_EQ(programs[0].parts, hosts * each);
    for (int arrivals : arrivalsFromOutside(programs, placement)) EXPECT_EQ(arrivals, 2 * (hosts - 1));
  }
}

TEST(Hierarchical, BroadcastAndReduceCrossEachBorderOnceByAllPorts) {
  for (Collective collective : {Collective::broadcast, Collective::reduce}) {
    for (int root : {0, 5, 11}) {
      const Placement placement = Placement::blocks(12, 3);
      const auto programs =
          buildAll(*findAlgorithm(collective, "hierarchical"), {collective, 12, root}, placement, 1);
      EXPECT_EQ(programs[0].parts, 4);
      const std::vector<int> arrivals = arrivalsFromOutside(programs, placement);
      // One part at each rank of two hosts: of all but the first of the chain.
      EXPECT_EQ(std::accumulate(arrivals.begin(), arrivals.end(), 0), 2 * 4);
      EXPECT_EQ(*std::max_element(arrivals.begin(), arrivals.end()), 1);
    }
  }
}

TEST(RailAllToAll, IsChosenWhereARankWouldHaveTooManyNeighbours) {
  SelectionTable table;
  auto rules = rulesFor(Placement::blocks(96, 12), CostModel(), {});
  ASSERT_TRUE(rules.ok()) << rules.status().message();
  table.rules = rules.take();
  for (Collective collective : {Collective::allToAll, Collective::allToAllv}) {
    for (size_t bytes : {size_t{64}, size_t{1} << 20})
      EXPECT_STREQ(select(collective, bytes, 96, table).algorithm->name, "rail");
  }
  // Without hosts of several ranks there is nothing to choose from.
  table.rules = *rulesFor(Placement::hosts(96), CostModel(), {});
  EXPECT_STREQ(select(Collective::allToAll, 64, 96, table).algorithm->name, "direct");
  EXPECT_STREQ(select(Collective::allToAllv, 64, 96, table).algorithm->name, "relay");
}

}  // namespace
}  // namespace eccl::algorithms
