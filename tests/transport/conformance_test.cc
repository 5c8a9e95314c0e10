// What every path must do, bare and with things going wrong on the way.
#include <gmock/gmock.h>

#include "transport/traffic.h"

namespace eccl {
namespace {

enum class Way { thread, shm, shmFork, tcp4, tcp6 };
enum class Weather { bare, delay, partial, stall };

const char* nameOf(Way way) {
  const char* names[] = {"Thread", "Shm", "ShmFork", "Tcp4", "Tcp6"};
  return names[static_cast<int>(way)];
}
const char* nameOf(Weather weather) {
  const char* names[] = {"Bare", "Delay", "Partial", "Stall"};
  return names[static_cast<int>(weather)];
}
const char* pathOf(Way way) {
  return way == Way::thread ? "thread" : way == Way::shm || way == Way::shmFork ? "shm" : "tcp";
}
bool forks(Way way) {
  return way == Way::shmFork;
}
bool isTcp(Way way) {
  return way == Way::tcp4 || way == Way::tcp6;
}

PartySetup setupFor(Way way, Weather weather = Weather::bare) {
  PartySetup setup;
  setup.thread = way == Way::thread;
  setup.shm = way == Way::shm || way == Way::shmFork;
  setup.tcp = isTcp(way);
  setup.family = way == Way::tcp6 ? AF_INET6 : AF_INET;
  setup.faulty = weather != Weather::bare;
  if (weather == Weather::delay) setup.faults.delay = std::chrono::microseconds(300);
  if (weather == Weather::partial) {
    setup.faults.bytesPerCall = 7;
    setup.ring.slotBytes = 256;
    setup.referenceFrom = 100;
  }
  if (weather == Weather::stall) {
    setup.faults.stallAt = 20;
    setup.faults.stallFor = std::chrono::milliseconds(60);
  }
  return setup;
}

bool haveIpv6() {
  Fd probe(socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in6 any{};
  any.sin6_family = AF_INET6;
  any.sin6_addr = in6addr_loopback;
  return probe && bind(probe.get(), reinterpret_cast<sockaddr*>(&any), sizeof any) == 0;
}

#define CONNECT(connection, id)               \
  Connection* connection = party.connect(id); \
  PARTY_CHECK(connection->state() == Connection::State::ready)

// The ways, whatever the weather.
class Paths : public ::testing::TestWithParam<Way> {
 protected:
  void SetUp() override {
    if (GetParam() == Way::tcp6 && !haveIpv6()) GTEST_SKIP() << "this host has no IPv6 loopback address";
  }
  Way way() const { return GetParam(); }
  void run(const PartySetup& setup, const Role& zero, const Role& one) {
    runTwo(setup, forks(way()), zero, one);
  }
};

class PathsInWeather : public ::testing::TestWithParam<std::tuple<Way, Weather>> {
 protected:
  void SetUp() override {
    if (way() == Way::tcp6 && !haveIpv6()) GTEST_SKIP() << "this host has no IPv6 loopback address";
  }
  Way way() const { return std::get<0>(GetParam()); }
  Weather weather() const { return std::get<1>(GetParam()); }
};

INSTANTIATE_TEST_SUITE_P(All, Paths,
                         ::testing::Values(Way::thread, Way::shm, Way::shmFork, Way::tcp4, Way::tcp6),
                         [](auto& info) { return nameOf(info.param); });
INSTANTIATE_TEST_SUITE_P(
    All, PathsInWeather,
    ::testing::Combine(::testing::Values(Way::thread, Way::shm, Way::shmFork, Way::tcp4, Way::tcp6),
                       ::testing::Values(Weather::bare, Weather::delay, Weather::partial, Weather::stall)),
    [](auto& info) { return std::string(nameOf(std::get<0>(info.param))) + nameOf(std::get<1>(info.param)); });

TEST_P(PathsInWeather, DeliversInOrderWhatWasSent) {
  const uint64_t count = 400;
  runTwo(
      setupFor(way(), weather()), forks(way()),
      [&](Party& party) -> std::string {
        CONNECT(connection, party.sending());
        PARTY_CHECK(std::string(connection->path()->name()) == pathOf(way()));
        return sendAll(party, *connection, count);
      },
      [&](Party& party) -> std::string {
        CONNECT(connection, party.receiving());
        PARTY_CHECK(std::string(connection->path()->name()) == pathOf(way()));
        return receiveAll(party, *connection, count);
      });
}

TEST_P(PathsInWeather, CarriesBothDirectionsAtOnce) {
  const Role role = [&](Party& party) -> std::string {
    Connection* out = party.connector->get(party.sending(3));
    Connection* in = party.connector->get(party.receiving(3));
    PARTY_CHECK(party.until(
        [&] { return out->state() == Connection::State::ready && in->state() == Connection::State::ready; }));
    uint64_t sent = 0, got = 0;
    std::vector<std::vector<std::byte>> held(out->sendEnd.shape.slots);
    while (sent < 200 || got < 200) {
      Received received;
      PARTY_CHECK(party.until([&] {
        return (sent < 200 && out->sendEnd.reserve() != nullptr) ||
               (got < 200 && in->receiveEnd.peek(received));
      }));
      if (sent < 200 && out->sendEnd.reserve() != nullptr) {
        auto& bytes = held[sent % held.size()];
        bytes = content(sent, out->sendEnd.shape.slotBytes);
        trySend(out->sendEnd, bytes, 5);
        ++sent;
        out->path()->kick();
      }
      if (got < 200 && in->receiveEnd.peek(received)) {
        PARTY_CHECK(holds(in->receiveEnd, received, content(got, in->receiveEnd.shape.slotBytes)));
        in->receiveEnd.release();
        ++got;
        in->path()->kick();
      }
    }
    in->path()->flush();
    PARTY_CHECK(party.until([&] { return party.connector->drained(); }));
    return "";
  };
  runTwo(setupFor(way(), weather()), forks(way()), role, role);
}

// Counters start shortly before every place where one of their halves, or signs, turns over.
TEST_P(Paths, CountersMayWrap) {
  for (uint64_t first : {(uint64_t{1} << 32) - 3, (uint64_t{1} << 63) - 3, ~uint64_t{0} - 2}) {
    for (Weather weather : {Weather::bare, Weather::delay}) {
      PartySetup setup = setupFor(way(), weather);
      setup.first = first;
      runTwo(
          setup, forks(way()),
          [&](Party& party) -> std::string {
            CONNECT(connection, party.sending());
            PARTY_CHECK(connection->sendEnd.next == first);
            return sendAll(party, *connection, 50);
          },
          [&](Party& party) -> std::string {
            CONNECT(connection, party.receiving());
            return receiveAll(party, *connection, 50);
          });
    }
  }
}

// A slot comes back when the receiver releases it, not when it has arrived or been looked at.
TEST_P(PathsInWeather, FullRingHoldsTheSenderBack) {
  PartySetup setup = setupFor(way(), weather());
  setup.faults.stallFor = {};
  runTwo(
      setup, forks(way()),
      [&](Party& party) -> std::string {
        CONNECT(connection, party.sending());
        SendEnd& end = connection->sendEnd;
        std::vector<std::byte> bytes = content(10, end.shape.slotBytes);
        for (uint32_t i = 0; i < end.shape.slots; ++i) PARTY_CHECK(trySend(end, bytes, 1));
        PARTY_CHECK(!trySend(end, bytes, 1));
        PARTY_CHECK(party.await());  // the receiver has seen the first
        PARTY_CHECK(!party.until([&] { return end.reserve() != nullptr; }, std::chrono::milliseconds(30)));
        PARTY_CHECK(!connection->path()->drained());
        party.signal();
        PARTY_CHECK(party.until([&] { return end.reserve() != nullptr; }));
        PARTY_CHECK(end.next - end.releasedSeen == end.shape.slots - 1);
        PARTY_CHECK(trySend(end, bytes, 1));
        PARTY_CHECK(!trySend(end, bytes, 1));
        PARTY_CHECK(party.await());
        return "";
      },
      [&](Party& party) -> std::string {
        CONNECT(connection, party.receiving());
        ReceiveEnd& end = connection->receiveEnd;
        Received received;
        PARTY_CHECK(party.until([&] { return end.peek(received); }));
        party.signal();
        PARTY_CHECK(party.await());
        end.release();
        connection->path()->kick();
        connection->path()->flush();
        party.signal();
        PARTY_CHECK(party.until([&] { return connection->path()->drained(); }));
        return "";
      });
}

// Whatever a reference names stays in use until released, although all its bytes may have been sent long ago.
TEST_P(Paths, ReferencesCompleteWithTheirRelease) {
  if (way() == Way::shm || way() == Way::shmFork) {
    PartySetup setup = setupFor(way());
    run(
        setup,
        [](Party& party) -> std::string {
          CONNECT(connection, party.sending());
          PARTY_CHECK(connection->sendEnd.referenceFrom == UINT32_MAX);  // another process cannot follow them
          PARTY_CHECK(party.await());
          return "";
        },
        [](Party& party) -> std::string {
          CONNECT(connection, party.receiving());
          PARTY_CHECK(connection->receiveEnd.windowCount == 0);
          party.signal();
          return "";
        });
    return;
  }
  PartySetup setup = setupFor(way());
  setup.first = ~uint64_t{0};  // the number that marks "no reference yet" in a naive end
  run(
      setup,
      [&](Party& party) -> std::string {
        CONNECT(connection, party.sending());
        SendEnd& end = connection->sendEnd;
        PARTY_CHECK(end.referencesReleased());
        std::vector<std::byte> bytes(setup.referenceFrom, std::byte{42});
        PARTY_CHECK(trySend(end, bytes, 1));
        PARTY_CHECK(party.await());  // it was seen, not released
        PARTY_CHECK(!party.until([&] { return end.referencesReleased(); }, std::chrono::milliseconds(30)));
        party.signal();
        PARTY_CHECK(party.until([&] { return end.referencesReleased(); }));
        std::vector<std::byte> small(setup.referenceFrom - 1, std::byte{43});
        PARTY_CHECK(trySend(end, small, 1));
        PARTY_CHECK(end.referencesReleased());
        PARTY_CHECK(party.await());
        return "";
      },
      [&](Party& party) -> std::string {
        CONNECT(connection, party.receiving());
        ReceiveEnd& end = connection->receiveEnd;
        Received received;
        PARTY_CHECK(party.until([&] { return end.peek(received); }));
        PARTY_CHECK(((received.flags & kSlotReference) != 0) == (way() == Way::thread));
        PARTY_CHECK(holds(end, received, std::vector<std::byte>(setup.referenceFrom, std::byte{42})));
        party.signal();
        PARTY_CHECK(party.await());
        end.release();
        connection->path()->kick();
        connection->path()->flush();
        PARTY_CHECK(party.until([&] { return end.peek(received); }));
        PARTY_CHECK((received.flags & kSlotReference) == 0);
        party.signal();
        return "";
      });
}

// A grant may be used for a message of exactly its length; others arrive in their slots.
TEST_P(PathsInWeather, GrantsPlaceMessages) {
  PartySetup setup = setupFor(way(), weather());
  setup.referenceFrom = UINT32_MAX;
  runTwo(
      setup, forks(way()),
      [&](Party& party) -> std::string {
        CONNECT(connection, party.sending());
        for (uint8_t k = 0; k < 30; ++k) {
          PARTY_CHECK(party.await());
          PARTY_CHECK(trySend(connection->sendEnd, std::vector<std::byte>(200, std::byte{k}), k));
          connection->path()->kick();
        }
        PARTY_CHECK(party.until([&] { return connection->path()->drained(); }));
        return "";
      },
      [&](Party& party) -> std::string {
        CONNECT(connection, party.receiving());
        ReceiveEnd& end = connection->receiveEnd;
        for (uint8_t k = 0; k < 30; ++k) {
          std::vector<std::byte> memory(201, std::byte{0xee});
          const bool fits = k % 3 != 0;
          end.grant(kOwnAddressSpace, reinterpret_cast<uint64_t>(memory.data()), fits ? 200 : 201);
          party.signal();
          Received received;
          PARTY_CHECK(party.until([&] { return end.peek(received); }));
          PARTY_CHECK(((received.flags & kSlotPlaced) != 0) == (fits && isTcp(way())));
          PARTY_CHECK(holds(end, received, std::vector<std::byte>(200, std::byte{k}), memory.data()));
          PARTY_CHECK(memory[200] == std::byte{0xee});
          if ((received.flags & kSlotPlaced) == 0) PARTY_CHECK(memory[0] == std::byte{0xee});
          end.release();
          connection->path()->kick();
        }
        connection->path()->flush();
        PARTY_CHECK(party.until([&] { return connection->path()->drained(); }));
        return "";
      });
}

// Both sides sleep at every opportunity, at every possible moment.
TEST_P(PathsInWeather, NobodySleepsThroughAMessage) {
  const int rounds = (weather() == Weather::bare ? 6000 : 600) / kSlower;
  PartySetup setup = setupFor(way(), weather());
  const auto role = [&](bool first) {
    return [&, first](Party& party) -> std::string {
      Connection* out = party.connector->get(party.sending());
      Connection* in = party.connector->get(party.receiving());
      PARTY_CHECK(party.until(
          [&] { return out->state() == Connection::State::ready && in->state() == Connection::State::ready; }));
      Numbers numbers{first ? 1u : 2u};
      std::vector<std::byte> bytes(8);
      for (int k = 0; k < rounds; ++k) {
        party.spins = static_cast<int>(numbers.below(4));
        if (first || k > 0) {
          PARTY_CHECK(party.until([&] { return trySend(out->sendEnd, bytes, 1); }));
        }
        Received received;
        PARTY_CHECK(party.until([&] { return in->receiveEnd.peek(received); }));
        in->receiveEnd.release();
      }
      if (!first) PARTY_CHECK(party.until([&] { return trySend(out->sendEnd, bytes, 1); }));
      in->path()->flush();
      PARTY_CHECK(party.until([&] { return party.connector->drained(); }));
      PARTY_CHECK(party.lostWakeUps == 0);
      PARTY_CHECK(party.sleeps > 0);
      return "";
    };
  };
  // The second party answers what it got, so it sends one later.
  runTwo(setup, forks(way()), role(true), role(false));
}

// A sender sleeps on a full ring and is woken by the release.
TEST_P(Paths, ReleaseWakesASleepingSender) {
  const int rounds = 2000 / kSlower;
  PartySetup setup = setupFor(way());
  setup.ring = {2, 64};
  run(
      setup,
      [&](Party& party) -> std::string {
        CONNECT(connection, party.sending());
        Numbers numbers{3};
        std::vector<std::byte> bytes(64);
        for (int k = 0; k < rounds; ++k) {
          party.spins = static_cast<int>(numbers.below(3));
          PARTY_CHECK(party.until([&] { return trySend(connection->sendEnd, bytes, 1); }));
        }
        PARTY_CHECK(party.until([&] { return connection->path()->drained(); }));
        PARTY_CHECK(party.lostWakeUps == 0);
        return "";
      },
      [&](Party& party) -> std::string {
        CONNECT(connection, party.receiving());
        Numbers numbers{4};
        for (int k = 0; k < rounds; ++k) {
          party.spins = static_cast<int>(numbers.below(3));
          Received received;
          PARTY_CHECK(party.until([&] { return connection->receiveEnd.peek(received); }));
          connection->receiveEnd.release();
        }
        connection->path()->kick();
        connection->path()->flush();
        PARTY_CHECK(party.until([&] { return connection->path()->drained(); }));
        PARTY_CHECK(party.lostWakeUps == 0);
        return "";
      });
}

TEST_P(Paths, CarriesTheEpoch) {
  run(
      setupFor(way()),
      [](Party& party) -> std::string {
        CONNECT(connection, party.sending());
        PARTY_CHECK(trySend(connection->sendEnd, {}, 1));
        connection->sendEnd.epoch = 0xfffe;  // a sender that has not noticed
        PARTY_CHECK(trySend(connection->sendEnd, {}, 1));
        PARTY_CHECK(party.until([&] { return connection->path()->drained(); }));
        return "";
      },
      [](Party& party) -> std::string {
        CONNECT(connection, party.receiving());
        for (uint16_t expected : {1, 0xfffe}) {
          Received received;
          PARTY_CHECK(party.until([&] { return connection->receiveEnd.peek(received); }));
          PARTY_CHECK(received.epoch == expected);
          connection->receiveEnd.release();
        }
        connection->path()->flush();
        return "";
      });
}

TEST_P(Paths, SenderPoisonReachesASleepingReceiver) {
  run(
      setupFor(way()),
      [](Party& party) -> std::string {
        CONNECT(connection, party.sending());
        std::vector<std::byte> bytes(2000, std::byte{5});
        PARTY_CHECK(trySend(connection->sendEnd, bytes, 1));
        connection->path()->kick();
        PARTY_CHECK(party.await());
        party.connector->poison();
        party.connector->poison();
        std::fill(bytes.begin(), bytes.end(), std::byte{6});  // this side's memory is its own again
        party.signal();
        PARTY_CHECK(party.await());
        return "";
      },
      [&](Party& party) -> std::string {
        CONNECT(connection, party.receiving());
        ReceiveEnd& end = connection->receiveEnd;
        Received received;
        PARTY_CHECK(party.until([&] { return end.peek(received); }));
        PARTY_CHECK(!end.poisoned());
        party.signal();
        const TimePoint begun = Clock::system().now();
        PARTY_CHECK(party.until([&] { return end.poisoned(); }));
        PARTY_CHECK(Clock::system().now() - begun < std::chrono::milliseconds(500) * kSlower);
        PARTY_CHECK(party.lostWakeUps == 0);
        PARTY_CHECK(party.await());
        // What was published before is still there, unless it refers to memory that was revoked.
        PARTY_CHECK(end.peek(received));
        if ((received.flags & kSlotReference) != 0) {
          PARTY_CHECK(!end.beginReading());
          end.endReading();
        } else {
          PARTY_CHECK(holds(end, received, std::vector<std::byte>(2000, std::byte{5})));
        }
        PARTY_CHECK(party.brokenRank == -1);  // told in-band: the lanes report it
        party.signal();
        return "";
      });
}

TEST_P(Paths, ReceiverPoisonReachesASleepingSender) {
  run(
      setupFor(way()),
      [](Party& party) -> std::string {
        CONNECT(connection, party.sending());
        std::vector<std::byte> bytes(500);
        while (trySend(connection->sendEnd, bytes, 1)) {}
        connection->path()->kick();
        party.signal();
        PARTY_CHECK(party.until([&] { return connection->sendEnd.poisoned(); }));
        PARTY_CHECK(party.lostWakeUps == 0);
        PARTY_CHECK(party.brokenRank == -1);
        party.signal();
        return "";
      },
      [](Party& party) -> std::string {
        CONNECT(connection, party.receiving());
        PARTY_CHECK(party.await());
        party.connector->poison();
        PARTY_CHECK(party.await());
        return "";
      });
}

// Poison waits for a reader that is in the middle of a reference; only threads read each other's memory.
TEST(ThreadPath, SenderPoisonWaitsForTheReader) {
  std::atomic<bool> reading{false}, stopped{false}, returned{false};
  runTwo(
      setupFor(Way::thread), false,
      [&](Party& party) -> std::string {
        CONNECT(connection, party.sending());
        std::vector<std::byte> bytes(2000, std::byte{5});
        PARTY_CHECK(trySend(connection->sendEnd, bytes, 1));
        connection->path()->kick();
        PARTY_CHECK(party.until([&] { return reading.load(); }));
        party.connector->poison();
        PARTY_CHECK(stopped.load());
        returned = true;
        PARTY_CHECK(party.await());
        return "";
      },
      [&](Party& party) -> std::string {
        CONNECT(connection, party.receiving());
        Received received;
        PARTY_CHECK(party.until([&] { return connection->receiveEnd.peek(received); }));
        PARTY_CHECK(connection->receiveEnd.beginReading());
        reading = true;
        PARTY_CHECK(party.until([&] { return connection->receiveEnd.poisoned(); }));
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
        PARTY_CHECK(!returned.load());
        stopped = true;
        connection->receiveEnd.endReading();
        party.signal();
        return "";
      });
}

TEST_P(Paths, DestructionIsAnEndForThePeer) {
  run(
      setupFor(way()),
      [](Party& party) -> std::string {
        CONNECT(connection, party.sending());
        PARTY_CHECK(trySend(connection->sendEnd, {}, 1));
        connection->path()->kick();
        PARTY_CHECK(party.await());
        party.connector.reset();
        return "";
      },
      [](Party& party) -> std::string {
        CONNECT(connection, party.receiving());
        Received received;
        PARTY_CHECK(party.until([&] { return connection->receiveEnd.peek(received); }));
        party.connector->expectEnd(0);
        party.signal();
        PARTY_CHECK(party.until([&] { return connection->receiveEnd.poisoned(); }));
        PARTY_CHECK(connection->receiveEnd.peek(received));
        PARTY_CHECK(party.brokenRank == -1);  // it said goodbye
        return "";
      });
}

// After so many messages the way ends: all of them arrive, then both sides know.
TEST_P(Paths, ACutIsNoticedByBothSides) {
  PartySetup setup = setupFor(way());
  setup.faulty = true;
  setup.faults.cutAfter = 13;
  run(
      setup,
      [](Party& party) -> std::string {
        CONNECT(connection, party.sending());
        std::vector<std::byte> bytes(100);
        PARTY_CHECK(party.until([&] {
          while (!connection->sendEnd.poisoned() && trySend(connection->sendEnd, bytes, 1)) {}
          return connection->sendEnd.poisoned();
        }));
        PARTY_CHECK(party.brokenRank == 1);
        PARTY_CHECK(connection->state() == Connection::State::failed);
        PARTY_CHECK(connection->failure().message().find("rank 1 (test)") != std::string::npos);
        PARTY_CHECK(party.await());
        return "";
      },
      [&](Party& party) -> std::string {
        CONNECT(connection, party.receiving());
        ReceiveEnd& end = connection->receiveEnd;
        Received received;
        for (int k = 0; k < 13; ++k) {
          PARTY_CHECK(party.until([&] { return end.peek(received); }));
          end.release();
        }
        PARTY_CHECK(party.until([&] { return end.poisoned(); }));
        PARTY_CHECK(!end.peek(received));
        if (isTcp(way())) PARTY_CHECK(party.brokenRank == 0);
        party.signal();
        return "";
      });
}

TEST_P(Paths, AStallDelaysAndLosesNothing) {
  PartySetup setup = setupFor(way(), Weather::stall);
  const TimePoint begun = Clock::system().now();
  run(
      setup,
      [](Party& party) -> std::string {
        CONNECT(connection, party.sending());
        return sendAll(party, *connection, 30);
      },
      [](Party& party) -> std::string {
        CONNECT(connection, party.receiving());
        return receiveAll(party, *connection, 30);
      });
  EXPECT_GE(Clock::system().now() - begun, setup.faults.stallFor);
}

}  // namespace
}  // namespace eccl
