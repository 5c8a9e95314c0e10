// Sends that both sides make: the receiver reads one half, while the sender writes the other one.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "algorithms/cost/simulate.h"
#include "program/interpreter.h"
#include "runtime/execution/plan.h"
#include "runtime/executor/host_executor.h"
#include "support/placements.h"
#include "support/processes.h"

namespace eccl {
namespace {

using runtime::inHalves;
using runtime::kHalvesFrom;

TEST(Halves, AreOfLongSendsBetweenRanksWithACoreAndMemoryInCommon) {
  const Placement pair = Placement::oneHost(2, 2);
  EXPECT_TRUE(inHalves(pair, 0, 1, kHalvesFrom));
  EXPECT_TRUE(inHalves(pair, 1, 0, kHalvesFrom));
  EXPECT_FALSE(inHalves(pair, 0, 1, kHalvesFrom - 1));
  EXPECT_FALSE(inHalves(pair, 1, 1, kHalvesFrom));
  EXPECT_FALSE(inHalves(Placement::oneHost(3, 2), 0, 1, kHalvesFrom));
  EXPECT_FALSE(inHalves(Placement::hosts(2), 0, 1, kHalvesFrom));
  const Placement three = test::onHosts({0, 0, 1});
  EXPECT_TRUE(inHalves(three, 0, 1, kHalvesFrom));
  EXPECT_FALSE(inHalves(three, 1, 2, kHalvesFrom));
  for (const int rank : {0, 1}) {
    Placement withDevice = pair;
    withDevice.accelerator[static_cast<size_t>(rank)] = 0;
    EXPECT_FALSE(inHalves(withDevice, 0, 1, kHalvesFrom));
  }
}

TEST(Halves, ArePricedAsBothTogether) {
  algorithms::CallSize size;
  size.elements = 16 << 20;
  const auto time = [&](bool halves) {
    const std::vector<Program> pair = {runtime::pointToPointProgram(Collective::send, 0, 2, 1, halves),
                                       runtime::pointToPointProgram(Collective::receive, 1, 2, 0, halves)};
    const auto its =
        algorithms::simulatedTime(pair, size, Placement::oneHost(2, 2), algorithms::CostParameters::defaults());
    EXPECT_TRUE(its.ok()) << its.status().message();
    return *its;
  };
  EXPECT_LT(time(true), .9 * time(false));
}

constexpr RingShape kRing{8, 128 << 10};
constexpr uint32_t kSignature = 7;

/// One side of a Send of floats, with its end of a ring that both ends are in.
class Side {
 public:
  Side(Collective collective, int rank, std::vector<float>& memory, std::vector<Slot>& ring) {
    runtime::PlanContext context;
    context.rank = rank;
    context.ranks = 2;
    context.placement = std::make_shared<const Placement>(Placement::oneHost(2, 2));
    context.ring = kRing;
    runtime::Call call;
    call.collective = collective;
    call.root = 1 - rank;
    call.type = DataType::float32;
    call.count = memory.size();
    plan_ = *runtime::Planner(context).plan(call);
    attachRing(sender, ring.data(), kRing, 0, 0);
    attachRing(receiver, ring.data(), kRing, 0, 0);
    for (RingEnd* end : {static_cast<RingEnd*>(&sender), static_cast<RingEnd*>(&receiver)}) {
      end->mine = end->theirs = kOwnAddressSpace;
      end->directFrom = kDirectFrom;
    }
    senders_ = {collective == Collective::send ? &sender : nullptr};
    receivers_ = {collective == Collective::send ? nullptr : &receiver};
    plan_->view.senders = senders_.data();
    plan_->view.receivers = receivers_.data();
    work_.executor = &executor_;
    work_.type = call.type;
    work_.kept = &plan_->kept;
    work_.view.plan = &plan_->view;
    work_.view.lanes = &lane_;
    work_.view.signature = kSignature;
    work_.view.patient = true;
    const Space space = collective == Collective::send ? Space::input : Space::output;
    work_.view.buffers[static_cast<int>(space)] = reinterpret_cast<std::byte*>(memory.data());
    EXPECT_TRUE(executor_.begin(work_).ok());
  }
  LaneAnswer advance() { return executor_.advance(work_, 0, 1); }
  void impatient() { work_.view.patient = false; }

  SendEnd sender;
  ReceiveEnd receiver;

 private:
  runtime::HostExecutor executor_;
  std::shared_ptr<runtime::Plan> plan_;
  std::vector<SendEnd*> senders_;
  std::vector<ReceiveEnd*> receivers_;
  LaneState lane_;
  runtime::Work work_;
};

class HalvesOfASend : public ::testing::Test {
 protected:
  HalvesOfASend() : ring_(kRing.bytes() / sizeof(Slot) + 1), out_(kCount), in_(kCount) {
    formatRing(ring_.data(), kRing, 0);
    for (size_t i = 0; i < kCount; ++i) out_[i] = static_cast<float>(i);
  }
  static constexpr size_t kCount = (kHalvesFrom + 20'000) / sizeof(float);
  std::vector<Slot> ring_;
  std::vector<float> out_, in_;
};

TEST_F(HalvesOfASend, OneIsReadWhileTheOtherIsWritten) {
  Side receiver(Collective::receive, 1, in_, ring_), sender(Collective::send, 0, out_, ring_);
  EXPECT_EQ(receiver.advance(), LaneAnswer::blocked);  // it offers places for its half
  int messages = 0;
  for (LaneAnswer answer = LaneAnswer::progress; answer != LaneAnswer::done;) {
    const uint64_t next = sender.sender.next;
    answer = sender.advance();
    ASSERT_NE(answer, LaneAnswer::failed);
    if (sender.sender.next == next) {
      receiver.advance();
      continue;
    }
    EXPECT_EQ(sender.sender.slot(next)->flags & (kSlotGet | kSlotPut), messages % 2 == 0 ? kSlotGet : kSlotPut);
    ++messages;
  }
  EXPECT_EQ(messages, 6);  // a tile of 128 KiB of each half, and another one, and what is left
  while (receiver.advance() == LaneAnswer::progress) {}
  EXPECT_EQ(in_, out_);
}

// A sender that has lost its patience has all read.
TEST_F(HalvesOfASend, WithoutAPlaceAllIsRead) {
  Side sender(Collective::send, 0, out_, ring_);
  EXPECT_EQ(sender.advance(), LaneAnswer::progress);
  EXPECT_EQ(sender.advance(), LaneAnswer::blocked);
  sender.impatient();
  while (sender.advance() == LaneAnswer::progress) {}
  EXPECT_EQ(sender.sender.next, 6U);
  for (uint64_t i = 0; i < 6; ++i) EXPECT_EQ(sender.sender.slot(i)->flags & (kSlotGet | kSlotPut), kSlotGet);
  Side receiver(Collective::receive, 1, in_, ring_);
  while (receiver.advance() == LaneAnswer::progress) {}
  EXPECT_EQ(in_, out_);
}

/// Memory of ecclMemAlloc, or ordinary memory.
struct Memory {
  Memory(bool shared, size_t bytes) : shared_(shared) {
    if (!shared || ecclMemAlloc(&at, bytes) != ecclSuccess) at = shared ? nullptr : malloc(bytes);
  }
  ~Memory() { shared_ ? static_cast<void>(ecclMemFree(at)) : free(at); }
  void* at = nullptr;

 private:
  const bool shared_;
};

/// Byte i of a buffer, like no other nearby.
uint8_t byteOf(size_t i, int salt) {
  return static_cast<uint8_t>(static_cast<uint32_t>(i * 2'654'435'761U) >> 24) + static_cast<uint8_t>(salt);
}

/// Sends of lengths about that from which on they are in halves: one way, the other way, and both in a group.
std::string sendAll(int rank, ecclComm_t comm, bool sharedOut, bool sharedIn, int rounds) {
  constexpr size_t kMost = (4 << 20) + 3;
  const Memory out(sharedOut, kMost), in(sharedIn, kMost);
  if (out.at == nullptr || in.at == nullptr) return "no memory";
  auto* const from = static_cast<uint8_t*>(out.at);
  auto* const to = static_cast<uint8_t*>(in.at);
  std::mt19937 random(3);
  const size_t lengths[] = {kHalvesFrom - 1, kHalvesFrom, kHalvesFrom + 1, (1 << 20) + 77, 3'000'001, kMost};
  for (int round = 0; round < rounds; ++round) {
    const size_t length = round % 3 == 0 ? kHalvesFrom : lengths[random() % std::size(lengths)];
    const auto way = random() % 3;  // from rank 0, from rank 1, both
    const bool both = way == 2, sends = both || static_cast<int>(way) == rank, receives = both || !sends;
    for (size_t i = 0; i < length; ++i) {
      if (sends) from[i] = byteOf(i, round * 2 + rank);
      if (receives) to[i] = 0xee;
    }
    // The one or the other comes late.
    if (random() % 4 == 0 && sends == (round % 2 == 0))
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    ecclResult_t result = ecclSuccess;
    if (both) ecclGroupStart();
    if (sends) result = ecclSend(from, length, ecclUint8, 1 - rank, comm, nullptr);
    if (receives && result == ecclSuccess) result = ecclRecv(to, length, ecclUint8, 1 - rank, comm, nullptr);
    if (both) result = ecclGroupEnd();
    if (result != ecclSuccess) return ecclGetLastError(comm);
    for (size_t i = 0; receives && i < length; ++i) {
      if (to[i] == byteOf(i, round * 2 + 1 - rank)) continue;
      return "round " + std::to_string(round) + ", byte " + std::to_string(i) + " of " + std::to_string(length);
    }
  }
  return "";
}

constexpr int kRounds = 60;

/// sendAll() between two processes, of which rank 0 may have its memory left alone.
void sendBetweenProcesses(bool sharedOut, bool sharedIn, const char* p2pDisable) {
  const auto outcomes = test::runProcesses(2, [&](int rank, test::Board& board, std::string& report) {
    setenv("ECCL_TRANSPORT", "shm", 1);
    setenv("ECCL_P2P_DISABLE", rank == 0 ? p2pDisable : "0", 1);
    ecclComm_t comm = test::join(rank, 2, board, report);
    if (comm == nullptr) return 1;
    report = sendAll(rank, comm, sharedOut, sharedIn, kRounds);
    if (!report.empty()) return 2;
    return ecclCommDestroy(comm) == ecclSuccess ? 0 : 3;
  });
  for (const auto& outcome : outcomes) EXPECT_EQ(outcome.code, 0) << outcome.text;
}

class HalvesOfProcesses : public ::testing::TestWithParam<std::tuple<bool, bool>> {};

TEST_P(HalvesOfProcesses, BringWhatWasSent) {
  const auto [out, in] = GetParam();
  sendBetweenProcesses(out, in, "0");
}

INSTANTIATE_TEST_SUITE_P(All, HalvesOfProcesses, ::testing::Combine(::testing::Bool(), ::testing::Bool()));

TEST(HalvesOfThreads, BringWhatWasSent) {
  ecclComm_t comms[2];
  ASSERT_EQ(ecclCommInitAll(comms, 2, nullptr), ecclSuccess);
  std::string wrong[2];
  {
    std::jthread other([&] { wrong[1] = sendAll(1, comms[1], false, false, kRounds); });
    wrong[0] = sendAll(0, comms[0], false, false, kRounds);
  }
  for (const std::string& each : wrong) EXPECT_EQ(each, "");
  for (ecclComm_t comm : comms) EXPECT_EQ(ecclCommDestroy(comm), ecclSuccess);
}

// One of them says that it wants its memory left alone, which the other one does not know.
TEST(HalvesOfTwo, NeedNotBeKnownToBoth) {
  sendBetweenProcesses(true, true, "1");
}

// One is in halves, the other one is not.
TEST(HalvesOfTwo, DifferentLengthsAreNamed) {
  for (const bool longer : {false, true}) {
    const auto outcomes = test::runProcesses(2, [&](int rank, test::Board& board, std::string& report) {
      setenv("ECCL_TRANSPORT", "shm", 1);
      setenv("ECCL_DEBUG", "NONE", 1);
      ecclComm_t comm = test::join(rank, 2, board, report);
      if (comm == nullptr) return 1;
      const Memory memory(true, 2 * kHalvesFrom);
      const size_t length = longer == (rank == 0) ? 2 * kHalvesFrom : kHalvesFrom / 2;
      ecclResult_t result = rank == 0 ? ecclSend(memory.at, length, ecclUint8, 1, comm, nullptr)
                                      : ecclRecv(memory.at, length, ecclUint8, 0, comm, nullptr);
      // What is sent may have been taken before that is known.
      for (int i = 0; i < 10'000 && result == ecclSuccess; ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        ecclCommGetAsyncError(comm, &result);
      }
      report = ecclGetLastError(comm);
      ecclCommAbort(comm);
      return result == ecclInvalidUsage ? 0 : 2;
    });
    for (const auto& outcome : outcomes) {
      EXPECT_EQ(outcome.code, 0) << outcome.text;
      EXPECT_NE(outcome.text.find("calls differ"), std::string::npos) << outcome.text;
    }
  }
}

}  // namespace
}  // namespace eccl
