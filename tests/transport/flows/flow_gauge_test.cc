#include "transport/flows/flow_gauge.h"

#include <gtest/gtest.h>

namespace eccl::transport {
namespace {

/// A socket that has sent so much, looked at every 30 ms.
struct Looks {
  explicit Looks(uint32_t megabits = 0) : gauge(megabits) {
    report.known = true;
    report.ends.local = SocketAddress::resolve("10.0.0.1:4000").take()[0];
  }
  std::optional<FlowPace> look(uint64_t sent, uint64_t busyMicroseconds, uint64_t unsent, uint64_t arriving) {
    report.sentBytes += sent;
    report.busyMicroseconds += busyMicroseconds;
    report.unsentBytes = unsent;
    report.arrivingPerSecond = arriving;
    return gauge.look(report);
  }
  /// What it says in the end of so many looks, the first of which is that of the beginning.
  std::optional<FlowPace> looks(int count, uint64_t sent, uint64_t busyMicroseconds, uint64_t unsent,
                                uint64_t arriving) {
    std::optional<FlowPace> pace;
    for (int i = 0; i < count; ++i) pace = look(sent, busyMicroseconds, unsent, arriving);
    return pace;
  }
  FlowGauge gauge;
  SocketReport report;
};

TEST(FlowGauge, WhereBytesWaitTheNetworkDecides) {
  Looks of;
  const std::optional<FlowPace> pace = of.looks(11, 150'000, 30'000, 64'000, 12'000'000);
  ASSERT_TRUE(pace);
  EXPECT_EQ(pace->bytesPerSecond, 5'000'000u);
  EXPECT_FALSE(pace->lost);
}

// It passes on what comes to it at 5 MB/s, each burst at 12.
TEST(FlowGauge, WhereNoneWaitsBurstsTell) {
  Looks of;
  EXPECT_EQ(of.looks(11, 150'000, 30'000, 0, 12'000'000)->bytesPerSecond, 12'000'000u);
}

TEST(FlowGauge, SomeQuickBurstsAreNoMeasure) {
  Looks of;
  for (int i = 0; i < 10; ++i) of.look(150'000, 30'000, 0, i % 3 == 0 ? 7'000'000 : 900'000'000);
  EXPECT_EQ(of.look(150'000, 30'000, 0, 7'000'000)->bytesPerSecond, 7'000'000u);
}

TEST(FlowGauge, NothingIsFasterThanItsLink) {
  Looks of(100);
  EXPECT_EQ(of.looks(11, 600'000, 30'000, 0, 20'000'000)->bytesPerSecond, 12'500'000u);
}

TEST(FlowGauge, AFlowThatSendsLittleOrNothingSaysNothing) {
  Looks idle, little, few;
  EXPECT_FALSE(idle.looks(1000, 0, 0, 0, 9));
  EXPECT_FALSE(idle.gauge.active());
  EXPECT_FALSE(little.looks(100, 100, 30'000, 0, 9));
  EXPECT_TRUE(little.gauge.active());
  EXPECT_FALSE(few.looks(10, 150'000, 30'000, 0, 9));
}

TEST(FlowGauge, LongRoundTripsTakeLonger) {
  Looks of;
  of.report.roundTripMicroseconds = 40'000;  // 15 of them: 600 ms
  EXPECT_FALSE(of.looks(19, 150'000, 30'000, 1, 9));
  EXPECT_TRUE(of.looks(2, 150'000, 30'000, 1, 9));
}

TEST(FlowGauge, SaysIfPacketsWereLostMeanwhile) {
  Looks of;
  of.looks(3, 150'000, 30'000, 1, 9);
  of.report.retransmitted = 1;
  EXPECT_TRUE(of.looks(8, 150'000, 30'000, 1, 9)->lost);
  EXPECT_FALSE(of.looks(10, 150'000, 30'000, 1, 9)->lost);
}

TEST(FlowGauge, AnotherSocketIsAnotherBeginning) {
  Looks of;
  of.looks(10, 150'000, 30'000, 1, 9);
  of.report.ends.local = of.report.ends.local.withPort(4001);
  EXPECT_FALSE(of.looks(10, 300'000, 30'000, 1, 9));
  EXPECT_EQ(of.look(300'000, 30'000, 1, 9)->bytesPerSecond, 10'000'000u);
}

}  // namespace
}  // namespace eccl::transport
