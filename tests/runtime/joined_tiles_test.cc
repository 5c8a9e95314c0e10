// Tiles that a receiver makes together, of messages that a test publishes.
#include "program/joined_tiles.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <numeric>
#include <vector>

#include "kernels/reduce.h"
#include "program/interpreter.h"
#include "runtime/execution/plan.h"

namespace eccl::runtime {
namespace {

constexpr RingShape kShape{256, 8192};
constexpr uint64_t kTile = kShape.slotBytes / sizeof(float);
constexpr uint32_t kSignature = 5;

std::shared_ptr<Plan> planFor(const Call& call, int rank, int ranks, const char* algorithm = nullptr) {
  PlanContext context;
  context.rank = rank;
  context.ranks = ranks;
  context.placement = std::make_shared<const Placement>(Placement::oneHost(ranks, 1));  // nothing in halves
  context.ring = kShape;
  if (algorithm != nullptr)
    context.selection.forced[static_cast<size_t>(call.collective)] =
        algorithms::findAlgorithm(call.collective, algorithm);
  auto plan = Planner(context).plan(call);
  EXPECT_TRUE(plan.ok()) << plan.status().message();
  return *plan;
}

Call callOf(Collective collective, uint64_t count) {
  Call call;
  call.collective = collective;
  call.count = count;
  return call;
}

/// Adds floats at once, and writes down how many.
struct Adding {
  static constexpr bool kCompletesInSubmit = true;
  bool submit(int32_t, const MoveTask& move) {
    kernels::ReduceTask task;
    task.type = DataType::float32;
    task.sources = static_cast<uint8_t>(move.sources);
    task.destinations = static_cast<uint8_t>(move.destinations);
    task.count = move.elements;
    std::copy_n(move.source, move.sources, task.source);
    std::copy_n(move.destination, move.destinations, task.destination);
    kernels::reduce(task);
    moved.push_back(move.elements);
    if (meanwhile != nullptr) *meanwhile = 1;
    return true;
  }
  std::vector<uint64_t> moved;
  uint32_t* meanwhile = nullptr;
};

/// A ring, and floats that its sender refers to.
struct Ring {
  explicit Ring(uint64_t floats) : memory(kShape.bytes() / sizeof(Slot) + 1), theirs(floats) {
    formatRing(memory.data(), kShape, 0);
    attachRing(sender, memory.data(), kShape, 0, 0);
    attachRing(receiver, memory.data(), kShape, 0, 0);
    receiver.mine = receiver.theirs = sender.mine = sender.theirs = kOwnAddressSpace;
    receiver.directFrom = sender.directFrom = kDirectFrom;
    std::iota(theirs.begin(), theirs.end(), 1.f);
  }
  std::vector<Slot> memory;
  std::vector<float> theirs;
  SendEnd sender;
  ReceiveEnd receiver;
};

/// The last rank, in the lane in which it receives from others.
class JoinedTiles : public ::testing::Test {
 protected:
  void receive(const Call& call, const char* algorithm = nullptr, int ranks = 2) {
    plan_ = planFor(call, ranks - 1, ranks, algorithm);
    const Program& program = *plan_->program;
    lane_ = static_cast<int32_t>(program.lanes.size()) - 1;
    ASSERT_NE(plan_->joins[static_cast<size_t>(lane_)], 0);
    count_ = call.count;
    senders_.assign(program.connections.size(), nullptr);
    for (const ConnectionSpec& connection : program.connections) {
      if (!connection.sends) rings_.push_back(std::make_unique<Ring>(2 * count_));
      receivers_.push_back(connection.sends ? nullptr : &rings_.back()->receiver);
    }
    plan_->view.senders = senders_.data();
    plan_->view.receivers = receivers_.data();
    in_.assign(static_cast<size_t>(ranks) * count_, 1);
    out_.assign(static_cast<size_t>(ranks) * count_, 0);
    lanes_.resize(program.lanes.size());
    run_.plan = &plan_->view;
    run_.lanes = lanes_.data();
    run_.signature = kSignature;
    run_.buffers[static_cast<int>(Space::input)] = reinterpret_cast<std::byte*>(in_.data());
    run_.buffers[static_cast<int>(Space::output)] = reinterpret_cast<std::byte*>(out_.data());
  }
  LaneState& lane() { return lanes_[static_cast<size_t>(lane_)]; }
  Ring& ring(size_t source = 0) { return *rings_[source]; }
  /// The next tile's message, which names the memory of that tile, `away` floats on.
  void refer(uint64_t away = 0, uint32_t signature = kSignature, size_t source = 0) {
    SendEnd& sender = ring(source).sender;
    const uint64_t at = sender.next * kTile, elements = std::min(kTile, count_ - at);
    sender.slot(sender.next)->offset = reinterpret_cast<uintptr_t>(ring(source).theirs.data() + at + away);
    const bool last = !plan_->view.streams || at + elements == count_;
    sender.publish(static_cast<uint32_t>(elements * sizeof(float)),
                   static_cast<uint16_t>(kSlotGet | (last ? kSlotLast : 0)), signature);
  }
  void referTo(uint64_t tiles, size_t source = 0) {
    for (uint64_t i = 0; i < tiles; ++i) refer(0, kSignature, source);
  }
  /// The same tile as a message in its slot, of zeros.
  void fill(uint64_t staleOffset, size_t source = 0) {
    SendEnd& sender = ring(source).sender;
    std::memset(sender.place(kShape.slotBytes), 0, kShape.slotBytes);
    sender.slot(sender.next)->offset = staleOffset;  // as a message before it may have left it
    sender.publish(kShape.slotBytes, plan_->view.streams ? 0 : kSlotLast, kSignature);
  }
  /// One move.
  LaneAnswer advance() { return eccl::advance(run_, lane_, 1, device_); }
  /// What has come is what was sent, or the sum of it and one.
  void expectCome(uint64_t elements, bool sums = false) {
    for (uint64_t i = 0; i < elements; ++i) {
      float expected = sums ? 1 : 0;
      for (const auto& each : rings_) expected += each->theirs[i];
      ASSERT_EQ(out_[i], expected) << i;
    }
    for (uint64_t i = elements; i < count_; ++i) ASSERT_EQ(out_[i], 0) << i;
  }
  using Elements = std::vector<uint64_t>;

  std::shared_ptr<Plan> plan_;
  std::vector<std::unique_ptr<Ring>> rings_;
  std::vector<SendEnd*> senders_;
  std::vector<ReceiveEnd*> receivers_;
  std::vector<float> in_, out_;
  std::vector<LaneState> lanes_;
  RunView run_;
  Adding device_;
  uint64_t count_ = 0;
  int32_t lane_ = 0;
};

TEST_F(JoinedTiles, WhatIsThereIsOneMove) {
  receive(callOf(Collective::receive, 5 * kTile + 100));
  referTo(3);
  EXPECT_EQ(advance(), LaneAnswer::progress);
  EXPECT_EQ(device_.moved, Elements{3 * kTile});
  expectCome(3 * kTile);
  EXPECT_EQ(ring().receiver.next, 3);
  EXPECT_TRUE(ring().sender.released(3));
  EXPECT_EQ(lane().tile, 3);
  EXPECT_EQ(lane().moves, 3);
  EXPECT_EQ(lane().done, 3);
  // Nobody waited for the message that was not there.
  EXPECT_EQ(ring().receiver.missed, 0);
  EXPECT_EQ(advance(), LaneAnswer::blocked);
  EXPECT_EQ(ring().receiver.missed, 4);
  referTo(3);
  EXPECT_EQ(advance(), LaneAnswer::done);
  EXPECT_EQ(device_.moved, (Elements{3 * kTile, 2 * kTile + 100}));
  expectCome(count_);
  EXPECT_EQ(lane().done, 6);
  EXPECT_EQ(ring().receiver.ahead, 0);
}

TEST_F(JoinedTiles, TheSenderCanGoOnMeanwhile) {
  constexpr uint64_t kMost = interpreter::kJoinedBytes / sizeof(float);
  receive(callOf(Collective::receive, kMost + 3 * kTile));
  referTo(kMost / kTile + 3);
  EXPECT_EQ(advance(), LaneAnswer::progress);
  EXPECT_EQ(advance(), LaneAnswer::done);
  EXPECT_EQ(device_.moved, (Elements{kMost, 3 * kTile}));
  expectCome(count_);
}

TEST_F(JoinedTiles, OnlyWhatLiesOneBehindTheOther) {
  receive(callOf(Collective::receive, 6 * kTile));
  referTo(2);
  refer(64);
  fill(reinterpret_cast<uintptr_t>(ring().theirs.data() + 3 * kTile + 64));
  referTo(2);
  for (int i = 0; i < 4; ++i) advance();
  EXPECT_EQ(device_.moved, (Elements{2 * kTile, kTile, kTile, 2 * kTile}));
  EXPECT_EQ(out_[2 * kTile], ring().theirs[2 * kTile + 64]);
  EXPECT_EQ(out_[3 * kTile], 0);
  EXPECT_EQ(out_[6 * kTile - 1], ring().theirs[6 * kTile - 1]);
}

TEST_F(JoinedTiles, AWrongMessageIsFoundWhenItIsItsTurn) {
  receive(callOf(Collective::receive, 4 * kTile));
  referTo(2);
  refer(0, kSignature + 1);
  EXPECT_EQ(advance(), LaneAnswer::progress);
  EXPECT_EQ(lane().fault, LaneFault::none);
  EXPECT_EQ(ring().receiver.next, 2);
  EXPECT_EQ(advance(), LaneAnswer::failed);
  EXPECT_EQ(lane().fault, LaneFault::signature);
}

TEST_F(JoinedTiles, OfASenderThatFailsMeanwhileNothingIsTaken) {
  receive(callOf(Collective::receive, 4 * kTile));
  referTo(2);
  device_.meanwhile = &ring().receiver.control->senderPoison;
  EXPECT_EQ(advance(), LaneAnswer::failed);
  EXPECT_EQ(lane().fault, LaneFault::poisoned);
  EXPECT_EQ(ring().receiver.next, 0);
  EXPECT_EQ(lane().tile, 0);
  EXPECT_EQ(ring().receiver.control->reading, 0);
}

TEST_F(JoinedTiles, SumsOfTilesWhoseInputIsThere) {
  receive(callOf(Collective::reduceScatter, 4 * kTile - 7), "direct");
  run_.readyTiles = 3;
  referTo(4);
  EXPECT_EQ(advance(), LaneAnswer::progress);
  EXPECT_EQ(advance(), LaneAnswer::blocked);
  run_.readyTiles = 4;
  EXPECT_EQ(advance(), LaneAnswer::done);
  EXPECT_EQ(device_.moved, (Elements{3 * kTile, kTile - 7}));
  expectCome(count_, true);
}

// Of several senders all have to have come as far, one behind the other.
TEST_F(JoinedTiles, OfSeveralSendersThoseThatAllRefer) {
  receive(callOf(Collective::reduceScatter, 8 * kTile), "direct", 3);
  ASSERT_EQ(rings_.size(), 2U);
  const auto expectMoved = [&](const Elements& moved) {
    EXPECT_EQ(device_.moved, moved);
    for (const auto& each : rings_) EXPECT_EQ(each->receiver.ahead, 0U);
    device_.moved.clear();
  };
  referTo(3, 0);
  referTo(2, 1);
  EXPECT_EQ(advance(), LaneAnswer::progress);
  expectMoved({2 * kTile});
  EXPECT_EQ(advance(), LaneAnswer::blocked);
  refer(64, kSignature, 1);
  referTo(3, 0);
  referTo(3, 1);
  EXPECT_EQ(advance(), LaneAnswer::progress);
  expectMoved({kTile});
  fill(0, 0);
  EXPECT_EQ(advance(), LaneAnswer::progress);
  expectMoved({3 * kTile});
  referTo(1, 0);
  referTo(2, 1);
  EXPECT_EQ(advance(), LaneAnswer::progress);
  EXPECT_EQ(advance(), LaneAnswer::done);
  expectMoved({kTile, kTile});
  EXPECT_EQ(out_[8 * kTile - 1], 1 + 2 * ring().theirs[8 * kTile - 1]);
}

TEST_F(JoinedTiles, ASenderThatEndsEarlyIsFoundWhenItIsItsTurn) {
  receive(callOf(Collective::receive, 4 * kTile));
  referTo(1);
  ring().sender.slot(1)->offset = ring().sender.slot(0)->offset + kShape.slotBytes;
  ring().sender.publish(kShape.slotBytes, kSlotGet | kSlotLast, kSignature);
  EXPECT_EQ(advance(), LaneAnswer::progress);
  EXPECT_EQ(device_.moved, Elements{kTile});
  EXPECT_EQ(advance(), LaneAnswer::failed);
  EXPECT_EQ(lane().fault, LaneFault::length);
}

// Memory for messages to come is offered by their numbers.
TEST_F(JoinedTiles, MemoryIsOfferedForTheTilesBehindThem) {
  receive(callOf(Collective::broadcast, 40 * kTile), "direct");
  plan_->ahead.assign(plan_->ahead.size(), 0);  // none but for the tile that is begun
  referTo(5);
  EXPECT_EQ(advance(), LaneAnswer::progress);
  EXPECT_EQ(device_.moved, Elements{5 * kTile});
  EXPECT_EQ(advance(), LaneAnswer::blocked);
  const PutOffer& offer = ring().receiver.offerFor(5);
  EXPECT_EQ(offer.sequence, 6);
  EXPECT_EQ(offer.offset, reinterpret_cast<uintptr_t>(out_.data() + 5 * kTile));
  EXPECT_EQ(ring().receiver.considered, 6);
}

struct Copies final : RemoteReads {
  LaneFault read(uint64_t address, std::byte* to, uint32_t length) override {
    std::memcpy(to, reinterpret_cast<const std::byte*>(address), length);
    return LaneFault::none;
  }
  std::byte* aside(int) override { return nullptr; }
};

// Long moves leave others their turn; what has been written where it belongs is no work.
TEST_F(JoinedTiles, WhatIsInItsPlaceLeavesNobodyWithoutATurn) {
  constexpr uint64_t kMoves = 12;
  receive(callOf(Collective::receive, 4 * kMoves * kTile));
  const auto made = [&] {
    const uint64_t before = lane().moves;
    EXPECT_EQ(eccl::advance(run_, lane_, kMoves, device_), LaneAnswer::progress);
    return lane().moves - before;
  };
  EXPECT_EQ(advance(), LaneAnswer::blocked);
  for (uint64_t i = 0; i < kMoves; ++i) {
    ring().receiver.offer(i, reinterpret_cast<const std::byte*>(out_.data() + i * kTile), kShape.slotBytes);
    ring().sender.publish(kShape.slotBytes, kSlotPut, kSignature);
  }
  EXPECT_EQ(made(), kMoves);
  for (uint64_t i = 0; i < kMoves / 2; ++i) fill(0);
  EXPECT_EQ(made(), kMoves / 2);
  // The kernel reads it there, which is work.
  Copies copies;
  ring().receiver.remote = &copies;
  for (uint64_t i = 0; i < kMoves; ++i) {
    SendEnd& sender = ring().sender;
    sender.slot(sender.next)->offset = kInProcess | reinterpret_cast<uintptr_t>(ring().theirs.data());
    sender.publish(kShape.slotBytes, kSlotGet, kSignature);
  }
  EXPECT_EQ(made(), kMoves / 2);
  EXPECT_EQ(out_[lane().tile * kTile - 1], ring().theirs[kTile - 1]);
}

// What is passed on, or waited for tile by tile, is not held up.
TEST(JoiningLanes, AreThoseForWhichNobodyWaits) {
  const auto joins = [](Collective collective, const char* algorithm, int rank, int ranks) {
    const auto plan = planFor(callOf(collective, 8 * kTile), rank, ranks, algorithm);
    std::string all;
    for (const uint8_t each : plan->joins) all += each != 0 ? 'j' : '-';
    return all;
  };
  EXPECT_EQ(joins(Collective::receive, nullptr, 1, 2), "j");
  EXPECT_EQ(joins(Collective::send, nullptr, 1, 2), "-");
  EXPECT_EQ(joins(Collective::allGather, "ring", 1, 2), "-j");
  EXPECT_EQ(joins(Collective::allGather, "ring", 1, 3), "-");
  EXPECT_EQ(joins(Collective::reduceScatter, "ring", 1, 2), "-j");
  EXPECT_EQ(joins(Collective::allToAll, "direct", 1, 2), "-jj");
  EXPECT_EQ(joins(Collective::allToAll, "direct", 1, 3), "---");
  EXPECT_EQ(joins(Collective::broadcast, "chain", 0, 3), "-");
  EXPECT_EQ(joins(Collective::broadcast, "chain", 1, 3), "-");
  EXPECT_EQ(joins(Collective::broadcast, "chain", 2, 3), "j");
  EXPECT_TRUE(planFor(callOf(Collective::allGather, kTile), 1, 2, "ring")->joins.empty());  // one tile
}

TEST(JoiningLanes, AreNotThoseThatOtherLanesWaitFor) {
  int waited = 0;
  for (const algorithms::Algorithm& algorithm : algorithms::algorithms()) {
    for (const int ranks : {2, 3, 8}) {
      Call call = callOf(algorithm.collective, 64 * kTile);
      if (call.varies() || algorithm.collective == Collective::barrier) continue;
      const auto plan = planFor(call, 0, ranks, algorithm.name);
      for (const Step& step : plan->program->steps) {
        if (step.waitLane == kNoLane) continue;
        ++waited;
        EXPECT_EQ(plan->joins[static_cast<size_t>(step.waitLane)], 0) << algorithm.name;
      }
    }
  }
  EXPECT_GT(waited, 0);
}

}  // namespace
}  // namespace eccl::runtime
