// What is said of a connection and its sockets.
#include "transport/core/connection_report.h"

#include <gmock/gmock.h>

#include "support/tcp_info_system.h"
#include "transport/roles.h"
#include "transport/wire.h"

namespace eccl::transport {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::SizeIs;

constexpr int kMessages = 20;

uint64_t bytesOf(const PartySetup& setup, int messages) {
  uint64_t bytes = 0;
  for (int k = 0; k < messages; ++k) bytes += content(static_cast<uint64_t>(k), setup.ring.slotBytes).size();
  return bytes;
}

/// What both ends say when kMessages messages have passed.
struct BothEnds {
  ConnectionReport sender, receiver;
};
BothEnds reportsOf(const PartySetup& setup, bool fork = false) {
  BothEnds ends;
  const Role zero = [&](Party& party) -> std::string {
    Connection* connection = party.connect(party.sending());
    PARTY_CHECK(connection->state() == State::ready);
    if (std::string failed = sendAll(party, *connection, kMessages); !failed.empty()) return failed;
    PARTY_CHECK(party.until([&] { return connection->path()->drained(); }));
    ends.sender = reportOf(*connection);
    party.signal();
    PARTY_CHECK(party.await());
    return "";
  };
  const Role one = [&](Party& party) -> std::string {
    Connection* connection = party.connect(party.receiving());
    PARTY_CHECK(connection->state() == State::ready);
    if (std::string failed = receiveAll(party, *connection, kMessages); !failed.empty()) return failed;
    PARTY_CHECK(party.await());
    ends.receiver = reportOf(*connection);
    party.signal();
    return "";
  };
  runTwo(setup, fork, zero, one);
  return ends;
}

class EveryPathReports : public ::testing::TestWithParam<const char*> {};

TEST_P(EveryPathReports, MessagesAndTheirBytes) {
  const std::string path = GetParam();
  PartySetup setup = allowing(path == "thread", path == "shm", path == "tcp");
  setup.first = ~0ull - 5;  // the numbers of messages wrap
  const BothEnds ends = reportsOf(setup);
  for (const ConnectionReport* each : {&ends.sender, &ends.receiver}) {
    EXPECT_EQ(each->path, path);
    EXPECT_EQ(each->state, State::ready);
    EXPECT_EQ(each->failure, "");
    EXPECT_EQ(each->messages, static_cast<uint64_t>(kMessages));
    EXPECT_EQ(each->bytes, bytesOf(setup, kMessages));
    EXPECT_THAT(each->sockets, SizeIs(path == "tcp" ? 1 : 0));
  }
  EXPECT_TRUE(ends.sender.sends);
  EXPECT_EQ(ends.sender.peer, 1);
  EXPECT_FALSE(ends.receiver.sends);
  EXPECT_EQ(ends.receiver.peer, 0);
}

INSTANTIATE_TEST_SUITE_P(Paths, EveryPathReports, ::testing::Values("thread", "shm", "tcp"));

TEST(ConnectionReport, TheTwoEndsOfASocketAgree) {
  const PartySetup setup = allowing(false, false, true);
  const BothEnds ends = reportsOf(setup);
  ASSERT_THAT(ends.sender.sockets, SizeIs(1));
  ASSERT_THAT(ends.receiver.sockets, SizeIs(1));
  const SocketReport &from = ends.sender.sockets[0], &to = ends.receiver.sockets[0];
  EXPECT_TRUE(from.known);
  EXPECT_EQ(from.ends.local, to.ends.remote);
  EXPECT_EQ(from.ends.remote, to.ends.local);
  // All of it has been taken, so all has been acknowledged, but for a delayed acknowledgement; one for the SYN.
  EXPECT_GE(to.receivedBytes, bytesOf(setup, kMessages) + kMessages * sizeof(MessageFrame));
  EXPECT_LE(from.sentBytes, to.receivedBytes + 1);
  EXPECT_EQ(from.sentBytes + from.waitingBytes, to.receivedBytes + (from.sentBytes > to.receivedBytes));
  EXPECT_GT(from.roundTripMicroseconds, 0u);
  EXPECT_EQ(from.retransmitted, 0u);
}

/// Says of each socket how many bytes it has retransmitted: a hundred for the first that asks, and so on.
struct LossySystem : test::TcpInfoSystem {
  tcp_info tell() override {
    tcp_info info{};
    info.tcpi_bytes_acked = 1000;
    info.tcpi_bytes_sent = 1350;
    info.tcpi_bytes_retrans = 100;
    info.tcpi_notsent_bytes = 7;
    info.tcpi_unacked = 1;
    info.tcpi_snd_mss = asked % 2 == 0 ? 1448 : 100;
    info.tcpi_total_retrans = static_cast<uint32_t>(++asked);
    info.tcpi_busy_time = asked % 2 == 0 ? 200 : 0;  // us
    info.tcpi_rtt = 250;
    return info;
  }
  int asked = 0;
};

TEST(ConnectionReport, SaysWhatTheKernelSays) {
  LossySystem system;
  Sending wire(SIZE_MAX, 0, system, 2);
  system.asked = 0;
  const std::vector<SocketReport> sockets = wire.path->sockets();
  ASSERT_THAT(sockets, SizeIs(2));
  EXPECT_EQ(sockets[0].sentBytes, 1000u);
  EXPECT_EQ(sockets[0].waitingBytes, 257u);
  EXPECT_EQ(sockets[1].waitingBytes, 107u);
  EXPECT_EQ(sockets[0].retransmitted, 1u);
  EXPECT_EQ(sockets[0].retransmittedBytes, 100u);
  EXPECT_EQ(sockets[0].roundTripMicroseconds, 250u);
  EXPECT_EQ(sockets[0].bytesPerSecond(), 0u);  // nothing has been sent
  EXPECT_EQ(sockets[1].bytesPerSecond(), 5'000'000u);
  EXPECT_EQ(sockets[1].retransmitted, 2u);
}

TEST(ConnectionReport, ABrokenPathIsReportedAsItWas) {
  LossySystem system;
  Sending wire(SIZE_MAX, 0, system, 2);
  system.asked = 0;
  wire.peers[0].reset();
  while (wire.reactor.poll(Duration::zero())) {}
  ASSERT_EQ(wire.breaks, 1);
  const int asked = system.asked;
  EXPECT_THAT(wire.path->sockets(), ElementsAre(Field(&SocketReport::retransmitted, asked - 1),
                                                Field(&SocketReport::retransmitted, asked)));
  EXPECT_EQ(system.asked, asked);  // nothing can be asked any more
}

TEST(ConnectionReport, AnUnfinishedConnectionHasCarriedNothing) {
  const ConnectionReport report = reportOf(Connection({3, 4, 1, 2}, 4));
  EXPECT_EQ(report.state, State::connecting);
  EXPECT_EQ(report.path, "");
  EXPECT_EQ(report.messages + report.bytes, 0u);
  EXPECT_EQ(report.peer, 3);
}

SocketAddress at(const char* text) {
  return SocketAddress::resolve(text).take().front();
}

ConnectionReport over(std::vector<std::pair<const char*, uint64_t>> sockets) {
  ConnectionReport report;
  for (const auto& [local, sent] : sockets) {
    SocketReport socket;
    socket.ends.local = at(local);
    socket.sentBytes = sent;
    socket.receivedBytes = 2 * sent;
    socket.retransmitted = sent / 10;
    socket.retransmittedBytes = sent / 5;
    socket.roundTripMicroseconds = static_cast<uint32_t>(sent);
    report.sockets.push_back(socket);
  }
  return report;
}

TEST(RailReport, AddsUpWhatSocketsCarriedByInterface) {
  const std::vector<Rail> rails = {
      {"eth0", at("192.0.2.1:1"), 0}, {"eth1", at("198.51.100.1:1"), 0}, {"eth2", at("203.0.113.1:1"), 0}};
  std::vector<ConnectionReport> connections = {over({{"192.0.2.1:40", 100}, {"198.51.100.1:41", 50}}),
                                               over({{"192.0.2.1:42", 30}, {"127.0.0.1:43", 10}}), over({})};
  nameInterfaces(connections, rails, System::real());
  EXPECT_EQ(connections[0].sockets[1].interface, "eth1");
  EXPECT_EQ(connections[1].sockets[1].interface, "lo");
  const std::vector<RailReport> sums = sumByRail(connections, rails);
  ASSERT_THAT(sums, SizeIs(4));
  EXPECT_THAT(sums[0], AllOf(Field(&RailReport::interface, "eth0"), Field(&RailReport::sockets, 2),
                             Field(&RailReport::sentBytes, 130), Field(&RailReport::receivedBytes, 260),
                             Field(&RailReport::retransmitted, 13), Field(&RailReport::retransmittedBytes, 26),
                             Field(&RailReport::roundTripMicroseconds, 100)));
  EXPECT_THAT(sums[1], AllOf(Field(&RailReport::interface, "eth1"), Field(&RailReport::sentBytes, 50)));
  EXPECT_THAT(sums[2], AllOf(Field(&RailReport::interface, "eth2"), Field(&RailReport::sockets, 0)));
  EXPECT_THAT(sums[3], AllOf(Field(&RailReport::interface, "lo"), Field(&RailReport::sentBytes, 10)));
}

}  // namespace
}  // namespace eccl::transport
