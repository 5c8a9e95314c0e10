// How results are written: through the caches or past them, as measured.
#include "runtime/executor/result_writes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <vector>

#include "base/ticks.h"
#include "runtime/execution/plan.h"
#include "runtime/executor/host_executor.h"

namespace eccl::runtime {
namespace {

constexpr size_t kCacheShare = 12 << 20;

TEST(ResultWrites, AreMeasuredForMediumSizesOnly) {
  EXPECT_FALSE(isMeasured(kCacheShare / 3 - 1, kCacheShare));
  EXPECT_TRUE(isMeasured(kCacheShare / 3, kCacheShare));
  EXPECT_TRUE(isMeasured(kCacheShare * 3 - 1, kCacheShare));
  EXPECT_FALSE(isMeasured(kCacheShare * 3, kCacheShare));
  EXPECT_FALSE(isMeasured(size_t{1} << 40, SIZE_MAX / 8));  // the share is not known
}

// Buffers beyond a rank's share of the caches.
TEST(ResultWrites, GoPastTheCachesThatDoNotHoldThem) {
  EXPECT_FALSE(writesPastCaches(kCacheShare, kCacheShare));
  EXPECT_TRUE(writesPastCaches(kCacheShare / 2 * 3, kCacheShare));
  EXPECT_FALSE(writesPastCaches(size_t{1} << 40, SIZE_MAX / 8));
}

/// Makes calls that take so long through the caches and past them; returns how many went past them.
int pastOf(ResultWrites& writes, int calls, uint64_t through, uint64_t past) {
  int its = 0;
  for (int i = 0; i < calls; ++i) {
    const bool way = writes.past();
    its += way;
    writes.note(way, way ? past : through);
  }
  return its;
}

TEST(ResultWrites, GoTheFasterWayAndBackWhenThatChanges) {
  ResultWrites writes(false);
  EXPECT_EQ(pastOf(writes, 8, 100, 80), 0);
  EXPECT_TRUE(writes.past());
  EXPECT_GE(pastOf(writes, 200, 100, 80), 180);
  EXPECT_LE(pastOf(writes, 2000, 100, 130), 300);
  EXPECT_FALSE(writes.past());
  ResultWrites large(true);
  EXPECT_EQ(pastOf(large, 8, 80, 100), 8);
  EXPECT_LE(pastOf(large, 200, 80, 100), 20);
}

TEST(ResultWrites, TrialsThatChangeNothingGetRare) {
  ResultWrites writes(false);
  EXPECT_EQ(pastOf(writes, 12, 100, 90), 4);
  EXPECT_LE(pastOf(writes, 10000, 100, 90), 120);
}

TEST(ResultWrites, TrialsOfWhatIsMuchSlowerEndAfterTwoCallsAndAreRare) {
  for (const uint64_t past : {149, 150}) {
    ResultWrites writes(false);
    EXPECT_EQ(pastOf(writes, 12, 100, past), past < 150 ? 4 : 2);
    EXPECT_FALSE(writes.past());
    EXPECT_EQ(pastOf(writes, 60, 100, past), past < 150 ? 8 : 0);
    EXPECT_EQ(pastOf(writes, 10, 100, past), past < 150 ? 0 : 2);
  }
}

TEST(ResultWrites, InterruptionsDoNotMislead) {
  for (const uint64_t past : {80, 120}) {
    ResultWrites writes(false);
    for (int i = 0; i < 2000; ++i) {
      const bool way = writes.past();
      writes.note(way, (way ? past : 100) * (i % 3 == 0 ? 7 : 1));
    }
    int its = 0;
    for (int i = 0; i < 300; ++i) {
      its += writes.past();
      writes.note(writes.past(), writes.past() ? past : 100);
    }
    EXPECT_TRUE(past < 100 ? its >= 290 : its <= 10) << past << ": " << its;
  }
}

TEST(ResultWrites, WithoutAClockNothingIsTried) {
  ResultWrites writes(false);
  EXPECT_EQ(pastOf(writes, 100, 0, 0), 0);
}

/// A call of one rank, which copies.
class CallOfOne {
 public:
  explicit CallOfOne(size_t bytes) : input_(bytes / sizeof(float)), output_(input_.size()) {
    std::iota(input_.begin(), input_.end(), 0.F);
    PlanContext context;
    context.ranks = 1;
    context.placement = std::make_shared<const Placement>(Placement::hosts(1));
    context.ring = {8, 128 << 10};
    Call call;
    call.collective = Collective::allToAll;
    call.type = DataType::float32;
    call.count = input_.size();
    plan_ = *Planner(context).plan(call);
  }
  /// Runs it once, for a rank with such a share of the caches. Returns whether its result went past them.
  bool run(HostExecutor& executor, size_t cacheShare, bool inPlace = false) {
    std::fill(output_.begin(), output_.end(), -1.F);
    std::vector<LaneState> lanes(plan_->program->lanes.size());
    Work work;
    work.executor = &executor;
    work.type = DataType::float32;
    work.footprint = plan_->footprint;
    work.cacheShare = cacheShare;
    work.kept = &plan_->kept;
    work.view.plan = &plan_->view;
    work.view.lanes = lanes.data();
    auto* const input = reinterpret_cast<std::byte*>(input_.data());
    work.view.buffers[static_cast<int>(Space::input)] = input;
    work.view.buffers[static_cast<int>(Space::output)] =
        inPlace ? input : reinterpret_cast<std::byte*>(output_.data());
    work.view.readyTiles = UINT64_MAX;
    EXPECT_TRUE(executor.begin(work).ok());
    MoveTask move{};
    move.userMask = 1;
    const bool past = executor.taskOf(work, move).streamed == 1;
    for (size_t lane = 0; lane < lanes.size(); ++lane)
      while (!lanes[lane].finished) executor.advance(work, static_cast<int32_t>(lane), 8);
    if (!inPlace) {
      EXPECT_EQ(output_, input_);
    }
    return past;
  }
  size_t footprint() const { return plan_->footprint; }
  const ResultWrites* writes() const { return static_cast<const ResultWrites*>(plan_->kept.get()); }

 private:
  std::vector<float> input_, output_;
  std::shared_ptr<Plan> plan_;
};

TEST(HostExecutor, MeasuresCallsOfMediumSize) {
  if (ticks() == 0) GTEST_SKIP() << "this kind of processor has no counter of time that we know of";
  HostExecutor executor;
  CallOfOne call(1 << 20);
  EXPECT_FALSE(call.run(executor, call.footprint() * 4));
  EXPECT_TRUE(call.run(executor, call.footprint() / 4));
  EXPECT_EQ(call.writes(), nullptr);
  for (int i = 0; i < 8; ++i) EXPECT_FALSE(call.run(executor, call.footprint())) << i;
  ASSERT_NE(call.writes(), nullptr);
  EXPECT_TRUE(call.run(executor, call.footprint()));  // the other way is tried now
  for (int i = 0; i < 100; ++i) call.run(executor, call.footprint());
}

// A message that the peer has put into its place, or the own block of a call in place.
TEST(HostExecutor, DoesNotMeasureWhatIsInItsPlaceAlready) {
  HostExecutor executor;
  CallOfOne call(1 << 20);
  for (int i = 0; i < 20; ++i) EXPECT_FALSE(call.run(executor, call.footprint(), true)) << i;
}

// The state of their Runs is their own, and the size alone decides.
TEST(HostExecutor, MeasuresNothingForOtherExecutors) {
  struct Foreign final : WorkState {};
  HostExecutor executor, other;
  Work work;
  work.executor = &other;
  work.state = std::make_unique<Foreign>();
  work.footprint = kCacheShare;
  work.cacheShare = kCacheShare;
  MoveTask move{};
  move.userMask = 1;
  EXPECT_EQ(executor.taskOf(work, move).streamed, 0);
  work.footprint = 2 * kCacheShare;
  EXPECT_EQ(executor.taskOf(work, move).streamed, 1);
}

}  // namespace
}  // namespace eccl::runtime
