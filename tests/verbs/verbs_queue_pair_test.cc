// What a queue pair is told by settings, and what is said of it outside.
#include "transport/core/connection_report.h"
#include "verbs/verbs_party.h"

namespace eccl::transport::verbs {
namespace {

using ::testing::MatchesRegex;
using ::testing::SizeIs;

class VerbsQueuePairs : public OnEmulation {
 protected:
  /// Makes a connection and calls `look` for its sender, and then for its receiver, while both are there.
  static void connected(const PartySetup& with, const std::function<void(Connection& connection)>& look) {
    runTwo(
        with, false,
        [&](Party& party) -> std::string {
          CONNECT_BY_VERBS(connection, party.sending());
          PARTY_CHECK(party.await());
          look(*connection);
          party.signal();
          PARTY_CHECK(party.await());
          return "";
        },
        [&](Party& party) -> std::string {
          CONNECT_BY_VERBS(connection, party.receiving());
          party.signal();
          PARTY_CHECK(party.await());
          look(*connection);
          party.signal();
          return "";
        });
  }
  /// What all queue pairs were told.
  static std::vector<ibv_qp_attr> attributes() {
    uint32_t numbers[16];
    const int count = std::min(verbsEmulationQueuePairs(numbers, 16), 16);
    std::vector<ibv_qp_attr> all(static_cast<size_t>(count));
    for (int i = 0; i < count; ++i)
      EXPECT_EQ(verbsEmulationQueuePairAttributes(numbers[i], &all[static_cast<size_t>(i)]), 0);
    return all;
  }
};

TEST_F(VerbsQueuePairs, AreToldWhatSettingsSay) {
  ASSERT_EQ(verbsEmulationSetMtu(0, 1, IBV_MTU_512), 0);
  PartySetup with = setup();
  with.settings = {{"IB_SL", "3"},        {"IB_TC", "106"},      {"IB_TIMEOUT", "14"},
                   {"IB_RETRY_CNT", "5"}, {"IB_GID_INDEX", "1"}, {"IB_QPS_PER_CONNECTION", "2"}};
  connected(with, [](Connection&) {
    const std::vector<ibv_qp_attr> all = attributes();
    EXPECT_THAT(all, SizeIs(4));
    for (const ibv_qp_attr& each : all) {
      EXPECT_EQ(each.qp_state, IBV_QPS_RTS);
      EXPECT_EQ(each.ah_attr.sl, 3);
      EXPECT_EQ(each.ah_attr.grh.traffic_class, 106);
      EXPECT_EQ(each.timeout, 14);
      EXPECT_EQ(each.retry_cnt, 5);
      EXPECT_EQ(each.ah_attr.grh.sgid_index, 1);
      EXPECT_EQ(each.path_mtu, IBV_MTU_512);
      EXPECT_EQ(each.pkey_index, 0);
    }
  });
}

TEST_F(VerbsQueuePairs, ArePatientByDefault) {
  connected(setup(), [](Connection&) {
    const std::vector<ibv_qp_attr> all = attributes();
    EXPECT_THAT(all, SizeIs(2));
    for (const ibv_qp_attr& each : all) {
      EXPECT_EQ(each.ah_attr.sl, 0);
      EXPECT_EQ(each.ah_attr.grh.traffic_class, 0);
      EXPECT_EQ(each.timeout, 18);
      EXPECT_EQ(each.retry_cnt, 7);
    }
  });
}

TEST_F(VerbsQueuePairs, OnlyTheReceiversIsWritable) {
  connected(setup(), [](Connection&) {
    int writable = 0;
    for (const ibv_qp_attr& each : attributes())
      writable += (each.qp_access_flags & IBV_ACCESS_REMOTE_WRITE) != 0;
    EXPECT_EQ(writable, 1);
  });
}

TEST_F(VerbsQueuePairs, AreNamedInReports) {
  std::vector<LinkReport> ends;
  connected(setup(), [&](Connection& connection) { ends.push_back(reportOf(connection).link); });
  ASSERT_THAT(ends, SizeIs(2));
  for (const LinkReport& each : ends) {
    EXPECT_EQ(each.device, "emu0:1");
    EXPECT_THAT(each.local, MatchesRegex("127\\.0\\.0\\.1:[0-9]+"));
  }
  EXPECT_NE(ends[0].local, ends[1].local);
  EXPECT_EQ(ends[0].local, ends[1].remote);
  EXPECT_EQ(ends[1].local, ends[0].remote);
}

TEST_F(VerbsQueuePairs, OfIpv6AreNamedAsSocketsAre) {
  PartySetup with = setup();
  with.settings = {{"IB_GID_INDEX", "1"}};
  connected(with, [](Connection& connection) {
    EXPECT_THAT(connection.path()->link().remote, MatchesRegex("\\[fe80::[0-9a-f:]*\\]:[0-9]+"));
  });
}

TEST_F(VerbsQueuePairs, OnInfiniBandAreNamedByLid) {
  verbsEmulationRemoveAllDevices();
  const int device = verbsEmulationAddDevice("ib0");
  ASSERT_EQ(verbsEmulationAddPort(device, IBV_LINK_LAYER_INFINIBAND, 5), 1);
  ibv_gid gid{};
  gid.raw[0] = 0xfe;
  gid.raw[1] = 0x80;
  ASSERT_EQ(verbsEmulationSetGid(device, 1, 0, &gid, IBV_GID_TYPE_IB), 0);
  connected(setup(), [](Connection& connection) {
    const LinkReport link = connection.path()->link();
    EXPECT_EQ(link.device, "ib0:1");
    EXPECT_THAT(link.local, MatchesRegex("lid-5:[0-9]+"));
    EXPECT_THAT(link.remote, MatchesRegex("lid-5:[0-9]+"));
  });
}

}  // namespace
}  // namespace eccl::transport::verbs
