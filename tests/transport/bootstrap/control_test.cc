#include "transport/bootstrap/control.h"

#include <sys/socket.h>

#include "transport/bootstrap/node.h"
#include "transport/net/dialer.h"

namespace eccl::transport {

using namespace std::chrono_literals;

namespace {

class ClusterSize : public testing::TestWithParam<int> {};

TEST_P(ClusterSize, JoinsGathersAndLeaves) {
  const TimePoint begun = System::real().now();
  test::Cluster cluster(GetParam());
  const double joined = test::since(begun);
  test::gatherEverywhere(cluster, 3);
  const double gathered = test::since(begun);
  EXPECT_TRUE(test::eventually([&] { return cluster.root().done(); }));
  cluster.leaveAll();
  for (int r = 0; r < cluster.size(); ++r) EXPECT_TRUE(cluster[r].lost().empty()) << "rank " << r;
  std::printf("%d ranks as threads: joined in %.3f s, one allGather %.4f s, left in %.3f s\n", GetParam(),
              joined, (gathered - joined) / 3, test::since(begun) - gathered);
}
INSTANTIATE_TEST_SUITE_P(Ranks, ClusterSize, testing::Values(1, 2, 3, 9, 10, 64, 256));

TEST(Control, FloodsReachEverybodyElseOnceAndInOrder) {
  test::Cluster cluster(20);
  cluster.each([](test::Node& node) {
    for (int i = 0; i < 10; ++i)
      EXPECT_TRUE(node.control().flood(static_cast<uint16_t>(i), test::partOf(node.rank(), i)).ok());
  });
  for (int r = 0; r < 20; ++r) {
    ASSERT_TRUE(test::eventually([&] { return cluster[r].messages().size() == 190; }))
        << cluster[r].messages().size();
    std::map<int, uint16_t> next;
    for (const test::Node::Message& m : cluster[r].messages()) {
      EXPECT_EQ(m.kind, next[m.origin]++) << "from " << m.origin << " at " << r;
      EXPECT_EQ(m.payload, test::partOf(m.origin, m.kind));
    }
    EXPECT_EQ(next.count(r), 0u);
  }
}

TEST(Control, WhatComesBeforeTheParentIsConnectedIsKept) {
  // Rank 9 is below rank 1: it may be complete, and speak to all, while rank 1 still looks for rank 0.
  const UniqueId id = UniqueId::random(System::real());
  test::Node top(id, 0, 10), middle(id, 1, 10), low(id, 9, 10);
  ASSERT_TRUE(low.control().connect(middle.acceptor().endpoint(), Wait::within(5s)).ok());
  ASSERT_TRUE(low.control().flood(7, "early").ok());
  ASSERT_TRUE(test::eventually([&] { return middle.messages().size() == 1; }));
  ASSERT_TRUE(middle.control().connect(top.acceptor().endpoint(), Wait::within(5s)).ok());
  ASSERT_TRUE(test::eventually([&] { return top.messages().size() == 1; }));
  EXPECT_EQ(top.messages()[0].origin, 9);
  EXPECT_EQ(top.messages()[0].payload, "early");
}

TEST(Control, SendsBetweenEveryPair) {
  test::Cluster cluster(20);
  cluster.each([](test::Node& node) {
    for (int to = 0; to < 20; ++to) {
      if (to == node.rank()) continue;
      EXPECT_TRUE(node.control().send(to, static_cast<uint16_t>(to), test::partOf(node.rank())).ok());
    }
  });
  for (int r = 0; r < 20; ++r) {
    ASSERT_TRUE(test::eventually([&] { return cluster[r].messages().size() == 19; }));
    std::set<int> origins;
    for (const test::Node::Message& m : cluster[r].messages()) {
      EXPECT_EQ(m.kind, r);
      EXPECT_EQ(m.payload, test::partOf(m.origin));
      origins.insert(m.origin);
    }
    EXPECT_EQ(origins.size(), 19u);
  }
}

TEST(Control, LargeMessagesAndPartsPass) {
  constexpr size_t kPart = 300'000;  // 3 MB together
  test::Cluster cluster(10);
  const std::string big(3u << 20, 'm');
  EXPECT_TRUE(cluster[9].control().flood(1, big).ok());
  cluster.each([&](test::Node& node) {
    auto all =
        node.control().allGather(std::string(kPart, static_cast<char>('a' + node.rank())), Wait::within(30s));
    ASSERT_TRUE(all.ok()) << all.status().message();
    for (size_t r = 0; r < 10; ++r) EXPECT_EQ(all->list()[r], std::string(kPart, static_cast<char>('a' + r)));
    if (node.rank() == 9) return;
    ASSERT_TRUE(test::eventually([&] { return node.messages().size() == 1; }));
    EXPECT_EQ(node.messages()[0].payload, big);
  });
}

TEST(Control, LimitsAreErrors) {
  test::Cluster cluster(2);
  Control& control = cluster[1].control();
  auto part = control.allGather(std::string(Control::kMaxPart + 1, 'x'), Wait::within(1s));
  EXPECT_EQ(part.status().code(), Code::invalidArgument);
  EXPECT_TRUE(test::contains(part.status().message(), "rank 1: a part of 1048577 bytes"));
  EXPECT_TRUE(test::contains(control.flood(1, std::string(Frame::kMaxBody + 1ull, 'x')).message(),
                             "exceeds the limit of 64 MiB"));
  for (int target : {-1, 1, 2}) EXPECT_FALSE(control.send(target, 1, "x").ok()) << target;
  test::gatherEverywhere(cluster, 1);  // the refused call did not count
}

TEST(Control, GathersOfTwoThreadsDoNotMixUp) {
  test::Cluster cluster(9);
  cluster.each([](test::Node& node) {
    auto work = [&] {
      for (int i = 0; i < 50; ++i) {
        auto all = node.control().allGather(std::to_string(node.rank()), Wait::within(30s));
        ASSERT_TRUE(all.ok()) << all.status().message();
        for (size_t r = 0; r < 9; ++r) ASSERT_EQ(all->list()[r], std::to_string(r));
      }
    };
    std::thread other(work);
    work();
    other.join();
  });
}

TEST(Control, AGatherNamesWhoIsMissing) {
  test::Cluster cluster(12);
  const TimePoint begun = System::real().now();
  cluster.each([](test::Node& node) {
    if (node.rank() == 3 || node.rank() == 4 || node.rank() == 11) return;
    auto all = node.control().allGather("here", Wait::within(300ms));
    ASSERT_FALSE(all.ok());
    EXPECT_EQ(all.status().code(), Code::timeout);
    EXPECT_TRUE(test::contains(all.status().message(), "ranks 3, 4, 11 of 12 have not taken part"))
        << all.status().message();
  });
  EXPECT_LT(test::since(begun), 1.2);
  for (int latecomer : {3, 4, 11}) {
    auto all = cluster[latecomer].control().allGather("late", Wait::within(5s));
    EXPECT_TRUE(test::contains(all.status().message(), "ranks 3, 4, 11 of 12")) << all.status().message();
  }
  test::gatherEverywhere(cluster, 1);  // the next one works
}

TEST(Control, AbortEndsAGather) {
  test::Cluster cluster(2);
  std::atomic<bool> abort{false};
  std::thread aborter([&] {
    std::this_thread::sleep_for(100ms);
    abort = true;
  });
  const TimePoint begun = System::real().now();
  auto all = cluster[1].control().allGather("x", Wait::within(30s, &abort));
  EXPECT_LT(test::since(begun), 0.3);
  EXPECT_TRUE(test::contains(all.status().message(), "aborted")) << all.status().message();
  aborter.join();
}

TEST(Control, ConnectionsThatAreNoChildrenAreDropped) {
  test::Cluster cluster(3);
  struct Case {
    Purpose purpose;
    uint64_t communicator;
    int rank;
  };
  const uint64_t own = cluster.id().communicator;
  for (const Case& c : {Case{Purpose::control, own + 1, 1},
                        {Purpose::control, own, 0},
                        {Purpose::control, own, 3},
                        {Purpose::control, own, INT32_MAX},
                        {Purpose::control, own, 1},
                        {Purpose::rendezvous, own, 1}}) {
    Hello hello;
    hello.purpose = c.purpose;
    hello.communicator = c.communicator;
    hello.rank = c.rank;
    auto fd = dial(cluster[0].acceptor().endpoint(), cluster.id().secret, hello, {}, Wait::within(5s));
    ASSERT_TRUE(fd.ok()) << fd.status().message();
    char byte;
    EXPECT_TRUE(test::eventually([&] { return recv(fd->get(), &byte, 1, MSG_DONTWAIT) == 0; })) << c.rank;
  }
  test::gatherEverywhere(cluster, 1);
}

TEST(Control, StrangersDuringTheJobChangeNothing) {
  test::Cluster cluster(9);
  std::atomic<bool> stop{false};
  std::thread stranger([&] {
    for (int i = 0; !stop; ++i) {
      for (const SocketAddress& to : cluster[i % 9].acceptor().endpoint().addresses) {
        Fd fd(socket(to.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
        if (connect(fd.get(), to.raw(), to.rawSize()) == 0)
          send(fd.get(), std::string(500, 'g').data(), 500, MSG_NOSIGNAL);
      }
    }
  });
  test::gatherEverywhere(cluster, 100);
  stop = true;
  stranger.join();
  for (int r = 0; r < 9; ++r) EXPECT_TRUE(cluster[r].lost().empty());
}

/// A member that speaks the handshake and then what it likes: rank 1 of 2, below a real rank 0.
struct BadChild {
  UniqueId id = UniqueId::random(System::real());
  test::Node node;
  Stream socket;
  explicit BadChild(Control::Options options = {}) : node(id, 0, 2, options) {
    Hello hello;
    hello.purpose = Purpose::control;
    hello.communicator = id.communicator;
    hello.rank = 1;
    auto fd = dial(node.acceptor().endpoint(), id.secret, hello, {}, Wait::within(5s));
    EXPECT_TRUE(fd.ok());
    socket = fd.take();
    EXPECT_TRUE(node.control().connect({}, Wait::within(5s)).ok());
  }
  void say(const Frame& frame) { say(*frame.encode()); }
  void say(const std::string& bytes) {
    EXPECT_EQ(::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  std::string reason() {
    EXPECT_TRUE(test::eventually([&] { return node.lost().count(1) == 1; }));
    return node.lost()[1];
  }
};

TEST(Control, AMemberThatSpeaksNonsenseIsLost) {
  auto reasonFor = [](auto change) {
    BadChild child;
    Frame frame;
    frame.header.origin = 1;
    change(frame);
    child.say(frame);
    return child.reason();
  };
  EXPECT_TRUE(test::contains(reasonFor([](Frame& f) { f.header.type = static_cast<FrameType>(99); }),
                             "malformed frame"));
  EXPECT_TRUE(test::contains(reasonFor([](Frame& f) { f.header.type = FrameType::flood, f.header.origin = 2; }),
                             "of rank 2 to rank 0 of 2"));
  EXPECT_TRUE(test::contains(
      reasonFor([](Frame& f) { f.header.type = FrameType::routed, f.header.target = 7; }), "to rank 7 of 2"));
  EXPECT_TRUE(test::contains(reasonFor([](Frame& f) { f.header.type = FrameType::parts; }), "the wrong way"));
  EXPECT_TRUE(test::contains(reasonFor([](Frame& f) { f.header.type = FrameType::join; }),
                             "unexpected frame of type 1"));
  BadChild garbage;
  garbage.say(std::string(100, 'z'));
  EXPECT_TRUE(test::contains(garbage.reason(), "malformed frame"));
}

}  // namespace
}  // namespace eccl::transport
