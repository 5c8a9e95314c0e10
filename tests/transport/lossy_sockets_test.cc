// Sockets that lose packets are left out where the others are better off, and tried again.
#include "transport/tcp/lossy_sockets.h"

#include <gmock/gmock.h>

#include "support/tcp_info_system.h"
#include "transport/wire.h"

namespace eccl::transport {
namespace {

using namespace std::chrono_literals;

/// What a socket does between two looks. A rate of 1 GB/s: a MB takes a millisecond.
struct Interval {
  uint64_t megabytes = 10, busyMs = 10, packets = 7000, lost = 0;
};
constexpr Interval kWell{}, kLossy{.busyMs = 250, .lost = 70};

/// Sockets of one connection, three looks in a second.
class LossySocketsTest : public testing::Test {
 protected:
  /// Looks until a socket is left out, but not more often than this. The last look's verdicts.
  std::vector<LossySockets::Verdict> look(int times, const std::vector<Interval>& intervals) {
    std::vector<LossySockets::Verdict> verdicts;
    counts_.resize(intervals.size());
    for (looks_ = 0; looks_ < times && verdicts.empty(); ++looks_) {
      for (size_t i = 0; i < intervals.size(); ++i) {
        if (!counts_[i]) continue;
        LossySockets::Counts& one = *counts_[i];
        const bool used = !lossy_.leftOut(i);
        one.rate = rate_;
        one.bytes += used * intervals[i].megabytes * 1'000'000;
        one.busyMicroseconds += used * intervals[i].busyMs * 1000;
        one.packets += used * intervals[i].packets;
        one.lost += used * intervals[i].lost;
      }
      now_ += 300ms;
      verdicts = lossy_.judge(now_, counts_);
    }
    return verdicts;
  }
  /// Whether that ends with nothing left out.
  bool stays(const std::vector<Interval>& intervals) { return look(200, intervals).empty(); }

  LossySockets lossy_;
  std::vector<std::optional<LossySockets::Counts>> counts_{{LossySockets::Counts{}}, {LossySockets::Counts{}}};
  TimePoint now_{1h};
  uint64_t rate_ = 1'000'000'000;
  int looks_ = 0;
};

TEST_F(LossySocketsTest, OneThatLosesPacketsAndHoldsTheOthersUpIsLeftOut) {
  const auto verdicts = look(10, {kWell, kLossy});
  ASSERT_EQ(verdicts.size(), 1u);
  EXPECT_LE(looks_, 4) << "it is found within about a second";
  EXPECT_EQ(verdicts[0].socket, 1u);
  EXPECT_EQ(verdicts[0].lost, 210u);
  EXPECT_EQ(verdicts[0].packets, 21'000u);
  EXPECT_EQ(verdicts[0].during, 900ms);
  EXPECT_FALSE(verdicts[0].again);
  EXPECT_TRUE(lossy_.leftOut(1));
  EXPECT_FALSE(lossy_.leftOut(0));
}

TEST_F(LossySocketsTest, WhenItBeginsToLosePacketsDoesNotMatter) {
  ASSERT_TRUE(look(25, {{.busyMs = 250}, {.busyMs = 250}}).empty());
  EXPECT_EQ(look(10, {kWell, kLossy}).size(), 1u);
  EXPECT_LE(looks_, 8);
}

TEST_F(LossySocketsTest, RailsThatAreFullStay) {
  const Interval full{.megabytes = 250, .busyMs = 300, .packets = 170'000, .lost = 0};
  Interval fullAndLossy = full;
  fullAndLossy.lost = 800;
  EXPECT_TRUE(stays({full, fullAndLossy})) << "it carries its share";
  fullAndLossy.megabytes = 100;
  EXPECT_TRUE(stays({full, fullAndLossy})) << "and so it does with less";
}

TEST_F(LossySocketsTest, WhereAllLosePacketsAllStay) {
  EXPECT_TRUE(stays({{.lost = 20}, kLossy}));
  EXPECT_TRUE(stays({kLossy, kLossy}));
}

TEST_F(LossySocketsTest, OneThatLosesNothingStaysThoughItIsSlow) {
  EXPECT_TRUE(stays({kWell, {.busyMs = 290}}));
}

TEST_F(LossySocketsTest, PacketsLostAtOnceAreNoReason) {
  for (int burst = 0; burst < 10; ++burst) {
    EXPECT_TRUE(look(2, {kWell, kLossy}).empty());
    EXPECT_TRUE(look(40, {kWell, kWell}).empty());
  }
}

TEST_F(LossySocketsTest, WithoutAWordOfTheKernelAllStay) {
  rate_ = 0;
  EXPECT_TRUE(stays({kWell, kLossy}));
}

TEST_F(LossySocketsTest, SeveralMayBeLeftOutButNotAll) {
  counts_.push_back(LossySockets::Counts{});
  Interval worse = kLossy;
  worse.lost = 700;
  EXPECT_TRUE(stays({kLossy, kLossy, kLossy}));
  const auto verdicts = look(10, {kLossy, kWell, worse});
  ASSERT_GE(verdicts.size(), 1u);
  if (verdicts.size() == 1) { EXPECT_EQ(look(10, {kLossy, kWell, worse}).size(), 1u); }
  EXPECT_TRUE(lossy_.leftOut(0) && lossy_.leftOut(2) && !lossy_.leftOut(1));
}

// After 4 s, 8, 16 and so on, 5 minutes at most.
TEST_F(LossySocketsTest, WhatProvesNoBetterRestsForTwiceAsLong) {
  Duration rest = 4s;
  for (int trial = 0; trial < 10; ++trial) {
    const auto verdicts = look(10'000, {kWell, kLossy});
    ASSERT_EQ(verdicts.size(), 1u) << trial;
    EXPECT_EQ(verdicts[0].rest, rest) << trial;
    EXPECT_EQ(verdicts[0].again, trial > 0);
    rest = std::min<Duration>(2 * rest, 5min);
    const TimePoint until = now_ + verdicts[0].rest;
    while (now_ + 300ms < until) {
      ASSERT_TRUE(look(1, {kWell, kLossy}).empty());
      ASSERT_TRUE(lossy_.leftOut(1)) << trial;
    }
  }
}

TEST_F(LossySocketsTest, WhatIsMendedIsUsedAgain) {
  ASSERT_EQ(look(10, {kWell, kLossy}).size(), 1u);
  ASSERT_TRUE(look(14, {kWell, kWell}).empty());
  EXPECT_FALSE(lossy_.leftOut(1));
  ASSERT_TRUE(look(210, {kWell, kWell}).empty());
  const auto verdicts = look(10, {kWell, kLossy});
  ASSERT_EQ(verdicts.size(), 1u);
  EXPECT_EQ(verdicts[0].rest, 4s) << "a minute later it is another fault";
  EXPECT_FALSE(verdicts[0].again);
}

TEST_F(LossySocketsTest, AnotherSocketOfTheSameNumberHasANewBeginning) {
  ASSERT_EQ(look(10, {kWell, kLossy}).size(), 1u);
  lossy_.forget(1);
  counts_[1] = LossySockets::Counts{};
  EXPECT_FALSE(lossy_.leftOut(1));
  const auto verdicts = look(10, {kWell, kLossy});
  ASSERT_EQ(verdicts.size(), 1u);
  EXPECT_FALSE(verdicts[0].again);
  EXPECT_EQ(verdicts[0].rest, 4s);
  EXPECT_LE(verdicts[0].lost, 280u);
}

// Some was sent again in vain, which is known later.
TEST_F(LossySocketsTest, WhatIsFoundNotToBeLostChangesNothing) {
  ASSERT_TRUE(look(2, {{.busyMs = 250}, {.busyMs = 250, .lost = 20}}).empty());
  counts_[1]->lost = 0;
  EXPECT_TRUE(look(40, {kWell, {.busyMs = 250, .lost = 1}}).empty());
}

// The kernel counts packets with 32 bits.
TEST_F(LossySocketsTest, CountsThatBeginAgainAreNoReason) {
  ASSERT_TRUE(look(2, {{.busyMs = 250}, {.busyMs = 250}}).empty());
  counts_[1]->packets = 100;
  const auto verdicts = look(20, {kWell, kLossy});
  ASSERT_EQ(verdicts.size(), 1u);
  EXPECT_LT(verdicts[0].packets, 40'000u);
}

/// A machine whose kernel says of one socket that packets are lost.
struct LossySystem final : test::TcpInfoSystem {
  tcp_info tell() override {
    tcp_info info{};
    const bool second = asked++ % 2 == 1;  // the sockets in turn
    info.tcpi_delivery_rate = 1'000'000'000;
    info.tcpi_bytes_acked = round * 1'000'000;
    info.tcpi_data_segs_out = round * 1000;
    info.tcpi_busy_time = round * (second == secondLoses ? 250'000 : 1000);
    info.tcpi_total_retrans = second == secondLoses ? round * 20 : 0;
    info.tcpi_dsack_dups = needless ? info.tcpi_total_retrans : 0;
    return info;
  }
  uint32_t round = 0, asked = 0;
  bool secondLoses = true, needless = false;
};

/// Bytes of payload that go over either socket, of a ring of messages of this length, after some looks.
std::vector<size_t> afterLosses(LossySystem& system, Sending& wire, uint32_t length, size_t* found) {
  TimePoint now{1h};
  *found = 0;
  for (int look = 0; look < 5; ++look) {
    ++system.round;
    system.asked = 0;
    for (const LossySocket& one : wire.path->leaveOutLossy(now += 300ms)) *found += one.lost > 0;
  }
  for (uint64_t k = 0; k < kShape.slots; ++k) {
    if (wire.end.reserve() == nullptr) break;
    std::memset(wire.end.place(length), 1, length);
    wire.end.publish(length, 0, 0);
    system.asked = 1000;
    wire.path->kick();
  }
  std::vector<size_t> bytes;
  for (size_t i = 0; i < 2; ++i) {
    const std::string stream = wire.take(i);
    bytes.push_back(0);
    for (size_t at = 0; at < stream.size();) {
      MessageFrame frame;
      std::memcpy(&frame, stream.data() + at, sizeof frame);
      bytes.back() += frame.bytes;
      at += sizeof frame + frame.bytes;
    }
  }
  return bytes;
}

TEST(TcpSenderLosses, MessagesLeaveOutASocketThatLosesPackets) {
  for (const bool second : {true, false}) {
    for (const uint32_t length : {256u, 4u}) {
      LossySystem system;
      system.secondLoses = second;
      Sending wire(SIZE_MAX, 0, system, 2);
      size_t found = 0;
      const std::vector<size_t> bytes = afterLosses(system, wire, length, &found);
      EXPECT_EQ(found, 1u);
      EXPECT_EQ(bytes[second], 0u) << "of messages of " << length;
      EXPECT_EQ(bytes[!second], kShape.slots * length);
      EXPECT_EQ(wire.breaks, 0);
    }
  }
}

TEST(TcpSenderLosses, WhatHadComeWasNotLost) {
  LossySystem system;
  system.needless = true;
  Sending wire(SIZE_MAX, 0, system, 2);
  size_t found = 0;
  const std::vector<size_t> bytes = afterLosses(system, wire, 256, &found);
  EXPECT_EQ(found, 0u);
  EXPECT_GT(bytes[0], 0u);
  EXPECT_GT(bytes[1], 0u);
}

// As placed flows are moved: of those that are left only one that loses packets takes long messages.
TEST(TcpSenderLosses, TheOnlySocketIsUsedWhateverItLoses) {
  LossySystem system;
  Sending wire(SIZE_MAX, 0, system, 2);
  size_t found = 0;
  EXPECT_EQ(afterLosses(system, wire, 256, &found)[1], 0u);
  ASSERT_EQ(found, 1u);
  wire.put(creditOf(wire.end.next));
  size_t next = 0;
  wire.path->preferSockets([&](const SocketEnds&) { return next++ == 1; });
  for (uint64_t k = 0; k < kShape.slots; ++k) {
    ASSERT_NE(wire.end.reserve(), nullptr);
    std::memset(wire.end.place(256), 1, 256);
    wire.end.publish(256, 0, 0);
    wire.path->kick();
  }
  EXPECT_GT(wire.take(1).size(), 0u);
}

}  // namespace
}  // namespace eccl::transport
