// What a move does with messages that are in the sender's process, with a process that a test makes up.
#include "program/remote_reads.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace eccl::interpreter {
namespace {

constexpr uint64_t kAddress = 0x1000;
constexpr uint32_t kLength = 100;

class Made final : public RemoteReads {
 public:
  LaneFault read(uint64_t address, std::byte* to, uint32_t length) override {
    EXPECT_EQ(address, kAddress);
    if (answer == LaneFault::none) std::memset(to, 7, length);
    return answer;
  }
  std::byte* aside(int source) override { return &places[source]; }

  LaneFault answer = LaneFault::none;
  std::byte places[kMaxOperands + kLength] = {};
};

struct RemoteReadsTest : ::testing::Test {
  RemoteReadsTest() {
    end.control = &control;
    end.remote = &process;
    ends.sources = 1;
    ends.from[0] = &end;
    message.flags = kSlotGet | kSlotLast;
    message.offset = kAddress | kInProcess;
    message.length = kLength;
  }
  RingControl control{};
  Made process;
  ReceiveEnd end;
  MoveEnds ends{};
  Received message{};
  LaneFault fault = LaneFault::none;
};

TEST_F(RemoteReadsTest, TheOnlySourceGoesWhereItBelongs) {
  std::byte whole[kLength];
  ASSERT_EQ(inProcesses(ends, &message, 1), 1);
  EXPECT_EQ(readSources(ends, &message, 1, whole, &fault), -1);
  EXPECT_EQ(message.flags, kSlotPut | kSlotLast);
  EXPECT_EQ(whole[kLength - 1], std::byte{7});
}

TEST_F(RemoteReadsTest, OneOfSeveralOrInPiecesIsReadAside) {
  std::byte whole[kLength] = {};
  EXPECT_EQ(readSources(ends, &message, 1, nullptr, &fault), -1);
  EXPECT_EQ(message.flags, kSlotStreamed | kSlotLast);  // in no slot, whose lines would be claimed
  EXPECT_EQ(message.data, process.aside(0));
  ends.sources = 2;
  message.flags |= kSlotGet;
  EXPECT_EQ(readSources(ends, &message, 1, whole, &fault), -1);
  EXPECT_EQ(message.data, process.aside(0));
  EXPECT_EQ(whole[0], std::byte{0});
}

TEST_F(RemoteReadsTest, OnlyMarkedReferencesAreInProcesses) {
  message.offset = kAddress;
  EXPECT_EQ(inProcesses(ends, &message, 1), 0);
  message.offset |= kInProcess;
  end.remote = nullptr;
  EXPECT_EQ(inProcesses(ends, &message, 1), 0);
}

// A sender that has aborted may have unmapped what it lent: that is no mistake of it.
TEST_F(RemoteReadsTest, WhatCannotBeReadIsTheSendersMistakeUnlessItHasFailed) {
  std::byte whole[kLength];
  process.answer = LaneFault::window;
  EXPECT_EQ(readSources(ends, &message, 1, whole, &fault), 0);
  EXPECT_EQ(fault, LaneFault::window);
  control.senderPoison = 1;
  EXPECT_EQ(readSources(ends, &message, 1, whole, &fault), 0);
  EXPECT_EQ(fault, LaneFault::poisoned);
}

}  // namespace
}  // namespace eccl::interpreter
