// What the hierarchical algorithms are for: what crosses between hosts, and between whom.
#include <gtest/gtest.h>

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
    int crossed = 0, least = 0;
    for (const Program& program :
         buildAll(rail(Collective::allToAll), {Collective::allToAll, ranks, 0}, placement, 1)) {
      least += ranks - hosts.size(hosts.groupOf(program.rank));
      for (const Step& step : program.steps) {
        const Operand* operands = &program.operands[static_cast<size_t>(step.firstOperand)];
        for (int i = step.sources; i < step.sources + step.destinations; ++i) {
          if (operands[i].space != Space::connection) continue;
          const int peer = program.connections[static_cast<size_t>(operands[i].index.at(0))].peer;
          if (hosts.groupOf(peer) != hosts.groupOf(program.rank)) crossed += step.repeat;
        }
      }
    }
    EXPECT_EQ(crossed, least);
  }
}

TEST(RailAllToAll, IsChosenWhereARankWouldHaveTooManyNeighbours) {
  SelectionTable table;
  table.rules = *rulesFor(Placement::blocks(96, 12), CostModel(), {});
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
