#include "transport/bootstrap/rendezvous.h"

#include <gtest/gtest.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/socket.h>

#include "support/descriptors.h"
#include "transport/bootstrap/node.h"
#include "transport/net/descriptors.h"
#include "transport/net/dialer.h"

namespace eccl::transport {

using namespace std::chrono_literals;

namespace {

Endpoint endpointOf(int rank) {
  Endpoint endpoint = localEndpoint(System::real());
  endpoint.identity[0] = static_cast<uint8_t>(rank);
  endpoint.identity[1] = static_cast<uint8_t>(rank >> 8);
  endpoint.addresses = {SocketAddress::resolve("192.0.2.1:5000")->front()};
  return endpoint;
}

struct RendezvousTest : testing::Test {
  UniqueId id = UniqueId::random(System::real());
  Rendezvous::Options options;
  std::unique_ptr<Rendezvous> root;

  void SetUp() override {
    auto started = Rendezvous::start(&id, options);
    ASSERT_TRUE(started.ok()) << started.status().message();
    root = started.take();
  }
  Result<std::optional<Endpoint>> join(int rank, int nranks, Duration limit = 20s) {
    return rendezvous(id, {rank, nranks, endpointOf(rank)}, Wait::within(limit));
  }
  /// Joins all `ranks` at once and returns their answers.
  std::vector<Result<std::optional<Endpoint>>> joinAll(const std::vector<int>& ranks, int nranks,
                                                       Duration limit = 20s) {
    std::vector<Result<std::optional<Endpoint>>> results(ranks.size(), Status());
    std::vector<std::thread> threads;
    for (size_t i = 0; i < ranks.size(); ++i)
      threads.emplace_back([&, i] { results[i] = join(ranks[i], nranks, limit); });
    for (std::thread& thread : threads) thread.join();
    return results;
  }
  void expectWelcome(const std::vector<int>& ranks,
                     const std::vector<Result<std::optional<Endpoint>>>& results) {
    for (size_t i = 0; i < ranks.size(); ++i) {
      ASSERT_TRUE(results[i].ok()) << results[i].status().message();
      ASSERT_EQ(results[i]->has_value(), ranks[i] != 0);
      if (ranks[i] != 0) {
        EXPECT_EQ((*results[i])->identity, endpointOf((ranks[i] - 1) / 8).identity) << "rank " << ranks[i];
      }
    }
  }
  /// A process that joins as `rank` and can be closed.
  FrameSocket halfJoin(int rank, int nranks, bool complete) {
    Hello hello;
    hello.purpose = Purpose::rendezvous;
    hello.communicator = id.communicator;
    hello.rank = rank;
    auto fd = dial(id.root(), id.secret, hello, {.peer = "the root"}, Wait::within(5s));
    EXPECT_TRUE(fd.ok()) << fd.status().message();
    FrameSocket socket(fd.take());
    if (complete) sendJoin(socket, rank, nranks);
    return socket;
  }
  void sendJoin(FrameSocket& socket, int rank, int nranks) {
    Frame frame;
    frame.header.type = FrameType::join;
    frame.header.target = nranks;
    frame.header.sequence = 20'000;
    frame.body = endpointOf(rank).encode();
    socket.queue(frame);
    EXPECT_TRUE(socket.flush().ok());
  }
};

std::vector<int> upTo(int n) {
  std::vector<int> ranks;
  for (int r = 0; r < n; ++r) ranks.push_back(r);
  return ranks;
}

TEST_F(RendezvousTest, FiveHundredAndTwelveRanksAtOnce) {
  const TimePoint begun = System::real().now();
  const std::vector<int> ranks = upTo(512);
  expectWelcome(ranks, joinAll(ranks, 512, 60s));
  std::printf("512 joiners: %.2f s\n", seconds(System::real().now() - begun));
  EXPECT_TRUE(test::eventually([&] { return root->done(); }));
}

TEST_F(RendezvousTest, MissingRanksAreNamedToAll) {
  const std::vector<int> present = {0, 1, 2, 4, 5, 6};
  for (auto& result : joinAll(present, 8, 300ms)) {
    ASSERT_FALSE(result.ok());
    EXPECT_EQ(result.status().code(), Code::timeout);
    const std::string text = result.status().message();
    EXPECT_NE(text.find("ranks 3, 7 of 8 have not joined after 0."), std::string::npos) << text;
    EXPECT_NE(text.find(" s: check that they run, can reach " + id.addresses[0].text()), std::string::npos)
        << text;
  }
  // Who comes too late learns why, and then the root is through.
  auto late = join(7, 8);
  EXPECT_NE(late.status().message().find("ranks 3, 7 of 8"), std::string::npos) << late.status().message();
  EXPECT_FALSE(root->done());
  EXPECT_FALSE(join(3, 8).ok());
  EXPECT_TRUE(test::eventually([&] { return root->done(); }));
}

TEST_F(RendezvousTest, TheSameRankTwiceIsAnErrorForBoth) {
  for (auto& result : joinAll({1, 1, 2}, 4)) {
    ASSERT_FALSE(result.ok());
    EXPECT_EQ(result.status().code(), Code::invalidUsage);
    EXPECT_NE(result.status().message().find("two processes are rank 1 of 4"), std::string::npos)
        << result.status().message();
  }
}

TEST_F(RendezvousTest, DifferentNumbersOfRanksAreNamed) {
  std::string first;
  std::thread other([&] { first = join(1, 3).status().message(); });
  std::this_thread::sleep_for(100ms);
  const std::string second = join(2, 4).status().message();
  other.join();
  for (const std::string& text : {first, second}) {
    EXPECT_NE(text.find("rank 1 ("), std::string::npos) << text;
    EXPECT_NE(text.find("says 3, rank 2 ("), std::string::npos) << text;
    EXPECT_NE(text.find("says 4"), std::string::npos) << text;
  }
}

TEST_F(RendezvousTest, ARankThatDiedWhileWaitingMayComeAgain) {
  FrameSocket first = halfJoin(1, 3, true);
  std::this_thread::sleep_for(50ms);
  first.close();
  const std::vector<int> ranks = upTo(3);
  expectWelcome(ranks, joinAll(ranks, 3));
}

TEST_F(RendezvousTest, HoldsAsManyAsItsDescriptorsAllow) {
  constexpr int kRanks = 300;
  if (descriptorShare(kRanks) < kRanks) GTEST_SKIP() << "the limit on descriptors is low";
  std::vector<FrameSocket> waiting;
  for (int rank = 0; rank < kRanks - 1; ++rank) waiting.push_back(halfJoin(rank, kRanks, true));
  expectWelcome({kRanks - 1}, joinAll({kRanks - 1}, kRanks));
  for (FrameSocket& socket : waiting) {
    std::optional<FrameType> answer;
    bool ended = false;
    const auto take = [&](Frame&& frame) -> Result<bool> { return answer = frame.header.type, false; };
    EXPECT_TRUE(test::eventually([&] { return !socket.receive(take, &ended).ok() || ended || answer; }));
    EXPECT_EQ(answer, FrameType::welcome) << "nobody is told to come again";
  }
}

// Few are kept waiting on a socket; the others come again for their answer.
struct BusyRendezvous : RendezvousTest {
  void SetUp() override {
    options.mostHeld = 2;
    RendezvousTest::SetUp();
  }
};

TEST_F(BusyRendezvous, ServesRanksThatHangUpAndComeBack) {
  const std::vector<int> ranks = upTo(40);
  expectWelcome(ranks, joinAll(ranks, 40));
  EXPECT_TRUE(test::eventually([&] { return root->done(); }));
}

TEST_F(BusyRendezvous, KeepsFewDescriptorsForAnyNumberOfRanks) {
  const size_t before = test::openDescriptors();
  const std::vector<int> ranks = upTo(39), last = {39};
  std::vector<Result<std::optional<Endpoint>>> results;
  std::thread joining([&] { results = joinAll(ranks, 40, 60s); });
  std::this_thread::sleep_for(200ms);
  // Two wait on sockets, each with an end here and one at the root; the rest are away but for some
  // milliseconds.
  EXPECT_TRUE(test::eventually([&] { return test::openDescriptors() < before + 20; }));
  expectWelcome(last, joinAll(last, 40));
  joining.join();
  expectWelcome(ranks, results);
}

TEST_F(BusyRendezvous, NamesWhoIsMissing) {
  for (auto& result : joinAll({0, 1, 2, 4, 5}, 6, 2s)) {
    ASSERT_FALSE(result.ok());
    EXPECT_EQ(result.status().code(), Code::timeout);
    EXPECT_NE(result.status().message().find("rank 3 of 6 has not joined after "), std::string::npos)
        << result.status().message();
  }
}

TEST_F(BusyRendezvous, FindsTwoThatAreTheSameRank) {
  const std::vector<int> first = upTo(5);
  std::vector<Result<std::optional<Endpoint>>> results;
  std::thread joining([&] { results = joinAll(first, 6); });
  std::this_thread::sleep_for(100ms);
  // Of each rank there are two now, those too that are away at the moment.
  std::vector<std::string> texts(first.size());
  std::vector<std::thread> others;
  for (size_t i = 0; i < first.size(); ++i) {
    others.emplace_back([&, i] {
      Endpoint another = endpointOf(first[i]);
      another.identity[15] = 1;
      texts[i] = rendezvous(id, {first[i], 6, another}, Wait::within(20s)).status().message();
    });
  }
  joining.join();
  for (std::thread& other : others) other.join();
  for (auto& result : results) texts.push_back(result.status().message());
  for (const std::string& text : texts)
    EXPECT_NE(text.find("two processes are rank"), std::string::npos) << text;
}

TEST_F(RendezvousTest, AQuickSuccessionOfRestartsIsNoDuplicate) {
  for (int i = 0; i < 50; ++i) halfJoin(1, 3, true);  // closed at once
  const std::vector<int> ranks = upTo(3);
  expectWelcome(ranks, joinAll(ranks, 3));
}

TEST_F(RendezvousTest, ARankThatEndsAsItJoinsIsNotCounted) {
  FrameSocket zero = halfJoin(0, 2, true);
  FrameSocket ending = halfJoin(1, 2, false);
  const int cork = 1;  // its words and its end go out in one segment
  ASSERT_EQ(setsockopt(ending.fd(), IPPROTO_TCP, TCP_CORK, &cork, sizeof cork), 0);
  sendJoin(ending, 1, 2);
  ending.close();
  expectWelcome({1}, joinAll({1}, 2));
}

TEST_F(RendezvousTest, ARankThatDiedWhileWaitingAndStaysAwayIsReported) {
  FrameSocket dead = halfJoin(1, 3, true);
  std::this_thread::sleep_for(50ms);
  dead.close();
  for (auto& result : joinAll({0, 2}, 3, 300ms)) {
    const std::string text = result.status().message();
    EXPECT_NE(text.find("rank 1 of 3 has not joined after 0."), std::string::npos) << text;
    EXPECT_NE(text.find("rank 1 ("), std::string::npos) << text;
    EXPECT_NE(text.find("had joined, but its connection broke"), std::string::npos) << text;
  }
}

TEST_F(RendezvousTest, AnIdServesOnce) {
  FrameSocket late = halfJoin(1, 2, false);  // holds the root open
  const std::vector<int> ranks = upTo(2);
  expectWelcome(ranks, joinAll(ranks, 2));
  EXPECT_FALSE(root->done());
  sendJoin(late, 1, 2);
  std::string answer;
  bool ended = false;
  EXPECT_TRUE(test::eventually([&] {
    late.receive([&](Frame&& frame) -> Result<bool> { return answer = frame.body, true; }, &ended).ignore();
    return ended;
  }));
  EXPECT_NE(answer.find("all 2 ranks have joined already"), std::string::npos) << answer;
  EXPECT_TRUE(test::eventually([&] { return root->done(); }));
  auto again = join(0, 2, 200ms);
  EXPECT_EQ(again.status().code(), Code::timeout);
}

TEST_F(RendezvousTest, ARestartedRankIsNotReportedWhenAnotherStaysAway) {
  FrameSocket first = halfJoin(1, 3, true);
  first.close();
  std::this_thread::sleep_for(50ms);
  for (auto& result : joinAll({0, 1}, 3, 300ms)) {
    const std::string text = result.status().message();
    EXPECT_NE(text.find("rank 2 of 3 has not joined after"), std::string::npos) << text;
    EXPECT_EQ(text.find("had joined, but"), std::string::npos) << text;
  }
}

TEST_F(RendezvousTest, ImpossibleRanksAreRefusedAlone) {
  EXPECT_NE(join(5, 5).status().message().find("rank 5 of 5 ranks does not exist"), std::string::npos);
  const std::vector<int> ranks = upTo(2);
  expectWelcome(ranks, joinAll(ranks, 2));
}

TEST_F(RendezvousTest, MembersThatSpeakNonsenseAreDropped) {
  FrameSocket twice = halfJoin(1, 2, true);
  sendJoin(twice, 1, 2);
  Stream garbage;
  {
    Hello hello;
    hello.purpose = Purpose::rendezvous;
    auto fd = dial(id.root(), id.secret, hello, {}, Wait::within(5s));
    ASSERT_TRUE(fd.ok());
    garbage = fd.take();
    ASSERT_EQ(send(garbage.get(), std::string(100, 'z').data(), 100, MSG_NOSIGNAL), 100);
  }
  Hello data;
  data.purpose = Purpose::data;
  auto wrongDoor = dial(id.root(), id.secret, data, {}, Wait::within(5s));
  const std::vector<int> ranks = upTo(2);
  expectWelcome(ranks, joinAll(ranks, 2));
}

TEST_F(RendezvousTest, StrangersDoNotDisturbTheJoining) {
  std::atomic<bool> stop{false};
  std::vector<std::thread> strangers;
  for (int kind = 0; kind < 3; ++kind) {
    strangers.emplace_back([&, kind] {
      std::vector<Fd> held;
      const SocketAddress& to = id.addresses[0];
      while (!stop) {
        Fd fd(socket(to.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
        if (connect(fd.get(), to.raw(), to.rawSize()) != 0) continue;
        const std::string garbage(200, static_cast<char>('a' + kind));
        if (kind > 0) send(fd.get(), garbage.data(), kind == 1 ? 3 : 200, MSG_NOSIGNAL);
        if (kind < 2 && held.size() < 300) held.push_back(std::move(fd));  // silent, or slow
        std::this_thread::sleep_for(1ms);
      }
    });
  }
  std::this_thread::sleep_for(400ms);  // let them fill every half-open place
  const std::vector<int> ranks = upTo(32);
  const TimePoint begun = System::real().now();
  expectWelcome(ranks, joinAll(ranks, 32));
  std::printf("32 ranks among strangers: %.2f s\n", seconds(System::real().now() - begun));
  stop = true;
  for (std::thread& stranger : strangers) stranger.join();
}

std::atomic<pid_t> signalledThread{0};

// The application has one thread, which blocks the signal for a while: nobody else may take it.
TEST_F(RendezvousTest, SignalsAreLeftToTheThreadsOfTheApplication) {
  struct sigaction before, mine{};
  mine.sa_handler = [](int) { signalledThread = gettid(); };
  ASSERT_EQ(sigaction(SIGUSR1, &mine, &before), 0);
  sigset_t one, mask;
  sigemptyset(&one);
  sigaddset(&one, SIGUSR1);
  ASSERT_EQ(pthread_sigmask(SIG_BLOCK, &one, &mask), 0);
  signalledThread = 0;
  ASSERT_EQ(kill(getpid(), SIGUSR1), 0);
  std::this_thread::sleep_for(20ms);  // for a thread that sleeps to be woken by it
  EXPECT_EQ(signalledThread, 0);
  pthread_sigmask(SIG_SETMASK, &mask, nullptr);
  EXPECT_EQ(signalledThread, gettid());
  sigaction(SIGUSR1, &before, nullptr);
}

TEST_F(RendezvousTest, ARootThatIsNotThereIsNamedWithItsAddresses) {
  root.reset();
  auto result = join(1, 2, 300ms);
  ASSERT_FALSE(result.ok());
  const std::string text = result.status().message();
  EXPECT_NE(text.find("rank 1 of 2: could not connect to the rendezvous root within 0.3 s"), std::string::npos)
      << text;
  for (const SocketAddress& address : id.addresses)
    EXPECT_NE(text.find(address.text()), std::string::npos) << text;
}

TEST_F(RendezvousTest, ARootThatEndsIsNoticedByThoseWhoWait) {
  std::string text;
  std::thread joiner([&] { text = join(0, 2, 20s).status().message(); });
  std::this_thread::sleep_for(100ms);
  const TimePoint begun = System::real().now();
  root.reset();
  joiner.join();
  EXPECT_LT(System::real().now() - begun, 5s);
  EXPECT_NE(text.find("rank 0 of 2:"), std::string::npos) << text;
  EXPECT_NE(text.find("rendezvous root"), std::string::npos) << text;
}

TEST_F(RendezvousTest, AbortEndsTheWait) {
  std::atomic<bool> abort{false};
  std::thread aborter([&] {
    std::this_thread::sleep_for(100ms);
    abort = true;
  });
  const TimePoint begun = System::real().now();
  auto result = rendezvous(id, {0, 2, endpointOf(0)}, Wait::within(20s, &abort));
  EXPECT_LT(System::real().now() - begun, 300ms);
  EXPECT_NE(result.status().message().find("aborted"), std::string::npos);
  aborter.join();
}

TEST(HostPortForm, RanksMayComeBeforeTheRoot) {
  // A port that is free now, outside the ephemeral range so that no other test takes it.
  CommIdSettings settings{.secret = "00112233445566778899aabbccddeeff"};
  UniqueId id;
  std::unique_ptr<Rendezvous> root;
  std::vector<std::thread> threads;
  for (int port = 21'000 + getpid() % 5000; !root; ++port) {
    settings.commId = format("127.0.0.1:%d", port);
    id = *uniqueIdFromSettings(settings);
    auto probe = Rendezvous::start(&id, {});
    if (!probe.ok()) continue;
    probe->reset();  // the port is free again, at once
    threads.emplace_back([&] {
      const UniqueId mine = *uniqueIdFromSettings(settings);
      auto joined = rendezvous(mine, {1, 2, endpointOf(1)}, Wait::within(20s));
      EXPECT_TRUE(joined.ok()) << joined.status().message();
    });
    std::this_thread::sleep_for(200ms);
    auto started = Rendezvous::start(&id, {});
    ASSERT_TRUE(started.ok()) << started.status().message();
    root = started.take();
  }
  auto joined = rendezvous(id, {0, 2, endpointOf(0)}, Wait::within(20s));
  EXPECT_TRUE(joined.ok()) << joined.status().message();
  for (std::thread& thread : threads) thread.join();
}

TEST(HostPortForm, AWrongSecretIsNamed) {
  UniqueId id = UniqueId::random(System::real());
  auto root = Rendezvous::start(&id, {});
  ASSERT_TRUE(root.ok());
  id.secret = Secret::random(System::real());
  auto joined = rendezvous(id, {0, 1, endpointOf(0)}, Wait::within(300ms));
  ASSERT_FALSE(joined.ok());
  EXPECT_NE(joined.status().message().find("does not know this job's secret"), std::string::npos)
      << joined.status().message();
}

}  // namespace
}  // namespace eccl::transport
