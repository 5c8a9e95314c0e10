// How many descriptors connections take, and what happens when there are none.
#include "transport/net/descriptors.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <mutex>

#include "support/descriptors.h"
#include "support/forwarding_system.h"
#include "transport/connect/peer_watch.h"
#include "transport/roles.h"

namespace eccl::transport {
namespace {

/// The soft limit, until the end.
class Limit {
 public:
  explicit Limit(size_t descriptors) {
    getrlimit(RLIMIT_NOFILE, &before_);
    set(descriptors);
  }
  ~Limit() { setrlimit(RLIMIT_NOFILE, &before_); }
  void set(size_t descriptors) {
    const rlimit limit{descriptors, before_.rlim_max};
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  }

 private:
  rlimit before_{};
};

std::vector<Connection*> getAll(Party& party, int16_t number, bool sends) {
  std::vector<Connection*> all;
  for (int16_t tag = 0; tag < number; ++tag)
    all.push_back(party.connector->get(sends ? party.sending(tag) : party.receiving(tag)));
  return all;
}
bool allReady(const std::vector<Connection*>& all) {
  return std::all_of(all.begin(), all.end(),
                     [](Connection* each) { return each->state() == Connection::State::ready; });
}
std::string firstFailure(const std::vector<Connection*>& all) {
  for (Connection* each : all) {
    if (each->state() == Connection::State::failed) return each->failure().message();
  }
  return "";
}

TEST(Descriptors, ThreadsOfOneProcessNeedNone) {
  size_t before = 0;
  const auto role = [&](bool sends) {
    return [&, sends](Party& party) -> std::string {
      party.signal();
      PARTY_CHECK(party.await());
      if (sends) before = test::openDescriptors();
      party.signal();
      PARTY_CHECK(party.await());
      const auto all = getAll(party, 20, sends);
      size_t most = 0;
      PARTY_CHECK(party.until([&] {
        most = std::max(most, test::openDescriptors());
        return allReady(all);
      }));
      PARTY_CHECK(most <= before + 2);  // each of the two may be counting
      party.signal();
      PARTY_CHECK(party.await());
      return "";
    };
  };
  runTwo(allowing(true, false, false), false, role(true), role(false));
}

TEST(Descriptors, AProcessOfThisHostNeedsTwoForEachPeerAndNoneForAConnection) {
  const auto role = [](bool sends) {
    return [sends](Party& party) -> std::string {
      SharedHeap::ofThisProcess().window();  // one for the life of the process
      const size_t before = test::openDescriptors();
      const auto all = getAll(party, 50, sends);
      PARTY_CHECK(party.until([&] { return allReady(all); }));
      PARTY_CHECK(test::openDescriptors() == before + 2);  // doorbell, pidfd
      party.signal();
      PARTY_CHECK(party.await());
      return "";
    };
  };
  runTwo(allowing(false, true, false), true, role(true), role(false));
}

TEST(Descriptors, TcpNeedsOneForEachConnection) {
  const auto role = [](bool sends) {
    return [sends](Party& party) -> std::string {
      const size_t before = test::openDescriptors();
      const auto all = getAll(party, 50, sends);
      PARTY_CHECK(party.until([&] { return allReady(all); }));
      PARTY_CHECK(test::openDescriptors() == before + 50);
      party.signal();
      PARTY_CHECK(party.await());
      return "";
    };
  };
  runTwo(allowing(false, false, true), true, role(true), role(false));
}

TEST(Descriptors, OneProcessIsWatchedByOneWhoeverWatches) {
  const pid_t child = fork();
  int pair[2];
  if (child == 0) {
    pause();
    _exit(0);
  }
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);  // whose other end is this process
  const Fd one(pair[0]), other(pair[1]);
  Reactor first, second;
  ASSERT_TRUE(first.open(System::real()).ok() && second.open(System::real()).ok());
  std::set<int> dead;
  PeerWatch watch(first, [&](int rank, const std::string&) { dead.insert(rank); }),
      another(second, [&](int, const std::string&) {});
  const size_t before = test::openDescriptors();
  if (!watch.add(1, one)) GTEST_SKIP() << "this kernel has no pidfd";
  EXPECT_TRUE(watch.add(2, other));
  EXPECT_TRUE(another.add(1, one));
  EXPECT_EQ(test::openDescriptors(), before + 1);
  watch.forget(1);
  EXPECT_EQ(test::openDescriptors(), before + 1);
  watch.forget(2);
  another.forget(1);
  EXPECT_EQ(test::openDescriptors(), before);
  EXPECT_TRUE(dead.empty());
  kill(child, SIGKILL);
  EXPECT_EQ(waitpid(child, nullptr, 0), child);
}

/// Many connections to a rank that asks for them late, in two processes of a small limit.
void manyToALateRank(PartySetup setup, int16_t number, size_t limit, size_t most) {
  setup.connectLimit = std::chrono::seconds(60) * kSlower;
  int looks = 0;
  size_t used = 0;  // by this process
  const auto note = [&] {
    if (++looks % 16 == 0) used = std::max(used, test::openDescriptors());
    return false;
  };
  const auto role = [&](bool sends) {
    return [&, sends](Party& party) -> std::string {
      const Limit low(limit);
      if (!sends) {
        party.until(note, std::chrono::milliseconds(300));
        if (used > most / 2) return format("%zu descriptors while nobody had asked", used);
      }
      const auto all = getAll(party, number, sends);
      PARTY_CHECK(party.until([&] { return note() || allReady(all) || !firstFailure(all).empty(); },
                              std::chrono::seconds(60) * kSlower));
      if (!firstFailure(all).empty()) return firstFailure(all);
      if (used > most) return format("%zu descriptors", used);
      party.signal();
      PARTY_CHECK(party.await());
      return "";
    };
  };
  runTwo(setup, true, role(true), role(false));
}

// More than the 1,025 ranks that a Gather once could not have.
TEST(LateRank, IsReachedByElevenHundredConnectionsInSharedMemory) {
  manyToALateRank(allowing(false, true, false), 1100, 256, 160);
}

TEST(LateRank, IsReachedByHundredsOfTcpConnections) {
  manyToALateRank(allowing(false, false, true), 300, 700, 600);
}

// While there are none it waits, and then takes the way that it would have taken.
TEST(Descriptors, ASetUpWaitsForThem) {
  runTwo(
      allowing(false, true, true), true,
      [](Party& party) -> std::string {
        Fd next(dup(0));
        Limit none(static_cast<size_t>(next.get()));
        next.reset();
        Connection* connection = party.connector->get(party.sending());
        party.until([&] { return connection->state() != State::connecting; }, std::chrono::milliseconds(300));
        PARTY_CHECK(connection->state() == State::connecting);
        none.set(1000);
        return sender("shm")(party);
      },
      receiver("shm"));
  runTwo(allowing(false, true, true), true, sender("shm"), [](Party& party) -> std::string {
    PARTY_CHECK(party.until([] { return false; }, std::chrono::milliseconds(50)) == false);  // the caller waits
    Fd next(dup(0));
    Limit none(static_cast<size_t>(next.get()) + 1);  // one of those that come with the offer
    next.reset();
    Connection* connection = party.connector->get(party.receiving());
    party.until([&] { return connection->state() != State::connecting; }, std::chrono::milliseconds(300));
    PARTY_CHECK(connection->state() == State::connecting);
    none.set(1000);
    return receiver("shm")(party);
  });
}

TEST(Descriptors, TheSoftLimitIsRaisedWhereThatIsAllowedAndNeeded) {
  const auto softLimit = [] {
    rlimit limit{};
    getrlimit(RLIMIT_NOFILE, &limit);
    return limit.rlim_cur;
  };
  rlimit hard{};
  getrlimit(RLIMIT_NOFILE, &hard);
  if (hard.rlim_max < 512) GTEST_SKIP() << "the hard limit is low";
  const Limit low(256);
  expectDescriptors(100'000, false);
  EXPECT_EQ(softLimit(), 256u);
  EXPECT_FALSE(descriptorsLeft(300));
  expectDescriptors(2, true);
  EXPECT_EQ(softLimit(), 256u);
  expectDescriptors(100'000, true);
  EXPECT_EQ(softLimit(), hard.rlim_max);
  const Limit again(256);
  EXPECT_TRUE(descriptorsLeft(300));
  EXPECT_EQ(softLimit(), hard.rlim_max);
  expectDescriptors(2, false);
}

TEST(SetupTurn, IsGivenToFewAtATime) {
  const Limit low(16 * 10);
  std::vector<std::unique_ptr<SetupTurn>> turns;
  for (int i = 0; i < 10; ++i) {
    turns.push_back(std::make_unique<SetupTurn>());
    EXPECT_TRUE(turns.back()->take());
  }
  SetupTurn late;
  EXPECT_FALSE(late.take());
  EXPECT_TRUE(SetupTurn::somebodyWaits());
  turns.pop_back();
  EXPECT_TRUE(late.take());
  EXPECT_TRUE(late.take());
  EXPECT_FALSE(SetupTurn::somebodyWaits());
  {
    SetupTurn never;
    EXPECT_FALSE(never.take());
  }
  EXPECT_FALSE(SetupTurn::somebodyWaits());
}

/// Messages with descriptors are refused at first, as by the kernel when more are unread than a process may
/// have.
class ManyUnread : public test::ForwardingSystem {
 public:
  ManyUnread() : ForwardingSystem(System::real()) {}
  ssize_t sendmsg(int fd, const msghdr* message) override {
    if (message->msg_control != nullptr && refused < 5) {
      ++refused;
      return errno = ETOOMANYREFS, -1;
    }
    return to_.sendmsg(fd, message);
  }
  std::atomic<int> refused = 0;
};

// Another transport would be slower for good, where a little later there is room.
TEST(Descriptors, OffersWaitUntilOthersAreRead) {
  ManyUnread unread;
  PartySetup setup = allowing(false, true, true);
  setup.system = &unread;
  const auto role = [](bool sends) {
    return [sends](Party& party) -> std::string {
      Connection* const connection = party.connect(sends ? party.sending() : party.receiving());
      if (connection->state() != Connection::State::ready) return connection->failure().message();
      PARTY_CHECK(connection->path()->name() == std::string("shm"));
      party.signal();
      PARTY_CHECK(party.await());
      return "";
    };
  };
  runTwo(setup, false, role(true), role(false));
  EXPECT_EQ(unread.refused, 5);
}

/// Sets of epoll take no more descriptors from some time on.
class FullSet : public test::ForwardingSystem {
 public:
  explicit FullSet(int room) : ForwardingSystem(System::real()), room_(room) {}
  int epollControl(int set, int operation, int fd, epoll_event* event) override {
    if (operation == EPOLL_CTL_ADD && room_-- <= 0) return errno = ENOSPC, -1;
    return to_.epollControl(set, operation, fd, event);
  }

 private:
  std::atomic<int> room_;
};

// Who marks the peer as gone afterwards, as the watch over its process does, writes to memory that is there.
TEST(Descriptors, AConnectionThatCannotBeWatchedHasNoEnd) {
  bool failed = false;
  for (int room = 4; room < 12; ++room) {  // beside what the rank has before
    FullSet full(room);
    PartySetup setup = allowing(false, false, true), other = setup;
    setup.system = &full;
    setup.connectLimit = other.connectLimit = std::chrono::seconds(1);
    const auto role = [&](bool sends) {
      return [&, sends](Party& party) -> std::string {
        if (!sends) {
          party.connector->get(party.receiving());
          PARTY_CHECK(party.await());
          return "";
        }
        Connection* const connection = party.connect(party.sending());
        if (connection->state() == Connection::State::failed) {
          failed = true;
          connection->markPeerGone();
        }
        party.signal();
        return "";
      };
    };
    runTwo(setup, false, role(true), role(false), &other);
  }
  EXPECT_TRUE(failed);
}

}  // namespace
}  // namespace eccl::transport
