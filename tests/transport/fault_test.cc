// The decorator itself, on a clock that stands still.
#include <gtest/gtest.h>

#include "transport/fault/fault_path.h"
#include "transport/net/fake_clock.h"
#include "transport/shm/memory_path.h"
#include "transport/traffic.h"

namespace eccl::transport {
namespace {

constexpr RingShape kRingShape{8, 256};

struct Decorated {
  explicit Decorated(const FaultPlan& plan, uint64_t first = 0) {
    auto attached = [&](auto& end) {
      RingMemory memory = mapPrivate(ringMemoryBytes(kRingShape)).take();
      formatRing(memory.get(), kRingShape, first);
      attachRing(end, memory.get(), kRingShape, first, 0);
      return memory;
    };
    RingMemory outside = attached(lane);
    path = std::make_unique<FaultPath>(plan, clock, outside, lane,
                                       [this](const Breakage& why) { cut = why.reason; });
    inside = attached(path->inner());
    attachRing(receiver, inside.get(), kRingShape, first, 0);
    path->wrap(std::make_unique<MemoryPath>(MemoryPath::Between::threads, inside, PeerHeap(), &path->inner(),
                                            nullptr, std::make_shared<Fd>(eventfdOf())));
  }
  int eventfdOf() {
    EXPECT_TRUE(bell.open(System::real()).ok());
    return dup(bell.doorbell());
  }
  void send(uint32_t signature) {
    ASSERT_TRUE(trySend(lane, std::vector<std::byte>(100), signature));
    path->kick();
  }
  test::FakeClock clock;
  Reactor bell;
  RingMemory inside;  // outlives a cut, for the receiver
  SendEnd lane;
  ReceiveEnd receiver;
  std::unique_ptr<FaultPath> path;
  std::string cut;
};

/// When each of `count` messages becomes visible, in microseconds.
std::vector<int> arrivals(uint64_t seed, int count) {
  FaultPlan plan;
  plan.seed = seed;
  plan.delay = std::chrono::microseconds(100);
  Decorated decorated(plan);
  std::vector<int> times;
  uint32_t sent = 0;
  for (int now = 0; static_cast<int>(times.size()) < count && now < 100'000; ++now) {
    while (sent < static_cast<uint32_t>(count) && decorated.lane.reserve() != nullptr) decorated.send(sent++);
    decorated.path->kick();
    Received received;
    while (decorated.receiver.peek(received)) {
      EXPECT_EQ(received.signature, times.size());
      times.push_back(now);
      decorated.receiver.release();
    }
    decorated.clock.advance(std::chrono::microseconds(1));
  }
  return times;
}

TEST(FaultPath, DelaysByTheSeedAndNeverReorders) {
  const std::vector<int> once = arrivals(1, 50);
  ASSERT_EQ(once.size(), 50u);
  EXPECT_TRUE(std::is_sorted(once.begin(), once.end()));
  EXPECT_GT(once.back(), 100);  // credits were delayed too
  EXPECT_EQ(arrivals(1, 50), once);
  EXPECT_NE(arrivals(2, 50), once);
}

TEST(FaultPath, SaysWhenItHasToBeCalled) {
  FaultPlan plan;
  plan.delay = std::chrono::microseconds(100);
  Decorated decorated(plan);
  EXPECT_EQ(decorated.path->nextDue(), TimePoint::max());
  decorated.send(0);
  const TimePoint due = decorated.path->nextDue();
  ASSERT_GE(due, decorated.clock.now());
  ASSERT_LT(due, decorated.clock.now() + plan.delay);
  decorated.clock.advance(due - decorated.clock.now());
  decorated.path->kick();
  Received received;
  EXPECT_TRUE(decorated.receiver.peek(received));
  EXPECT_EQ(decorated.path->nextDue(), TimePoint::max());
}

TEST(FaultPath, StallsWhereAndAsLongAsTold) {
  FaultPlan plan;
  plan.stallAt = 2;
  plan.stallFor = std::chrono::seconds(5);
  Decorated decorated(plan, ~uint64_t{0});
  for (uint32_t k = 0; k < 4; ++k) decorated.send(k);
  Received received;
  for (int k = 0; k < 2; ++k) {
    ASSERT_TRUE(decorated.receiver.peek(received));
    decorated.receiver.release();
  }
  decorated.clock.advance(plan.stallFor - Duration(1));
  decorated.path->kick();
  EXPECT_FALSE(decorated.receiver.peek(received));
  decorated.clock.advance(Duration(1));
  decorated.path->kick();
  for (uint32_t k = 2; k < 4; ++k) {
    ASSERT_TRUE(decorated.receiver.peek(received));
    EXPECT_EQ(received.signature, k);
    decorated.receiver.release();
  }
}

TEST(FaultPath, CutsAfterWhatArrived) {
  FaultPlan plan;
  plan.cutAfter = 3;
  Decorated decorated(plan);
  for (uint32_t k = 0; k < 5; ++k) decorated.send(k);
  Received received;
  for (uint32_t k = 0; k < 3; ++k) {
    ASSERT_TRUE(decorated.receiver.peek(received));
    EXPECT_EQ(received.signature, k);
    EXPECT_EQ(decorated.cut, "");
    decorated.receiver.release();
    decorated.path->kick();
  }
  EXPECT_NE(decorated.cut, "");
  EXPECT_TRUE(decorated.lane.poisoned());
  EXPECT_TRUE(decorated.receiver.poisoned());
  EXPECT_FALSE(decorated.receiver.peek(received));
  decorated.path->kick();
  decorated.path->flush();
  decorated.path->beforeSleep();
  decorated.path->afterSleep();
  decorated.path->poison();
  EXPECT_EQ(decorated.path->nextDue(), TimePoint::max());
}

TEST(FaultPath, PassesReferencesAndPoisonOn) {
  Decorated decorated(FaultPlan{});
  decorated.lane.mine = kOwnAddressSpace;
  decorated.lane.directFrom = 100;
  std::vector<std::byte> bytes(100);
  ASSERT_TRUE(trySend(decorated.lane, bytes, 1));
  decorated.path->kick();
  Received received;
  ASSERT_TRUE(decorated.receiver.peek(received));
  EXPECT_EQ(received.flags & kSlotGet, kSlotGet);
  EXPECT_EQ(received.offset, reinterpret_cast<uint64_t>(bytes.data()));
  EXPECT_FALSE(decorated.lane.getsReleased());
  decorated.receiver.release();
  decorated.path->kick();
  EXPECT_TRUE(decorated.lane.getsReleased());
  storeRelease(&decorated.receiver.control->receiverPoison, 1u);
  decorated.path->kick();
  EXPECT_TRUE(decorated.lane.poisoned());
}

}  // namespace
}  // namespace eccl::transport
