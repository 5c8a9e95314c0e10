// A process that dies is noticed at once, whatever its children still hold.
#include <fcntl.h>
#include <gtest/gtest.h>

#include <csignal>

#include "transport/connect/peer_watch.h"
#include "transport/ways.h"

namespace eccl::transport {
namespace {

enum class ChildOfPeer { none, holdsEverything, letGo };

std::pair<Connection*, Connection*> connectBoth(Party& party) {
  party.connector->get(party.sending());  // neither waits for the other first
  Connection* in = party.connect(party.receiving());
  return {party.connect(party.sending()), in};
}

/// Rank 1 is a process that connects both ways, possibly forks, and is killed while waiting.
void killRankOne(const Way& way, ChildOfPeer child) {
  const PartySetup setup = setupFor(way);
  Gates gates;
  int pipes[2];
  ASSERT_EQ(pipe2(pipes, O_CLOEXEC), 0);
  Fd fromChild(pipes[0]), toParent(pipes[1]);
  const pid_t victim = fork();
  ASSERT_GE(victim, 0);
  if (victim == 0) {
    gates.side[0].reset();
    Party party(1, setup, std::move(gates.side[1]));
    connectBoth(party);
    pid_t grandchild = 0;
    if (child != ChildOfPeer::none && (grandchild = fork()) == 0) {
      if (child == ChildOfPeer::letGo) {
        party.connector->closeAfterFork();
        party.reactor.closeAfterFork();
      }
      for (;;) pause();
    }
    if (write(toParent.get(), &grandchild, sizeof grandchild) != sizeof grandchild) _exit(1);
    party.until([] { return false; }, std::chrono::seconds(60));
    _exit(1);
  }
  gates.side[1].reset();
  {
    Party party(0, setup, std::move(gates.side[0]));
    auto [out, in] = connectBoth(party);
    ASSERT_EQ(out->state(), Connection::State::ready);
    ASSERT_EQ(in->state(), Connection::State::ready);
    EXPECT_EQ(out->path()->name(), pathOf(way));
    Connection* unfinished = party.connector->get(party.receiving(7));
    pid_t grandchild = 0;
    ASSERT_EQ(read(fromChild.get(), &grandchild, sizeof grandchild), static_cast<ssize_t>(sizeof grandchild));
    SendEnd* send = &out->sendEnd;
    ReceiveEnd* receive = &in->receiveEnd;
    const TimePoint killed = System::real().now();
    ASSERT_EQ(kill(victim, SIGKILL), 0);
    EXPECT_TRUE(party.until([&] { return party.brokenRank == 1 && receive->poisoned() && send->poisoned(); }));
    EXPECT_LT(System::real().now() - killed, std::chrono::seconds(1));
    EXPECT_EQ(party.lostWakeUps, 0);
    if (grandchild != 0) {
      EXPECT_EQ(kill(grandchild, 0), 0) << "the child was to survive the rank";
      kill(grandchild, SIGKILL);
    }
    EXPECT_NE(in->failure().message().find("rank 1 (test)"), std::string::npos);
    // Known by the process id: also what was not ready yet.
    const auto failed = [&] { return unfinished->state() == Connection::State::failed; };
    EXPECT_EQ(way.transport->reach == Reach::host ? party.until(failed) : failed(),
              way.transport->reach == Reach::host);
  }
  EXPECT_EQ(waitpid(victim, nullptr, 0), victim);
}

/// Every transport between processes: threads of one process die together.
std::vector<Way> betweenProcesses() {
  std::vector<Way> ways = everyWay();
  // Over the network the other process may be anywhere, so each of these ways is there once.
  std::erase_if(ways, [](const Way& way) { return way.forks && way.transport->reach == Reach::network; });
  for (Way& way : ways) way.forks = way.forks || way.transport->reach == Reach::network;
  std::erase_if(ways, [](const Way& way) { return !way.forks; });
  return ways;
}
class PeerDeath : public OnEveryWay {};
class PeerDeathTiming : public OnEveryWay {};
INSTANTIATE_TEST_SUITE_P(All, PeerDeath, ::testing::ValuesIn(betweenProcesses()), nameOfWay);
INSTANTIATE_TEST_SUITE_P(All, PeerDeathTiming, ::testing::ValuesIn(betweenProcesses()), nameOfWay);

TEST_P(PeerDeathTiming, IsNoticed) {
  killRankOne(way(), ChildOfPeer::none);
}
TEST_P(PeerDeathTiming, IsNoticedThoughAChildHoldsItsSockets) {
  if (way().transport->reach == Reach::network)
    GTEST_SKIP() << "another host sees the sockets alone, which the child keeps open: the control tree notices";
  killRankOne(way(), ChildOfPeer::holdsEverything);
}
TEST_P(PeerDeathTiming, IsNoticedWhenItsChildHasLetGo) {
  killRankOne(way(), ChildOfPeer::letGo);
}

// Where the kernel has no pidfd the end of a socket must do.
TEST(PeerWatch, TakesASocketsEndForADeath) {
  Reactor reactor;
  ASSERT_TRUE(reactor.open(System::real()).ok());
  int dead = -1, calls = 0;
  PeerWatch watch(reactor, [&](int rank, const std::string&) {
    dead = rank;
    ++calls;
  });
  Gates four, five;
  watch.addSocket(4, std::move(four.side[0]));
  watch.addSocket(5, std::move(five.side[0]));
  EXPECT_TRUE(watch.add(4, five.side[1])) << "watched already, by whatever means";
  EXPECT_FALSE(reactor.poll(Duration::zero()));
  watch.forget(5);
  five.side[1].reset();
  EXPECT_FALSE(reactor.poll(Duration::zero()));
  four.side[1].reset();
  EXPECT_TRUE(reactor.poll(Duration::zero()));
  EXPECT_EQ(dead, 4);
  EXPECT_FALSE(reactor.poll(Duration::zero()));
  EXPECT_EQ(calls, 1);
}

TEST_P(PeerDeath, IsNoNewsAfterAnOrderlyEnd) {
  run(
      setupFor(way()),
      [](Party& party) -> std::string {
        Connection* connection = party.connect(party.receiving());
        party.connector->expectEnd(1);
        party.signal();
        PARTY_CHECK(party.until([&] { return connection->state() == Connection::State::failed; }));
        PARTY_CHECK(party.brokenRank == -1);
        return "";
      },
      [](Party& party) -> std::string {
        PARTY_CHECK(party.connect(party.sending())->state() == Connection::State::ready);
        PARTY_CHECK(party.await());
        return "";
      });
}

// What the dead one had published before is not lost.
TEST_P(PeerDeath, LeavesThePublishedMessages) {
  if (pathOf(way()) == "ucx")
    GTEST_SKIP()
        << "what UCX has not sent ends with the process; others have it in shared memory or in the kernel";
  run(
      setupFor(way()),
      [](Party& party) -> std::string {
        Connection* connection = party.connect(party.receiving());
        PARTY_CHECK(party.until([&] { return connection->receiveEnd.poisoned(); }));
        Received received;
        for (int k = 0; k < 5; ++k) {
          PARTY_CHECK(connection->receiveEnd.peek(received));
          PARTY_CHECK(holds(connection->receiveEnd, received, content(9, 4096)));
          connection->receiveEnd.release();
        }
        PARTY_CHECK(!connection->receiveEnd.peek(received));
        PARTY_CHECK(party.brokenRank == 1);
        return "";
      },
      [](Party& party) -> std::string {
        Connection* connection = party.connect(party.sending());
        std::vector<std::byte> bytes = content(9, 4096);
        for (int k = 0; k < 5; ++k) PARTY_CHECK(trySend(connection->sendEnd, bytes, 0));
        connection->path()->kick();
        _exit(0);
      });
}

}  // namespace
}  // namespace eccl::transport
