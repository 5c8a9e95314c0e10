// What every path must do, bare and with things going wrong on the way: messages.
#include "transport/ways.h"

namespace eccl::transport {
namespace {

class Paths : public OnEveryWay {};
class PathsInWeather : public OnEveryWayInAnyWeather {};
INSTANTIATE_TEST_SUITE_P(All, Paths, kWays, nameOfWay);
INSTANTIATE_TEST_SUITE_P(All, PathsInWeather, ::testing::Combine(kWays, kWeathers), nameOfBoth);
INSTANTIATE_TEST_SUITE_P(Spread, PathsInWeather, kSpread, nameOfBoth);

TEST_P(PathsInWeather, DeliversInOrderWhatWasSent) {
  const uint64_t count = 400;
  runTwo(
      setupFor(way(), weather()), forks(way()),
      [&](Party& party) -> std::string {
        CONNECT(connection, party.sending());
        PARTY_CHECK(connection->path()->name() == pathOf(way()));
        return sendAll(party, *connection, count);
      },
      [&](Party& party) -> std::string {
        CONNECT(connection, party.receiving());
        PARTY_CHECK(connection->path()->name() == pathOf(way()));
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

// A caller that spins looks at the connections of its call, and at nothing else.
TEST_P(Paths, PollFindsWhatHasCome) {
  constexpr uint64_t kCount = 100;
  runTwo(
      setupFor(way(), Weather::bare), forks(way()),
      [&](Party& party) -> std::string {
        CONNECT(connection, party.sending());
        return sendAll(party, *connection, kCount);
      },
      [&](Party& party) -> std::string {
        CONNECT(connection, party.receiving());
        ReceiveEnd& end = connection->receiveEnd;
        Path& path = *connection->path();
        if (!path.polls() && !path.inMemory())
          return receiveAll(party, *connection, kCount);  // nobody spins there
        Received received;
        // By the first message both sides know of each other.
        PARTY_CHECK(party.until([&] { return end.peek(received); }));
        const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20) * kSlower;
        for (uint64_t k = 0; k < kCount; ++k) {
          while (!end.peek(received)) {
            PARTY_CHECK(std::chrono::steady_clock::now() < limit);
            path.poll();
            std::this_thread::yield();
          }
          PARTY_CHECK(holds(end, received, content(k, end.shape.slotBytes)));
          end.release();
          path.kick();
          path.settle();
        }
        path.flush();
        PARTY_CHECK(party.until([&] { return party.connector->drained(); }));
        return "";
      });
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
/// `length`: of the messages, for a ring with slots of so many bytes.
void fillRing(PartySetup setup, bool fork, uint32_t (*length)(const RingShape&)) {
  setup.faults.stallFor = {};
  std::vector<std::byte> bytes;  // may be sent from here for as long as the path lives
  runTwo(
      setup, fork,
      [&](Party& party) -> std::string {
        CONNECT(connection, party.sending());
        SendEnd& end = connection->sendEnd;
        bytes.assign(length(end.shape), std::byte{7});
        const auto size = static_cast<uint32_t>(bytes.size());
        const bool few = size > end.shape.shortBytes && end.shape.longOnes > 0;
        const uint32_t most = few ? end.shape.longOnes : end.shape.slots;
        for (uint32_t i = 0; i < most; ++i) PARTY_CHECK(trySend(end, bytes, 1));
        PARTY_CHECK(!trySend(end, bytes, 1));
        PARTY_CHECK(party.await());  // the receiver has seen the first
        PARTY_CHECK(!party.until([&] { return end.reserve(size) != nullptr; }, std::chrono::milliseconds(30)));
        PARTY_CHECK(!connection->path()->drained());
        party.signal();
        PARTY_CHECK(party.until([&] { return end.reserve(size) != nullptr; }));
        PARTY_CHECK(end.next - end.releasedSeen == most - 1);
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

TEST_P(PathsInWeather, FullRingHoldsTheSenderBack) {
  fillRing(setupFor(way(), weather()), forks(way()), [](const RingShape& shape) { return shape.slotBytes; });
}

TEST_P(PathsInWeather, FullRingOfShortMessagesHoldsTheSenderBack) {
  fillRing(setupFor(way(), weather()), forks(way()), [](const RingShape&) { return 8u; });
}

// Whatever a reference names stays in use until released, although all its bytes may have been sent long ago.
TEST_P(Paths, ReferencesCompleteWithTheirRelease) {
  PartySetup setup = setupFor(way());
  setup.first = ~uint64_t{0};  // the number that marks "no reference yet" in a naive end
  run(
      setup,
      [&](Party& party) -> std::string {
        CONNECT(connection, party.sending());
        SendEnd& end = connection->sendEnd;
        PARTY_CHECK(end.getsReleased());
        RegisteredMemory memory(party, setup.directFrom, std::byte{42});
        PARTY_CHECK(trySend(end, memory.bytes(), 1));
        PARTY_CHECK(party.await());  // it was seen, not released
        PARTY_CHECK(!party.until([&] { return end.getsReleased(); }, std::chrono::milliseconds(30)));
        party.signal();
        PARTY_CHECK(party.until([&] { return end.getsReleased(); }));
        std::vector<std::byte> small(setup.directFrom - 1, std::byte{43});
        PARTY_CHECK(trySend(end, small, 1));
        PARTY_CHECK(end.getsReleased());
        PARTY_CHECK(party.await());
        return "";
      },
      [&](Party& party) -> std::string {
        CONNECT(connection, party.receiving());
        ReceiveEnd& end = connection->receiveEnd;
        Received received;
        PARTY_CHECK(party.until([&] { return end.peek(received); }));
        PARTY_CHECK(((received.flags & kSlotGet) != 0) == connection->path()->inMemory());
        PARTY_CHECK(holds(end, received, std::vector<std::byte>(setup.directFrom, std::byte{42})));
        party.signal();
        PARTY_CHECK(party.await());
        end.release();
        connection->path()->kick();
        connection->path()->flush();
        PARTY_CHECK(party.until([&] { return end.peek(received); }));
        PARTY_CHECK((received.flags & kSlotGet) == 0);
        party.signal();
        return "";
      });
}

// An offer may be used for a message of exactly its length; others arrive in their slots. A path that can make
// a reference does, and a decorated one shows the lane no offers.
TEST_P(PathsInWeather, OffersPlaceMessages) {
  PartySetup setup = setupFor(way(), weather());
  setup.directFrom = 100;
  runTwo(
      setup, forks(way()),
      [&](Party& party) -> std::string {
        CONNECT(connection, party.sending());
        std::vector<std::byte> bytes[30];
        for (uint8_t k = 0; k < 30; ++k) {
          PARTY_CHECK(party.await());
          bytes[k].assign(200, std::byte{k});
          PARTY_CHECK(trySend(connection->sendEnd, bytes[k], k));
          connection->path()->kick();
        }
        PARTY_CHECK(party.until([&] { return connection->path()->drained(); }));
        return "";
      },
      [&](Party& party) -> std::string {
        CONNECT(connection, party.receiving());
        ReceiveEnd& end = connection->receiveEnd;
        const bool referring = way().transport->reach == Reach::process;
        const bool placing = !connection->path()->inMemory() || (!referring && !setup.faulty);
        for (uint8_t k = 0; k < 30; ++k) {
          RegisteredMemory memory(party, 201, std::byte{0xee});
          const bool fits = k % 3 != 0;
          end.offer(end.next, memory.data(), fits ? 200 : 201);
          party.signal();
          Received received;
          PARTY_CHECK(party.until([&] { return end.peek(received); }));
          PARTY_CHECK(((received.flags & kSlotPut) != 0) == (fits && placing));
          PARTY_CHECK(holds(end, received, std::vector<std::byte>(200, std::byte{k}), memory.data()));
          PARTY_CHECK(memory.data()[200] == std::byte{0xee});
          if ((received.flags & kSlotPut) == 0) PARTY_CHECK(memory.data()[0] == std::byte{0xee});
          end.release();
          connection->path()->kick();
        }
        connection->path()->flush();
        PARTY_CHECK(party.until([&] { return connection->path()->drained(); }));
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

// Where both sides look at one ring, the receiver chooses: what the sender sees of that is where it begins.
TEST_P(Paths, ReceiversInMemoryChooseTheWays) {
  run(
      setupFor(way()),
      [](Party& party) -> std::string {
        CONNECT(connection, party.sending());
        const SendEnd& end = connection->sendEnd;
        PARTY_CHECK(end.weighed == connection->path()->inMemory());
        PARTY_CHECK(end.mayStream == end.weighed);
        const auto reads = [&](uint32_t length) {
          return end.control->wants(MessageKind::shown, &WantedWays::read, sizeClassOf(length));
        };
        PARTY_CHECK(reads(kStreamFrom) == end.weighed && reads(kWriteFrom - 1) == end.weighed);
        PARTY_CHECK(!reads(kWriteFrom));
        return sendAll(party, *connection, 1);
      },
      [](Party& party) -> std::string {
        CONNECT(connection, party.receiving());
        const ReceiveEnd& end = connection->receiveEnd;
        PARTY_CHECK((end.choices != nullptr) == connection->path()->inMemory());
        PARTY_CHECK(end.claiming == connection->path()->inMemory());
        return receiveAll(party, *connection, 1);
      });
}

TEST_P(Paths, AStallDelaysAndLosesNothing) {
  PartySetup setup = setupFor(way(), Weather::stall);
  const TimePoint begun = System::real().now();
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
  EXPECT_GE(System::real().now() - begun, setup.faults.stallFor);
}

}  // namespace
}  // namespace eccl::transport
