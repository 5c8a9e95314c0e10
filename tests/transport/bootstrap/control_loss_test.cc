// How the loss, the silence and the leaving of ranks become known.
#include "transport/bootstrap/control.h"
#include "transport/bootstrap/node.h"
#include "transport/net/fake_clock.h"

namespace eccl::transport {

using namespace std::chrono_literals;

namespace {

TEST(ControlLoss, AnyKilledRankIsNamedToAllOthersByTheirOwnSide) {
  constexpr int n = 20;
  double slowest = 0;
  for (int victim = 0; victim < n; ++victim) {
    test::Cluster cluster(n);
    const TimePoint begun = System::real().now();
    cluster[victim].vanish();
    for (int r = 0; r < n; ++r) {
      if (r == victim) continue;
      EXPECT_TRUE(test::eventually([&] { return cluster[r].lost().size() == 1; }))
          << "rank " << r << " of the loss of " << victim;
      ASSERT_EQ(cluster[r].lost().count(victim), 1u);
      const std::string reason = cluster[r].lost()[victim];
      EXPECT_TRUE(test::contains(reason, format("rank %d (", victim))) << reason;
      EXPECT_TRUE(test::contains(reason, format("pid %d", getpid()))) << reason;
      auto all = cluster[r].control().allGather("x", Wait::within(5s));
      EXPECT_EQ(all.status().code(), Code::remote);
      EXPECT_EQ(all.status().message(), reason);
    }
    slowest = std::max(slowest, test::since(begun));
  }
  std::printf(
      "the slowest of %d deaths was known to all in %.3f s (including the service thread's end, up to 0.05 "
      "s)\n",
      n, slowest);
}

TEST(ControlLoss, ALossEndsTheGathersThatWait) {
  test::Cluster cluster(12);
  std::vector<std::thread> waiting;
  for (int r : {0, 1, 5, 9, 11}) {
    waiting.emplace_back([&, r] {
      const TimePoint begun = System::real().now();
      auto all = cluster[r].control().allGather("x", Wait::within(30s));
      EXPECT_TRUE(test::contains(all.status().message(), "rank 10 (")) << all.status().message();
      EXPECT_LT(test::since(begun), 5);
    });
  }
  std::this_thread::sleep_for(100ms);
  cluster[10].vanish();
  for (std::thread& thread : waiting) thread.join();
}

TEST(ControlLoss, LeavingIsNotDeath) {
  test::Cluster cluster(20);
  const TimePoint begun = System::real().now();
  cluster[1].leave();  // an inner node: 9 to 16 are below it
  EXPECT_LT(test::since(begun), 1.0);
  for (int r = 0; r < 20; ++r) {
    if (r == 1) continue;
    EXPECT_TRUE(test::eventually([&] { return cluster[r].left() == std::set<int>{1}; })) << "rank " << r;
    EXPECT_TRUE(cluster[r].lost().empty());
    auto all = cluster[r].control().allGather("x", Wait::within(5s));
    EXPECT_EQ(all.status().code(), Code::remote);
    EXPECT_TRUE(test::contains(all.status().message(), "rank 1 (")) << all.status().message();
    EXPECT_TRUE(test::contains(all.status().message(), "has left the communicator")) << all.status().message();
  }
  EXPECT_EQ(cluster[1].control().allGather("x", Wait::within(1s)).status().code(), Code::invalidUsage);
  cluster.leaveAll();
  for (int r = 0; r < 20; ++r) EXPECT_TRUE(cluster[r].lost().empty()) << "rank " << r;
}

TEST(ControlLoss, WhatWasSentBeforeTheGoodbyeArrives) {
  test::Cluster cluster(3);
  const std::string big(1u << 20, 'b');
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(cluster[1].control().send(2, 1, big).ok());
  cluster[1].leave();
  EXPECT_TRUE(test::eventually([&] { return cluster[2].messages().size() == 4; }));
  EXPECT_TRUE(cluster[0].lost().empty());
}

TEST(ControlLoss, AChildThatNeverConnectsIsNamedToEverybody) {
  UniqueId id = UniqueId::random(System::real());
  auto root = Rendezvous::start(&id, {});
  ASSERT_TRUE(root.ok());
  constexpr int n = 11;
  std::vector<std::unique_ptr<test::Node>> nodes;
  for (int r = 0; r < n - 1; ++r) nodes.push_back(std::make_unique<test::Node>(id, r, n));
  std::vector<std::thread> threads;
  for (auto& node : nodes) {
    threads.emplace_back([&node] {
      Status status = node->join(Wait::within(1s));
      EXPECT_EQ(status.ok(), node->rank() != 1) << status.message();
      if (node->rank() == 1) {
        EXPECT_EQ(status.code(), Code::timeout);
        EXPECT_TRUE(
            test::contains(status.message(), "rank 1: rank 10 joined the rendezvous but did not connect"))
            << status.message();
      }
    });
  }
  auto parent =
      rendezvous(id, {10, n, localEndpoint(System::real())}, Wait::within(5s));  // and then goes no further
  ASSERT_TRUE(parent.ok()) << parent.status().message();
  for (std::thread& thread : threads) thread.join();
  for (auto& node : nodes)
    EXPECT_TRUE(test::eventually([&] { return node->lost().count(10) == 1; })) << node->rank();
}

TEST(ControlLoss, AParentThatIsGoneIsNamedWithItsAddresses) {
  UniqueId id = UniqueId::random(System::real());
  test::Node orphan(id, 1, 2);
  Endpoint parent = localEndpoint(System::real());
  parent.addresses = {SocketAddress::resolve("127.0.0.1:1")->front()};
  Status status = orphan.control().connect(parent, Wait::within(300ms));
  EXPECT_EQ(status.code(), Code::timeout);
  for (const char* fact : {"rank 1: could not connect to rank 0 (", "the parent in the control tree",
                           "127.0.0.1:1: Connection refused"}) {
    EXPECT_TRUE(test::contains(status.message(), fact)) << status.message();
  }
  EXPECT_TRUE(test::eventually([&] { return orphan.lost().count(0) == 1; }));
}

/// Lets time pass in steps of 100 ms, each of which every service thread gets to see.
void pass(test::Cluster& cluster, test::FakeClock& clock, int steps) {
  for (int i = 0; i < steps; ++i) {
    clock.advance(100ms);
    for (int r = 0; r < cluster.size(); ++r) cluster[r].awaitTurn();
  }
}

TEST(ControlLoss, HeartbeatsKeepAnIdleTreeTogetherAndSilenceEndsIt) {
  test::FakeClock clock;
  Control::Options options;
  options.system = &clock;
  options.silenceLimit = 2s;
  options.hostLimit = 1s;
  test::Cluster cluster(3, options);
  pass(cluster, clock, 30);
  for (int r = 0; r < 3; ++r) EXPECT_TRUE(cluster[r].lost().empty()) << "three idle seconds";
  testing::internal::CaptureStderr();
  cluster[2].freeze(true);
  pass(cluster, clock, 15);
  EXPECT_TRUE(cluster[0].lost().empty());
  pass(cluster, clock, 10);
  EXPECT_TRUE(test::contains(testing::internal::GetCapturedStderr(), "it counts as lost after 2 s"));
  for (int r : {0, 1}) {
    EXPECT_TRUE(test::eventually([&] { return cluster[r].lost().count(2) == 1; }));
    EXPECT_TRUE(test::contains(cluster[r].lost()[2], "rank 2 (")) << cluster[r].lost()[2];
    EXPECT_TRUE(test::contains(cluster[r].lost()[2], "has shown no sign of life for 2"))
        << cluster[r].lost()[2];
  }
}

TEST(ControlLoss, AShortStopIsForgivenOnBothSides) {
  test::FakeClock clock;
  Control::Options options;
  options.system = &clock;
  options.silenceLimit = 2s;
  test::Cluster cluster(3, options);
  clock.advance(10s);  // the whole machine stood still
  pass(cluster, clock, 1);
  for (int r = 0; r < 3; ++r) EXPECT_TRUE(cluster[r].lost().empty());
  cluster[2].freeze(true);
  pass(cluster, clock, 15);
  cluster[2].freeze(false);
  pass(cluster, clock, 15);
  for (int r = 0; r < 3; ++r) EXPECT_TRUE(cluster[r].lost().empty());
  test::gatherEverywhere(cluster, 1);
}

TEST(ControlLoss, AReaderThatStandsStillWithItsWindowClosedIsNotDead) {
  Control::Options options;
  options.hostLimit = 300ms;
  test::Cluster cluster(2, options);
  cluster[1].freeze(true);
  std::this_thread::sleep_for(100ms);
  const std::string big(12u << 20, 'b');  // more than the socket holds
  EXPECT_TRUE(cluster[0].control().flood(1, big).ok());
  std::this_thread::sleep_for(1500ms);
  EXPECT_TRUE(cluster[0].lost().empty());
  cluster[1].freeze(false);
  EXPECT_TRUE(test::eventually([&] { return cluster[1].messages().size() == 1; }));
  EXPECT_TRUE(cluster[0].lost().empty());
}

TEST(ControlLoss, GoodbyeDoesNotWaitForAFrozenNeighbour) {
  test::Cluster cluster(2);
  cluster[1].freeze(true);
  std::this_thread::sleep_for(100ms);
  const TimePoint begun = System::real().now();
  cluster[0].control().disconnect(Wait::within(300ms));
  EXPECT_LT(test::since(begun), 0.5);
  EXPECT_GE(test::since(begun), 0.29);
  cluster[0].vanish();
  cluster[1].freeze(false);
  EXPECT_TRUE(test::eventually([&] { return cluster[1].left().count(0) == 1; }))
      << "the disconnect was in the socket";
  EXPECT_TRUE(cluster[1].lost().empty());
}

}  // namespace
}  // namespace eccl::transport
