// What plans of all ranks have in common, and how much a rank sends ahead.
#include "runtime/execution/plan.h"

#include <gtest/gtest.h>

#include "algorithms/builder/builder.h"
#include "algorithms/selection/candidates.h"
#include "algorithms/verify/verify.h"

namespace eccl::runtime {
namespace {

constexpr int kPlanRanks = 8;

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
  const Placement placement = Placement::hosts(kPlanRanks);
  for (const algorithms::Algorithm& algorithm : algorithms::algorithms()) {
    Call call;
    call.collective = algorithm.collective;
    if (algorithm.hierarchical() || call.varies()) continue;
    for (int root : {0, 3}) {
      const auto first = planOf(algorithm, placement, 0, 1 << 20, root);
      for (int rank = 1; rank < kPlanRanks; ++rank) {
        const auto plan = planOf(algorithm, placement, rank, 1 << 20, root);
        EXPECT_EQ(plan->view.tiles, first->view.tiles) << algorithm.name << " rank " << rank;
        EXPECT_EQ(plan->view.partition.tile, first->view.partition.tile) << algorithm.name << " rank " << rank;
      }
    }
  }
}

TEST(Planner, FewBytesGoAheadToEachOfManyNeighboursOnOtherHosts) {
  const auto plan = planOf(allToAll(), Placement::hosts(kPlanRanks), 3, 1 << 20);
  EXPECT_EQ(plan->view.partition.tile * sizeof(float), algorithms::kAheadBytes / 2);
  EXPECT_EQ(plan->mostAhead, 2U);
}

TEST(Planner, NothingIsHeldBackFromFewNeighboursOnOneHostOrOfShortMessages) {
  const auto& ring = *algorithms::findAlgorithm(Collective::allReduce, "ring");
  EXPECT_EQ(planOf(ring, Placement::hosts(kPlanRanks), 3, 1 << 20)->mostAhead, UINT32_MAX);
  EXPECT_EQ(planOf(allToAll(), Placement::hosts(algorithms::kFewNeighbours + 1), 3, 1 << 20)->mostAhead,
            UINT32_MAX);
  const auto oneHost = planOf(allToAll(), Placement::oneHost(kPlanRanks, kPlanRanks), 3, 1 << 20);
  EXPECT_EQ(oneHost->mostAhead, UINT32_MAX);
  EXPECT_EQ(oneHost->view.partition.tile * sizeof(float), 128U << 10);
  EXPECT_GE(planOf(allToAll(), Placement::hosts(kPlanRanks), 3, 1 << 10)->mostAhead, 8U);
}

// A rank that has one buffer reads or writes another's, which is as long.
TEST(Planner, KnowsHowMuchMemoryACallGoesThrough) {
  constexpr size_t kBytes = 1 << 20;
  const Placement placement = Placement::hosts(2);
  const auto footprint = [&](Collective collective, int rank) {
    return planOf(*algorithms::findAlgorithm(collective, "direct"), placement, rank, kBytes)->footprint;
  };
  EXPECT_EQ(footprint(Collective::allGather, 0), 3 * kBytes);
  EXPECT_EQ(footprint(Collective::broadcast, 0), 2 * kBytes);
  EXPECT_EQ(footprint(Collective::broadcast, 1), 2 * kBytes);
  PlanContext context;
  context.ranks = 2;
  context.placement = std::make_shared<const Placement>(placement);
  context.ring = {8, 128 << 10};
  Planner planner(context);
  for (const Collective collective : {Collective::send, Collective::receive, Collective::allToAllv}) {
    for (const int peer : {0, 1}) {  // 0 is this rank
      Call call;
      call.collective = collective;
      call.type = DataType::float32;
      call.count = kBytes / sizeof(float);
      call.root = peer;
      if (call.varies())
        call.sendCounts = call.receiveCounts = call.sendOffsets = call.receiveOffsets = {0, call.count};
      const auto plan = planner.plan(call);
      ASSERT_TRUE(plan.ok()) << plan.status().message();
      EXPECT_EQ((*plan)->footprint, 2 * kBytes);
    }
  }
}

// What lies between blocks is not the call's.
TEST(Planner, BytesOfACallAreThoseOfItsBlocks) {
  const Placement placement = Placement::hosts(2);
  const auto used = [](const Plan& plan, Space space) {
    const Plan::Bytes bytes = plan.used[static_cast<int>(space)];
    return std::pair(bytes.begin, bytes.end);
  };
  const auto gathered = planOf(*algorithms::findAlgorithm(Collective::allGather, "direct"), placement, 1, 4096);
  EXPECT_EQ(used(*gathered, Space::input), std::pair(size_t{0}, size_t{4096}));
  EXPECT_EQ(used(*gathered, Space::output), std::pair(size_t{0}, size_t{8192}));
  const auto received = planOf(*algorithms::findAlgorithm(Collective::reduce, "direct"), placement, 1, 4096);
  EXPECT_EQ(used(*received, Space::output), std::pair(size_t{0}, size_t{0})) << "the root's alone";

  PlanContext context;
  context.ranks = 2;
  context.placement = std::make_shared<const Placement>(placement);
  context.ring = {8, 128 << 10};
  Planner planner(context);
  Call call;
  call.collective = Collective::allToAllv;
  call.type = DataType::int8;
  call.sendCounts = {100, 50};
  call.sendOffsets = {70, 20};  // the second comes first
  call.receiveCounts = {100, 60};
  call.receiveOffsets = {0, 101};  // a byte between them
  const auto plan = planner.plan(call);
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  EXPECT_EQ(used(**plan, Space::input), std::pair(size_t{20}, size_t{170}));
  EXPECT_EQ(used(**plan, Space::output), std::pair(size_t{0}, size_t{0}));
}

TEST(Planner, MessagesAreLongerAmongRanksThatShareMemoryAndNoCore) {
  EXPECT_EQ(algorithms::slotBytesFor(0, Placement::oneHost(2, 2)), 256U << 10);
  EXPECT_EQ(algorithms::slotBytesFor(4096, Placement::oneHost(2, 2)), 4096U);
  EXPECT_EQ(algorithms::slotBytesFor(0, Placement::oneHost(2, 1)), 128U << 10);
  EXPECT_EQ(algorithms::slotBytesFor(0, Placement::hosts(2)), 128U << 10);
  Placement byUcx = Placement::hosts(3);
  byUcx.ucx = {true, true, false};
  EXPECT_EQ(algorithms::slotBytesFor(0, byUcx), 128U << 10);
  byUcx.ucx[2] = true;
  EXPECT_EQ(algorithms::slotBytesFor(0, byUcx), 1U << 20);
  Placement inPairs = Placement::blocks(4, 2);
  inPairs.ucx.assign(4, true);
  EXPECT_EQ(algorithms::slotBytesFor(0, inPairs), 128U << 10) << "some share memory";
  byUcx.cores.assign(3, 0.5);
  EXPECT_EQ(algorithms::slotBytesFor(0, byUcx), 128U << 10);
}

// Planner holds back all but two messages.
TEST(Planner, NoScheduleNeedsMoreThanTwoSlots) {
  for (const Placement& placement : {Placement::hosts(kPlanRanks), Placement::blocks(kPlanRanks, 3)}) {
    for (const algorithms::Algorithm& algorithm : algorithms::algorithms()) {
      if (!algorithms::fits(algorithm, placement)) continue;
      const algorithms::Verdict verdict = algorithms::verify(
          algorithms::buildAll(algorithm, {algorithm.collective, kPlanRanks, 0}, placement, 1), false);
      EXPECT_TRUE(verdict.ok) << verdict.reason;
      EXPECT_LE(verdict.minSlots, 2) << nameOf(algorithm.collective) << " " << algorithm.name;
    }
  }
}

}  // namespace
}  // namespace eccl::runtime
