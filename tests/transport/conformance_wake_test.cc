// What every path must do, bare and with things going wrong on the way: waking, failing, ending.
#include "transport/ways.h"

namespace eccl::transport {
namespace {

class PathEvents : public OnEveryWay {};
class PathEventsInWeather : public OnEveryWayInAnyWeather {};
INSTANTIATE_TEST_SUITE_P(All, PathEvents, kWays, nameOfWay);
INSTANTIATE_TEST_SUITE_P(All, PathEventsInWeather, ::testing::Combine(kWays, kWeathers), nameOfBoth);
INSTANTIATE_TEST_SUITE_P(Spread, PathEventsInWeather, kSpread, nameOfBoth);

// Both sides sleep at every opportunity, at every possible moment.
TEST_P(PathEventsInWeather, NobodySleepsThroughAMessage) {
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
        // Long enough for the other side to be asleep for certain.
        if (k % 50 == 25) std::this_thread::sleep_for(std::chrono::milliseconds(5));
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
TEST_P(PathEvents, ReleaseWakesASleepingSender) {
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

TEST_P(PathEvents, SenderPoisonReachesASleepingReceiver) {
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
        const TimePoint begun = System::real().now();
        PARTY_CHECK(party.until([&] { return end.poisoned(); }));
        PARTY_CHECK(System::real().now() - begun < std::chrono::milliseconds(500) * kSlower);
        PARTY_CHECK(party.lostWakeUps == 0);
        PARTY_CHECK(party.await());
        // What was published before is still there, unless it refers to memory that was revoked.
        PARTY_CHECK(end.peek(received));
        if ((received.flags & kSlotGet) != 0) {
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

TEST_P(PathEvents, ReceiverPoisonReachesASleepingSender) {
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
      setupFor(wayBy("thread")), false,
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

// The other way round, a sender is not cut off in the middle of writing to offered memory. A process gets less
// time than a thread: it may have died there.
TEST(SharedMemoryPath, ReceiverPoisonWaitsForTheWriter) {
  runTwo(
      setupFor(wayBy("shm")), true,
      [&](Party& party) -> std::string {
        CONNECT(connection, party.sending());
        SendEnd& end = connection->sendEnd;
        PARTY_CHECK(party.await());
        std::byte* place = end.offered(2000);
        PARTY_CHECK(place != nullptr && end.beginWriting());
        std::memset(place, 1, 1000);
        party.signal();
        PARTY_CHECK(party.until([&] { return end.poisoned(); }));
        std::this_thread::sleep_for(std::chrono::milliseconds(30));
        std::memset(place + 1000, 2, 1000);
        end.endWriting();
        PARTY_CHECK(!end.beginWriting());
        PARTY_CHECK(party.await());
        return "";
      },
      [&](Party& party) -> std::string {
        CONNECT(connection, party.receiving());
        HeapMemory memory(2000, std::byte{0});
        connection->receiveEnd.offer(connection->receiveEnd.next, memory.data(), 2000);
        party.signal();
        PARTY_CHECK(party.await());
        party.connector->poison();
        PARTY_CHECK(memory.data()[1999] == std::byte{2});
        party.signal();
        return "";
      });
}

TEST_P(PathEvents, DestructionIsAnEndForThePeer) {
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
        PARTY_CHECK(party.brokenRank == -1);  // it disconnected in order
        return "";
      });
}

// After so many messages the way ends: all of them arrive, then both sides know.
TEST_P(PathEvents, ACutIsNoticedByBothSides) {
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
        if (!connection->path()->inMemory()) PARTY_CHECK(party.brokenRank == 0);
        party.signal();
        return "";
      });
}

}  // namespace
}  // namespace eccl::transport
