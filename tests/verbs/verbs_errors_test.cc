// What goes wrong with devices, ports and requests becomes a sentence that names them.
#include <arpa/inet.h>
#include <sys/resource.h>

#include "transport/connect/rank_transports.h"
#include "transport/verbs/adapter.h"
#include "transport/verbs/verbs_devices.h"
#include "verbs/verbs_party.h"
#include "verbs/verbs_wire.h"

namespace eccl::transport::verbs {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class VerbsErrors : public OnEmulation {
 protected:
  /// Connects, has something happen, and returns what the sender is told. Both lanes see it.
  static std::string brokenBy(const std::function<void(Party& party, Connection& connection)>& happens,
                              const std::vector<std::string>& near = {}, const PartySetup& with = setup()) {
    std::string reason;
    runTwo(
        with, false,
        [&](Party& party) -> std::string {
          party.connector->transports().context().nearPorts = near;
          CONNECT_BY_VERBS(connection, party.sending());
          PARTY_CHECK(party.await());
          happens(party, *connection);
          const std::string seen = untilBroken(party, *connection);
          reason = party.brokenReason;
          PARTY_CHECK(party.brokenRank == 1);
          party.signal();
          return seen;
        },
        [&](Party& party) -> std::string {
          CONNECT_BY_VERBS(connection, party.receiving());
          party.signal();
          PARTY_CHECK(party.await());
          party.connector->poison();
          return "";
        });
    return reason;
  }
};

TEST_F(VerbsErrors, EveryStatusIsASentence) {
  const struct {
    ibv_wc_status status;
    const char* meaning;
  } all[] = {{IBV_WC_RETRY_EXC_ERR, "the peer's port does not answer"},
             {IBV_WC_RNR_RETRY_EXC_ERR, "the peer has no memory"},
             {IBV_WC_REM_ACCESS_ERR, "the peer's device refuses the memory"},
             {IBV_WC_REM_INV_REQ_ERR, "does not take such a request"},
             {IBV_WC_REM_OP_ERR, "the peer's device has failed"},
             {IBV_WC_REM_ABORT_ERR, "given the request up"},
             {IBV_WC_LOC_PROT_ERR, "this device refuses the memory"},
             {IBV_WC_LOC_LEN_ERR, "longer than the memory"},
             {IBV_WC_LOC_ACCESS_ERR, "refuses what the peer"},
             {IBV_WC_LOC_QP_OP_ERR, "its link is down"},
             {IBV_WC_FATAL_ERR, "this host's device has failed"},
             {IBV_WC_GENERAL_ERR, "this host's device has failed"},
             {IBV_WC_RESP_TIMEOUT_ERR, "has taken too long"},
             {IBV_WC_BAD_RESP_ERR, "kernel logs"}};
  for (const auto& [status, meaning] : all) {
    verbsEmulationReset();
    const std::string reason = brokenBy([&, status = status](Party&, Connection& connection) {
      verbsEmulationFailCompletion(0, VERBS_EMULATION_SENDS, 1, status);
      // A request that asks for a completion is not the first.
      for (int i = 0; i < 30; ++i) EXPECT_TRUE(trySend(connection.sendEnd, {}, 0));
      connection.path()->kick();
      connection.path()->askForReleases();
    });
    EXPECT_THAT(reason,
                AllOf(HasSubstr(meaning), HasSubstr("from emu0:1, GID 3, RoCE v2, 127.0.0.1 to the peer's")));
  }
}

TEST_F(VerbsErrors, APortThatGoesDownIsNamed) {
  EXPECT_THAT(brokenBy([](Party&, Connection&) { verbsEmulationSetPortState(0, 1, IBV_PORT_DOWN); }),
              HasSubstr("port 1 of the RDMA device emu0 of rank 0 (test): port error"));
}

// The receiver, to which no port is near, takes the one of that number.
TEST_F(VerbsErrors, TheSenderChoosesThePort) {
  EXPECT_THAT(brokenBy([](Party&, Connection&) { verbsEmulationSetPortState(1, 1, IBV_PORT_DOWN); }, {"emu1"}),
              HasSubstr("port 1 of the RDMA device emu1 of rank 0 (test): port error"));
  verbsEmulationReset();
  EXPECT_THAT(brokenBy(
                  [](Party&, Connection& connection) {
                    verbsEmulationFailCompletion(0, VERBS_EMULATION_SENDS, 1, IBV_WC_RETRY_EXC_ERR);
                    for (int i = 0; i < 30; ++i) EXPECT_TRUE(trySend(connection.sendEnd, {}, 0));
                    connection.path()->kick();
                    connection.path()->askForReleases();
                  },
                  {"emu1"}),
              HasSubstr("from emu1:1, GID 3, RoCE v2, 127.0.0.2 to the peer's GID 3, RoCE v2, 127.0.0.2"));
}

// As many at each end as were asked for, and one of them that fails breaks the connection.
TEST_F(VerbsErrors, EachOfSeveralQueuePairsIsNeeded) {
  PartySetup three = setup();
  three.settings["IB_QPS_PER_CONNECTION"] = "3";
  std::vector<std::byte> bytes(three.ring.slotBytes);
  EXPECT_THAT(brokenBy(
                  [&](Party& party, Connection& connection) {
                    uint32_t numbers[8] = {};
                    EXPECT_EQ(verbsEmulationQueuePairs(numbers, 8), 6);
                    verbsEmulationFailCompletion(numbers[2], VERBS_EMULATION_SENDS, 1, IBV_WC_RETRY_EXC_ERR);
                    // What is sent from there asks for completions.
                    party.connector->transports().registerMemory({bytes.data(), bytes.size()});
                    for (int i = 0; i < 3; ++i) EXPECT_TRUE(trySend(connection.sendEnd, bytes, 0));
                    connection.path()->kick();
                    connection.path()->askForReleases();
                  },
                  {}, three),
              HasSubstr("the peer's port does not answer"));
}

TEST_F(VerbsErrors, ADeviceThatFailsIsNamed) {
  EXPECT_THAT(brokenBy([](Party&, Connection&) { verbsEmulationFatal(0); }),
              HasSubstr("the RDMA device emu0 of rank 0 (test): "));
}

TEST_F(VerbsErrors, AGidThatGoesIsNamed) {
  EXPECT_THAT(brokenBy([](Party&, Connection&) { verbsEmulationChangeGid(0, 1, 3, nullptr, 0); }),
              HasSubstr("GID 3, RoCE v2, 127.0.0.1 is no more"));
}

TEST_F(VerbsErrors, AGidThatComesDisturbsNobody) {
  runTwo(
      setup(), false,
      [](Party& party) -> std::string {
        CONNECT_BY_VERBS(connection, party.sending());
        ibv_gid another{};
        another.raw[15] = 9;
        EXPECT_EQ(verbsEmulationChangeGid(0, 1, 7, &another, IBV_GID_TYPE_ROCE_V2), 0);
        return sendAll(party, *connection, 20);
      },
      [](Party& party) -> std::string {
        CONNECT_BY_VERBS(connection, party.receiving());
        return receiveAll(party, *connection, 20);
      });
}

TEST_F(VerbsErrors, ABrokenQueuePairBreaksTheConnection) {
  EXPECT_THAT(brokenBy([](Party&, Connection& connection) {
                uint32_t numbers[2];
                ASSERT_EQ(verbsEmulationQueuePairs(numbers, 2), 2);
                verbsEmulationBreakQueuePair(numbers[0]);
                EXPECT_TRUE(trySend(connection.sendEnd, {}, 0));
                connection.path()->kick();
              }),
              HasSubstr("this host's queue pair was stopped before the request"));
}

/// The ways of a set-up that fail lead to TCP.
class VerbsFallsBack : public OnEmulation {
 protected:
  static void expectTcp(const PartySetup& setup) { EXPECT_EQ(wayOf(setup), "tcp"); }
  /// What messages went by, which have all come.
  static std::string wayOf(const PartySetup& setup) {
    PartySetup with = setup;
    with.transports = {"tcp"};
    std::string name;
    runTwo(
        with, false,
        [&](Party& party) -> std::string {
          Connection* connection = party.connect(party.sending());
          PARTY_CHECK(connection->state() == Connection::State::ready);
          name = connection->path()->name();
          return sendAll(party, *connection, 5);
        },
        [](Party& party) -> std::string {
          Connection* connection = party.connect(party.receiving());
          PARTY_CHECK(connection->state() == Connection::State::ready);
          return receiveAll(party, *connection, 5);
        });
    return name;
  }
};

TEST_F(VerbsFallsBack, WhateverTheDeviceRefuses) {
  for (const char* call : {"ibv_get_device_list", "ibv_open_device", "ibv_query_device", "ibv_alloc_pd",
                           "ibv_create_comp_channel", "ibv_create_cq", "ibv_modify_qp"}) {
    // Of both ranks, in all devices and states: always, or once.
    for (int which = 1; which <= 4; ++which) {
      verbsEmulationReset();
      for (int i = 0; i < (which == 1 ? 8 : 1); ++i) verbsEmulationFailCall(call, which, EINVAL);
      const std::string way = wayOf(setup());
      if (which == 1) { EXPECT_EQ(way, "tcp") << call; }
    }
  }
}

// The sender's queue pair goes to its first state, the receiver's to all three, then the sender's to the
// others: when the receiver has accepted.
TEST_F(VerbsFallsBack, WithAWarningInWhateverState) {
  for (int which = 1; which <= 6; ++which) {
    verbsEmulationReset();
    verbsEmulationFailCall("ibv_modify_qp", which, EINVAL);
    testing::internal::CaptureStderr();
    const std::string way = wayOf(setup());
    const std::string said = testing::internal::GetCapturedStderr();
    EXPECT_EQ(way, "tcp") << which;
    const char* const whose = which == 1 || which > 4 ? "rank 0" : "rank 1";
    EXPECT_THAT(said, HasSubstr(whose + std::string(" (test) has RDMA that a connection cannot use"))) << which;
  }
}

TEST_F(VerbsFallsBack, WithoutADevice) {
  verbsEmulationRemoveAllDevices();
  expectTcp(setup());
}

TEST_F(VerbsFallsBack, WhereMemoryCannotBeLocked) {
  verbsEmulationLimitMemory(64 << 10);
  PartySetup large = setup();
  large.ring = {8, 128 << 10};
  large.transports = {"tcp"};
  const auto connectAll = [](Party& party, transport::ConnectionId id) -> std::string {
    for (id.channel = 0; id.channel < 2; ++id.channel) {
      Connection* connection = party.connect(id);
      PARTY_CHECK(connection->state() == Connection::State::ready);
      PARTY_CHECK(std::string(connection->path()->name()) == "tcp");
    }
    return "";
  };
  testing::internal::CaptureStderr();
  runTwo(
      large, false, [&](Party& party) { return connectAll(party, party.sending()); },
      [&](Party& party) { return connectAll(party, party.receiving()); });
  // Users see that they pay for RDMA and do not have it; once, not for each connection.
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, HasSubstr("rank 0 (test) has RDMA that a connection cannot use: emu0 cannot register"));
  EXPECT_EQ(said.find("has RDMA", said.find("has RDMA") + 1), said.npos) << said;
}

TEST_F(VerbsFallsBack, WhereSettingsLeaveNothing) {
  PartySetup none = setup();
  none.settings["IB_HCA"] = "mlx5";
  expectTcp(none);
  none.settings = {{"IB_GID_INDEX", "77"}};
  expectTcp(none);
  none.settings = {{"ENCRYPT", "1"}};
  expectTcp(none);
}

// Both ends have to have a GID of one kind.
TEST_F(VerbsFallsBack, WhereGidsDoNotMeet) {
  PartySetup one = setup(), other = setup();
  one.settings["IB_GID_INDEX"] = "3";
  other.settings["IB_GID_INDEX"] = "0";
  one.transports = other.transports = {"tcp"};
  testing::internal::CaptureStderr();
  runTwo(
      one, false,
      [](Party& party) -> std::string {
        Connection* connection = party.connect(party.sending());
        PARTY_CHECK(std::string(connection->path()->name()) == "tcp");
        return "";
      },
      [](Party& party) -> std::string {
        Connection* connection = party.connect(party.receiving());
        PARTY_CHECK(connection->state() == Connection::State::ready);
        return "";
      },
      &other);
  EXPECT_THAT(
      testing::internal::GetCapturedStderr(),
      HasSubstr("rank 1 (test) has RDMA that a connection cannot use: emu0:1 has no GID that meets one of the "
                "peer's: GID 3, RoCE v2, 127.0.0.1 (ECCL_IB_HCA, ECCL_IB_GID_INDEX)"));
}

// The sender would go from its IPv4 address, if the receiver had one.
TEST_F(VerbsErrors, GidsAreThoseThatBothHave) {
  for (const int device : {0, 1}) {
    ibv_gid six{};
    ASSERT_EQ(inet_pton(AF_INET6, device == 0 ? "2001:db8::1" : "2001:db8::2", six.raw), 1);
    ASSERT_EQ(verbsEmulationSetGid(device, 1, 4, &six, IBV_GID_TYPE_ROCE_V2), 0);
  }
  ASSERT_EQ(verbsEmulationSetGid(1, 1, 3, nullptr, IBV_GID_TYPE_ROCE_V2), 0);
  PartySetup one = setup(), other = setup();
  one.settings["IB_HCA"] = "emu0";
  other.settings["IB_HCA"] = "emu1";
  runTwo(
      one, false,
      [](Party& party) -> std::string {
        CONNECT_BY_VERBS(connection, party.sending());
        return sendAll(party, *connection, 5);
      },
      [](Party& party) -> std::string {
        CONNECT_BY_VERBS(connection, party.receiving());
        return receiveAll(party, *connection, 5);
      },
      &other);
}

TEST(VerbsMemory, ThatCannotBeLockedSaysHow) {
  verbsEmulationReset();
  {
    FoundDevices found = findDevices({});
    DomainHandle domain(ibv_alloc_pd(found.devices[0].context.get()));
    verbsEmulationLimitMemory(4096);
    std::vector<std::byte> memory(8192);
    const auto refused = registerWith(domain.get(), memory.data(), memory.size(), 0);
    ASSERT_FALSE(refused.ok());
    EXPECT_THAT(refused.status().message(), HasSubstr("emu0 cannot register 8192 bytes of memory"));
  }
  EXPECT_EQ(verbsEmulationReset(), 0);
}

// What devices keep of queues is locked, too.
TEST_F(VerbsErrors, WhatIsNotLockedForWantOfALimitSaysHow) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_MEMLOCK, &before), 0);
  const rlimit low{std::min<rlim_t>(before.rlim_max, 64 << 10), before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_MEMLOCK, &low), 0);
  {
    VerbsWire<VerbsSender, SendEnd> wire;
    const auto refused = [](const char* call) {
      for (int i = 0; i < 16; ++i) verbsEmulationFailCall(call, 1, ENOMEM);  // also with less
    };
    const std::string how =
        "this process may lock " + std::to_string(low.rlim_cur) + " bytes of memory: if that is";
    refused("ibv_create_cq");
    uint32_t number = 0;
    EXPECT_THAT(wire.adapter->completions().join(5000, nullptr, &number).status().message(), HasSubstr(how));
    const Gid gid = *chooseGid(wire.rails[0].port, wire.options);
    const auto make = [&] {
      return VerbsEnd().make(wire.context, wire.rails[0], gid, true, 1, wire.options).message();
    };
    refused("ibv_create_qp");
    EXPECT_THAT(make(), AllOf(HasSubstr("gives no queue pair"), HasSubstr(how)));
    refused("ibv_reg_mr");
    EXPECT_THAT(make(), AllOf(HasSubstr("cannot register"), HasSubstr(how)));
  }
  setrlimit(RLIMIT_MEMLOCK, &before);
}

}  // namespace
}  // namespace eccl::transport::verbs
