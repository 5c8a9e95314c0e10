#include "transport/flows/flow_planner.h"

#include <gmock/gmock.h>

namespace eccl::transport {
namespace {

using namespace std::chrono_literals;
using Kind = FlowMessage::Kind;

SocketAddress router(int number) {
  return SocketAddress::resolve("10.0.0." + std::to_string(number) + ":1").take()[0].withPort(0);
}
FlowWay way(uint16_t port, std::vector<int> routers) {
  FlowWay way{port, {}};
  for (const int number : routers) way.hops.push_back(number > 0 ? router(number) : SocketAddress());
  return way;
}
FlowMessage ask(uint64_t flow, std::vector<FlowWay> ways) {
  return {.kind = Kind::ask, .flow = flow, .ways = std::move(ways), .port = 0};
}
FlowMessage changed() {
  return {.kind = Kind::changed, .flow = 0, .ways = {}, .port = 0};
}

struct FlowPlannerTest : testing::Test {
  FlowPlanner planner;
  TimePoint now = TimePoint(10s);
  std::map<std::pair<int, uint64_t>, uint16_t> ports;
  int again = 0, answers = 0;
  std::map<std::pair<int, uint64_t>, int> more, moves;
  void pass(Duration time) {
    now += time;
    planner.progress(now, [this](int target, const FlowMessage& message) {
      if (message.kind == Kind::again) {
        EXPECT_LT(target, 0);
        ++again;
      } else if (message.kind == Kind::more) {
        ++more[{target, message.flow}];
      } else if (message.kind == Kind::move) {
        ++moves[{target, message.flow}];
      } else {
        ++answers;
        EXPECT_EQ(message.kind, Kind::answer);
        ports[{target, message.flow}] = message.port;
      }
    });
  }
};

TEST_F(FlowPlannerTest, TwoFlowsTakeTwoSpines) {
  planner.hear(1, ask(5, {way(100, {1}), way(101, {2})}), now);
  planner.hear(2, ask(5, {way(200, {1}), way(201, {2})}), now);
  pass(1ms);
  EXPECT_TRUE(ports.empty()) << "it does not wait for more";
  pass(40ms);
  ASSERT_EQ(ports.size(), 2u);
  EXPECT_NE((ports[{1, 5}]) % 100, (ports[{2, 5}]) % 100);
  EXPECT_EQ(planner.nextDeadline(), TimePoint::max());
}

TEST_F(FlowPlannerTest, AFlowThatComesLateKeepsAwayFromTheOthers) {
  planner.hear(1, ask(1, {way(100, {1})}), now);
  pass(1s);
  planner.hear(2, ask(1, {way(200, {1}), way(201, {2})}), now);
  pass(1s);
  EXPECT_EQ((ports[{2, 1}]), 201);
}

// The first has taken the only link that the second can.
TEST_F(FlowPlannerTest, AFlowMakesRoomForOneThatComesLate) {
  planner.hear(1, ask(1, {way(100, {1}), way(101, {2})}), now);
  pass(1s);
  const bool first = ports[{1, 1}] == 100;
  planner.hear(2, ask(7, {way(200, {first ? 1 : 2})}), now);
  pass(1s);
  EXPECT_EQ((ports[{1, 1}]), first ? 101 : 100);
  EXPECT_EQ((ports[{2, 7}]), 200);
  EXPECT_EQ(answers, 3);
  planner.hear(3, ask(1, {way(300, {9})}), now);
  pass(1s);
  EXPECT_EQ(answers, 4) << "only those that change hear of it";
}

// Two flows on link 1, none on link 3, which the first of four has found a way by.
TEST_F(FlowPlannerTest, FlowsThatMeetLookForWaysThatOthersHave) {
  planner.hear(1, ask(1, {way(100, {2}), way(101, {3})}), now);
  planner.hear(2, ask(1, {way(200, {1}), way(201, {2})}), now);
  planner.hear(3, ask(1, {way(300, {1})}), now);
  planner.hear(4, ask(1, {way(400, {2})}), now);
  pass(1s);
  EXPECT_TRUE(more.empty()) << "each link has one or two";
  planner.hear(5, ask(1, {way(500, {1})}), now);
  planner.hear(6, ask(1, {way(600, {1})}), now);
  pass(1s);
  EXPECT_EQ((more[{5, 1}]), 1);
  EXPECT_EQ((more[{4, 1}]), 0);
  for (int i = 0; i < 5; ++i) {
    planner.hear(5, ask(1, {way(500, {1})}), now);
    pass(1s);
  }
  EXPECT_EQ((more[{5, 1}]), 2) << "not for ever";
  planner.hear(5, ask(1, {way(500, {1}), way(501, {3})}), now);
  pass(1s);
  EXPECT_EQ((ports[{5, 1}]), 501);
}

TEST_F(FlowPlannerTest, FlowsWhoseWaysNobodyTellsMoveByTrial) {
  const auto pace = [](uint64_t flow, uint64_t bytesPerSecond) {
    return FlowMessage{.kind = Kind::pace, .flow = flow, .pace = {bytesPerSecond, 100, false}};
  };
  for (uint64_t flow = 0; flow < 4; ++flow) planner.hear(1, pace(flow, 100), now);
  planner.hear(2, pace(8, 40), now);
  EXPECT_LE(planner.nextDeadline(), now + 200ms);
  pass(200ms);
  EXPECT_EQ((moves[{2, 8}]), 1);
  EXPECT_EQ(moves.size(), 1u);
  planner.hear(3, changed(), now);
  pass(10ms);
  pass(1min);
  EXPECT_EQ(again, 1);
  EXPECT_EQ((moves[{2, 8}]), 1) << "all of them say anew how fast they are";
}

TEST_F(FlowPlannerTest, AFlowThatAsksAgainWithMoreWaysStaysWhereNothingIsGained) {
  planner.hear(1, ask(1, {way(100, {1}), way(101, {1})}), now);
  pass(1s);
  const uint16_t port = ports[{1, 1}];
  planner.hear(1, ask(1, {way(103, {1}), way(100, {1}), way(101, {1})}), now);
  pass(1s);
  EXPECT_EQ((ports[{1, 1}]), port);
  EXPECT_EQ(answers, 2) << "it waits for an answer";
}

TEST_F(FlowPlannerTest, NamesThatCannotBeAreDropped) {
  planner.hear(1, ask(1 << 20, {way(100, {1})}), now);
  pass(1s);
  EXPECT_EQ(answers, 0);
}

TEST_F(FlowPlannerTest, AFlowThatAsksAgainIsNotCountedTwice) {
  planner.hear(1, ask(1, {way(100, {1}), way(101, {2})}), now);
  pass(1s);
  planner.hear(1, ask(1, {way(110, {1})}), now);
  pass(1s);
  planner.hear(2, ask(1, {way(200, {1}), way(201, {2})}), now);
  pass(1s);
  EXPECT_EQ((ports[{2, 1}]), 201);
}

TEST_F(FlowPlannerTest, DoesNotWaitForEver) {
  for (uint64_t flow = 0; flow < 100; ++flow) {
    planner.hear(1, ask(flow, {way(100, {1})}), now);
    pass(20ms);
  }
  EXPECT_GT(ports.size(), 80u);
}

TEST_F(FlowPlannerTest, StartsOverOnceForOneChange) {
  planner.hear(1, ask(1, {way(100, {1}), way(101, {2})}), now);
  pass(1s);
  for (int rank = 0; rank < 4; ++rank) {
    planner.hear(rank, changed(), now);
    pass(10ms);
  }
  EXPECT_EQ(again, 1);
  pass(1s);
  planner.hear(3, changed(), now);
  pass(10ms);
  EXPECT_EQ(again, 2);
}

TEST_F(FlowPlannerTest, WhatWasAskedBeforeAChangeIsNotAnswered) {
  planner.hear(1, ask(1, {way(100, {1})}), now);
  planner.hear(2, changed(), now);
  pass(1s);
  EXPECT_TRUE(ports.empty());
}

TEST_F(FlowPlannerTest, SilentRoutersAreNoLinks) {
  planner.hear(1, ask(1, {way(100, {0, 3}), way(101, {0, 4})}), now);
  planner.hear(2, ask(1, {way(200, {0, 3}), way(201, {0, 4})}), now);
  pass(1s);
  EXPECT_NE((ports[{1, 1}]) % 100, (ports[{2, 1}]) % 100);
}

TEST_F(FlowPlannerTest, DropsWhatIsNotForIt) {
  planner.hear(1, {.kind = Kind::answer, .flow = 1, .ways = {}, .port = 7}, now);
  planner.hear(1, {.kind = Kind::again, .flow = 1, .ways = {}, .port = 0}, now);
  planner.hear(1, ask(1, {}), now);
  EXPECT_EQ(planner.nextDeadline(), TimePoint::max());
}

TEST(FlowMessage, ArrivesAsItWasSent) {
  const SocketAddress six = SocketAddress::resolve("[2001:db8::1]:1").take()[0].withPort(0);
  FlowMessage message = ask(1ull << 60, {way(4711, {1, 0, 3}), {65535, {six}}, {1, {}}});
  const Result<FlowMessage> decoded = FlowMessage::decode(message.encode());
  ASSERT_TRUE(decoded.ok()) << decoded.status().message();
  EXPECT_EQ(decoded->flow, message.flow);
  EXPECT_EQ(decoded->ways, message.ways);
  const Result<FlowMessage> answer =
      FlowMessage::decode(FlowMessage{.kind = Kind::answer, .flow = 3, .ways = {}, .port = 99}.encode());
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(answer->kind, Kind::answer);
  EXPECT_EQ(answer->port, 99);
  const FlowMessage told{.kind = Kind::pace, .flow = 3, .pace = {1ull << 40, 400'000, true}};
  const Result<FlowMessage> pace = FlowMessage::decode(told.encode());
  ASSERT_TRUE(pace.ok());
  EXPECT_EQ(pace->kind, Kind::pace);
  EXPECT_EQ(pace->pace, told.pace);
}

TEST(FlowMessage, WhatCannotBeIsRefused) {
  const std::string good = ask(1, {way(1, {1, 2})}).encode();
  for (size_t bytes = 0; bytes < good.size(); ++bytes)
    EXPECT_FALSE(FlowMessage::decode(good.substr(0, bytes)).ok());
  EXPECT_FALSE(FlowMessage::decode(good + "x").ok());
  std::string kind = good;
  kind[0] = 9;
  EXPECT_FALSE(FlowMessage::decode(kind).ok());
  EXPECT_FALSE(FlowMessage::decode(ask(1, {}).encode()).ok());
  EXPECT_FALSE(FlowMessage::decode(ask(1, std::vector<FlowWay>(kMaxWays + 1)).encode()).ok());
  EXPECT_FALSE(FlowMessage::decode(ask(1, {{1, std::vector<SocketAddress>(kMaxHops + 1)}}).encode()).ok());
}

}  // namespace
}  // namespace eccl::transport
