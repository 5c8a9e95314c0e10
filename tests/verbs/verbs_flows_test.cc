// By which ways through the network queue pairs go, where their UDP ports can be chosen.
#include "support/loopback_routers.h"
#include "verbs/verbs_party.h"

namespace eccl::transport::verbs {
namespace {

using ::testing::Each;
using ::testing::Ge;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class VerbsFlows : public OnEmulation {
 protected:
  /// Two ways, by whether the port is even, behind a router that all pass.
  VerbsFlows()
      : routers([](uint16_t port) {
          return std::vector<std::string>{"10.0.0.1", port % 2 != 0 ? "10.1.0.1" : "10.1.0.2", "10.2.0.1"};
        }) {
    verbsEmulationChangesUdpPorts(0, 1);
    with = setup();
    with.system = &routers;
    with.placesFlows = true;
    with.ring = {8, 64 << 10};
    with.settings = {{"IB_QPS_PER_CONNECTION", "4"}};
  }

  /// Sends messages of `bytes` until `done`, or `limit` has passed, from rank 0.
  void send(uint32_t bytes, const std::function<bool()>& done, Duration limit) {
    const std::vector<std::byte> message(bytes, std::byte{5});
    runTwo(
        with, false,
        [&](Party& party) -> std::string {
          CONNECT_BY_VERBS(connection, party.sending());
          const TimePoint end = System::real().now() + limit;
          for (bool last = false; !last;) {
            last = done() || System::real().now() > end;
            PARTY_CHECK(party.until([&] { return trySend(connection->sendEnd, message, 1, last); }));
          }
          PARTY_CHECK(party.await());
          return "";
        },
        [&](Party& party) -> std::string {
          CONNECT_BY_VERBS(connection, party.receiving());
          ReceiveEnd& end = connection->receiveEnd;
          for (bool last = false; !last;) {
            Received received;
            PARTY_CHECK(party.until([&] { return end.peek(received); }));
            PARTY_CHECK(holds(end, received, message));
            last = (received.flags & kSlotLast) != 0;
            end.release();
          }
          party.signal();
          return "";
        });
  }
  /// The ports of the pairs that have one.
  static std::vector<int> ports() {
    uint32_t numbers[16];
    const int count = std::min(verbsEmulationQueuePairs(numbers, 16), 16);
    std::vector<int> all;
    for (int i = 0; i < count; ++i)
      if (const int port = verbsEmulationUdpPort(numbers[i]); port != 0) all.push_back(port);
    return all;
  }
  static bool areSpread() {
    const std::vector<int> all = ports();
    return std::count_if(all.begin(), all.end(), [](int port) { return port % 2 != 0; }) == 2;
  }

  /// Messages go, and that is all, though a connection by TCP would have two sockets.
  void expectNothingMoves() {
    with.socketsPerRail = 2;
    std::vector<int> seen;
    int sockets = 0;  // when the connection was made
    const auto done = [&] {
      if (sockets == 0) sockets = routers.sockets;
      return !(seen = ports()).empty();
    };
    send(40'000, done, std::chrono::milliseconds(200));
    EXPECT_THAT(seen, IsEmpty());
    EXPECT_THAT(routers.datagrams, IsEmpty());
    EXPECT_GT(sockets, 0);
    EXPECT_EQ(routers.sockets, sockets) << "further sockets are of no use";
  }

  test::LoopbackRouters routers;
  PartySetup with;
};

/// Of four flows eight ports each, for two and for three hops, but for some that two flows may have by chance.
constexpr int kTraced = 4 * 8 * 2 - 8;

// By chance six in sixteen are, so they are looked at a while after all have been traced and answered.
TEST_F(VerbsFlows, AreSpreadOverTheWaysThatThereAre) {
  bool spread = false;
  TimePoint traced = TimePoint::max();
  const auto done = [&] {
    const TimePoint now = System::real().now();
    if (routers.answered >= kTraced) traced = std::min(traced, now);
    return now > traced && now - traced > std::chrono::milliseconds(200) && (spread = areSpread());
  };
  send(40'000, done, std::chrono::seconds(20) * kSlower);
  EXPECT_TRUE(spread);
  for (const auto& [port, hops] : routers.datagrams) {
    EXPECT_GE(port, 0xc000);
    EXPECT_LE(hops, 3u) << "it arrives";
  }
}

TEST_F(VerbsFlows, OnlyTheSendersAre) {
  std::vector<int> seen;
  send(
      40'000, [&] { return (seen = ports()).size() > 4; }, std::chrono::milliseconds(300));
  EXPECT_THAT(seen, SizeIs(4));
  EXPECT_THAT(seen, Each(Ge(0xc000)));
}

TEST_F(VerbsFlows, ShortMessagesAreNotWorthIt) {
  send(
      20'000, [] { return false; }, std::chrono::milliseconds(200));
  EXPECT_THAT(routers.datagrams, IsEmpty());
}

TEST_F(VerbsFlows, OtherDevicesChooseThemselves) {
  verbsEmulationChangesUdpPorts(0, 0);
  expectNothingMoves();
}

// The driver has the call and the device does not do it.
TEST_F(VerbsFlows, ADeviceThatRefusesLosesNothing) {
  ASSERT_EQ(verbsEmulationFailCall("mlx5dv_modify_qp_udp_sport", 1, EOPNOTSUPP), 0);
  expectNothingMoves();
}

// Nothing of it is asked for, or possible: what is link-local no router passes on.
TEST_F(VerbsFlows, NotWhereTheyCannotBePlaced) {
  with.placesFlows = false;
  send(
      40'000, [] { return false; }, std::chrono::milliseconds(200));
  with.placesFlows = true;
  with.settings["IB_GID_INDEX"] = "1";  // link-local
  send(
      40'000, [] { return false; }, std::chrono::milliseconds(200));
  EXPECT_THAT(routers.datagrams, IsEmpty());
}

}  // namespace
}  // namespace eccl::transport::verbs
