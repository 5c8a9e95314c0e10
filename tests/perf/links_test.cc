#include "common/links.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>

namespace eccl::perf {
namespace {

ecclConnectionInfo_t connection(const char* path, int peer, int sends, uint64_t bytes) {
  ecclConnectionInfo_t info{};
  info.peer = peer;
  info.sends = sends;
  info.socket = -1;
  info.bytes = bytes;
  std::snprintf(info.path, sizeof info.path, "%s", path);
  return info;
}

ecclConnectionInfo_t socket(const char* interface, int peer, int sends, uint64_t sent, uint64_t received,
                            uint64_t rate) {
  ecclConnectionInfo_t info = connection("tcp", peer, sends, 1 << 30);
  info.socket = 0;
  info.sent = sent;
  info.received = received;
  info.rate = rate;
  info.retransmits = sent / 100;
  info.rtt = sent / 10;
  std::snprintf(info.interface, sizeof info.interface, "%s", interface);
  return info;
}

ecclConnectionInfo_t unusedRail(const char* interface) {
  ecclConnectionInfo_t info = socket(interface, -1, 0, 0, 0, 0);
  info.path[0] = '\0';
  info.socket = -1;
  return info;
}

TEST(Links, AddsUpByInterfaceAndByPath) {
  LinkRecord links[kMostLinks];
  constexpr uint64_t kMuch = kMuchSent, kLittle = kMuchSent - 1;
  sumLinks(
      {socket("eth0", 1, 1, kMuch, 10, 500), connection("shm", 2, 1, 70), socket("eth1", 1, 1, kLittle, 3, 7),
       socket("eth0", 3, 0, 20, 2000, 7), socket("eth0", 4, 1, kMuch, 5, 90), connection("shm", 2, 0, 30),
       unusedRail("eth2"), connection("", 5, 1, 0)},
      6, "node0", links);
  EXPECT_STREQ(links[0].name, "eth0");
  EXPECT_STREQ(links[0].host, "node0");
  EXPECT_EQ(links[0].rank, 6);
  EXPECT_EQ(links[0].connections, 3);
  EXPECT_EQ(links[0].sent, 2 * kMuch + 20);
  EXPECT_EQ(links[0].received, 2015u);
  EXPECT_EQ(links[0].retransmits, 20'000u);
  EXPECT_EQ(links[0].roundTripMicroseconds, 100'000u);
  EXPECT_EQ(links[0].slowestRate, 90u);  // not that of credits
  EXPECT_EQ(links[0].slowestPeer, 4);
  EXPECT_STREQ(links[1].name, "shm");
  EXPECT_EQ(links[1].sent, 70u);
  EXPECT_EQ(links[1].received, 30u);
  EXPECT_EQ(links[1].connections, 2);
  EXPECT_STREQ(links[2].name, "eth1");
  EXPECT_EQ(links[2].slowestRate, 0u);  // it says nothing about the link
  EXPECT_STREQ(links[3].name, "eth2");
  EXPECT_EQ(links[3].connections, 0);
  EXPECT_STREQ(links[4].name, "unfinished");
  EXPECT_STREQ(links[5].name, "");
}

// It has no sockets: its bytes are those of its messages.
TEST(Links, OfRdmaArePorts) {
  ecclConnectionInfo_t out = connection("verbs", 1, 1, 700), in = connection("verbs", 1, 0, 300);
  for (ecclConnectionInfo_t* each : {&out, &in})
    std::snprintf(each->interface, sizeof each->interface, "mlx5_0:1");
  LinkRecord links[kMostLinks];
  sumLinks({out, in, connection("shm", 2, 1, 9)}, 0, "node0", links);
  EXPECT_STREQ(links[0].name, "mlx5_0:1");
  EXPECT_EQ(links[0].connections, 2);
  EXPECT_EQ(links[0].sent, 700u);
  EXPECT_EQ(links[0].received, 300u);
  EXPECT_STREQ(links[1].name, "shm");
}

TEST(Links, CountsWhatClosedSocketsHaveCarriedNotThem) {
  ecclConnectionInfo_t closed = socket("eth0", 1, 1, 100, 10, 0), open = socket("eth0", 1, 1, 50, 5, 0);
  std::snprintf(closed.local, sizeof closed.local, "10.0.0.1:0");
  std::snprintf(open.local, sizeof open.local, "10.0.0.1:4000");
  LinkRecord links[kMostLinks];
  sumLinks({open, closed}, 0, "node0", links);
  EXPECT_EQ(links[0].connections, 1);
  EXPECT_EQ(links[0].sent, 150u);
}

TEST(Links, SaysHowManyHaveNoRoom) {
  std::vector<ecclConnectionInfo_t> infos;
  for (int i = 0; i < kMostLinks + 2; ++i)
    infos.push_back(socket(formatted("eth%d", i).c_str(), 1, 1, 1, 1, 0));
  LinkRecord links[kMostLinks];
  sumLinks(infos, 0, "node0", links);
  EXPECT_STREQ(links[kMostLinks - 1].name, formatted("eth%d", kMostLinks - 1).c_str());
  EXPECT_EQ(links[kMostLinks - 1].more, 2);
}

}  // namespace
}  // namespace eccl::perf
