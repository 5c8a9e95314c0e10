// What plans of all ranks have in common, and how much a rank sends ahead.
#include "runtime/execution/plan.h"

#include <gtest/gtest.h>

#include "algorithms/builder/builder.h"
#include "algorithms/selection/candidates.h"
#include "algorithms/verify/verify.h"

namespace eccl::runtime {
namespace {

constexpr int kRanks = 8;

std::shared_ptr<Plan> planOf(const algorithms::Algorithm& algorithm, const Placement& placement, int rank,
                             size_t bytes, int root = 0) {
  PlanContext context;
  context.rank = rank;
  context.ranks = placement.ranks();
  context.placement = std::make_shared<const Placement>(placement);
  context.ring = {8, 128 << 10};
  context.selection.forced[static_cast<size_t>(algorithm.collective)] = &algorithm;
  Call call;
  call.collective = algorithm.collective;
  call.type = DataType::float32;
  call.count = bytes / sizeof(float);
  call.root = root;
  auto plan = Planner(context).plan(call);
  EXPECT_TRUE(plan.ok()) << plan.status().message();
  return *plan;
}

const algorithms::Algorithm& allToAll() {
  return *algorithms::findAlgorithm(Collective::allToAll, "direct");
}

TEST(Planner, RanksCutCallsAlike) {
  const Placement placement = Placement::hosts(kRanks);
  for (const algorithms::Algorithm& algorithm : algorithms::algorithms()) {
    Call call;
    call.collective = algorithm.collective;
    if (algorithm.hierarchical() || call.varies()) continue;
    for (int root : {0, 3}) {
      const auto first = planOf(algorithm, placement, 0, 1 << 20, root);
      for (int rank = 1; rank < kRanks; ++rank) {
        const auto plan = planOf(algorithm, placement, rank, 1 << 20, root);
        EXPECT_EQ(plan->view.tiles, first->view.tiles) << algorithm.name << " rank " << rank;
        EXPECT_EQ(plan->view.partition.tile, first->view.partition.tile) << algorithm.name << " rank " << rank;
      }
    }
  }
}

TEST(Planner, FewBytesGoAheadToEachOfManyNeighboursOnOtherHosts) {
  const auto plan = planOf(allToAll(), Placement::hosts(kRanks), 3, 1 << 20);
  EXPECT_EQ(plan->view.partition.tile * sizeof(float), algorithms::kAheadBytes / 2);
  EXPECT_EQ(plan->mostAhead, 2U);
}

TEST(Planner, NothingIsHeldBackFromFewNeighboursOnOneHostOrOfShortMessages) {
  const auto& ring = *algorithms::findAlgorithm(Collective::allReduce, "ring");
  EXPECT_EQ(planOf(ring, Placement::hosts(kRanks), 3, 1 << 20)->mostAhead, UINT32_MAX);
  EXPECT_EQ(planOf(allToAll(), Placement::hosts(algorithms::kFewNeighbours + 1), 3, 1 << 20)->mostAhead,
            UINT32_MAX);
  const auto oneHost = planOf(allToAll(), Placement::oneHost(kRanks, kRanks), 3, 1 << 20);
  EXPECT_EQ(oneHost->mostAhead, UINT32_MAX);
  EXPECT_EQ(oneHost->view.partition.tile * sizeof(float), 128U << 10);
  EXPECT_GE(planOf(allToAll(), Placement::hosts(kRanks), 3, 1 << 10)->mostAhead, 8U);
}

// Planner holds back all but two messages.
TEST(Planner, NoScheduleNeedsMoreThanTwoSlots) {
  for (const Placement& placement : {Placement::hosts(kRanks), Placement::blocks(kRanks, 3)}) {
    for (const algorithms::Algorithm& algorithm : algorithms::algorithms()) {
      if (!algorithms::fits(algorithm, placement)) continue;
      const algorithms::Verdict verdict = algorithms::verify(
          algorithms::buildAll(algorithm, {algorithm.collective, kRanks, 0}, placement, 1), false);
      EXPECT_TRUE(verdict.ok) << verdict.reason;
      EXPECT_LE(verdict.minSlots, 2) << nameOf(algorithm.collective) << " " << algorithm.name;
    }
  }
}

}  // namespace
}  // namespace eccl::runtime
