// Which ports are used, by which GID, and what is said of the others.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "transport/verbs/verbs_devices.h"
#include "verbs_emulation/verbs_emulation.h"

namespace eccl::transport::verbs {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

ibv_gid gidOf(const char* address) {
  ibv_gid gid{};
  EXPECT_EQ(inet_pton(AF_INET6, address, gid.raw), 1);
  return gid;
}

struct Ports : ::testing::Test {
  Ports() { verbsEmulationReset(); }
  ~Ports() override { EXPECT_EQ(verbsEmulationReset(), 0) << "objects are left"; }
  static std::vector<std::string> said(VerbsOptions options = {}) { return findDevices(options).said; }
};

TEST_F(Ports, UsesAllThatAreActive) {
  const FoundDevices found = findDevices({});
  ASSERT_EQ(found.devices.size(), 2u);
  EXPECT_TRUE(found.any());
  EXPECT_THAT(found.said, ElementsAre(StartsWith("emu0:1: used, RoCE, GID 3, RoCE v2, 127.0.0.1 of 4 GIDs"),
                                      StartsWith("emu1:1: used, RoCE, GID 3, RoCE v2, 127.0.0.2 of 4 GIDs")));
}

TEST_F(Ports, ChoosesGidsByTheRule) {
  struct {
    const char* address;
    uint32_t type;
  } const rising[] = {{"fe80::1", IBV_GID_TYPE_ROCE_V1},         {"2001:db8::1", IBV_GID_TYPE_ROCE_V1},
                      {"::ffff:10.0.0.1", IBV_GID_TYPE_ROCE_V1}, {"fe80::1", IBV_GID_TYPE_ROCE_V2},
                      {"2001:db8::1", IBV_GID_TYPE_ROCE_V2},     {"::ffff:10.0.0.1", IBV_GID_TYPE_ROCE_V2},
                      {"::ffff:10.0.0.2", IBV_GID_TYPE_ROCE_V2}};
  verbsEmulationRemoveAllDevices();
  const int device = verbsEmulationAddDevice("roce");
  const int port = verbsEmulationAddPort(device, IBV_LINK_LAYER_ETHERNET, 0);
  const auto chosen = [](VerbsOptions options = {}) {
    const FoundDevices found = findDevices(options);
    return found.any() ? chooseGid(found.devices[0].ports[0], options)->index : -1;
  };
  EXPECT_EQ(chosen(), -1);
  EXPECT_THAT(said(), ElementsAre(HasSubstr("it has no GID: its network interface needs an address")));
  const int best[] = {0, 1, 2, 3, 4, 5, 5};
  for (int i = 0; i < 7; ++i) {
    const ibv_gid gid = gidOf(rising[i].address);
    ASSERT_EQ(verbsEmulationSetGid(device, port, i, &gid, rising[i].type), 0);
    EXPECT_EQ(chosen(), best[i]);
  }
  VerbsOptions six;
  six.family = "AF_INET6";
  EXPECT_EQ(chosen(six), 4);
  VerbsOptions third;
  third.gidIndex = 2;
  EXPECT_EQ(chosen(third), 2);
  third.gidIndex = 9;
  EXPECT_EQ(chosen(third), -1);
  EXPECT_THAT(said(third), ElementsAre(HasSubstr("it has no GID number 9 (ECCL_IB_GID_INDEX)")));
  // The peer's kind and family decide for who answers.
  const FoundDevices found = findDevices({});
  const Port& answering = found.devices[0].ports[0];
  for (const Gid& peers : answering.gids) EXPECT_EQ(gidLike(answering, peers, {})->index, peers.index);
  // The peer chooses from them.
  const auto offered = [&](const VerbsOptions& options) {
    std::vector<int> all;
    for (const Gid& gid : gidsToOffer(answering, options)) all.push_back(gid.index);
    return all;
  };
  EXPECT_THAT(offered({}), ElementsAre(5, 4));
  EXPECT_THAT(offered(six), ElementsAre(4, 5));
  third.gidIndex = 0;
  EXPECT_THAT(offered(third), ElementsAre(0));
}

TEST_F(Ports, SaysWhyOthersAreNotUsed) {
  verbsEmulationSetPortState(0, 1, IBV_PORT_DOWN);
  EXPECT_THAT(said(), ElementsAre("emu0:1: not used, its state is down", StartsWith("emu1:1: used")));
  verbsEmulationFailCall("ibv_open_device", 1, EACCES);
  EXPECT_THAT(said()[0], HasSubstr("emu0: not used, it cannot be opened"));
  VerbsOptions options;
  options.hca = "=emu";
  EXPECT_FALSE(findDevices(options).any());
  EXPECT_THAT(said(options), ElementsAre("emu0:1: not used, ECCL_IB_HCA==emu leaves it out",
                                         "emu1:1: not used, ECCL_IB_HCA==emu leaves it out"));
  options.hca = "emu1:x";
  EXPECT_THAT(said(options)[0], HasSubstr("'emu1:x' names no port"));
  verbsEmulationRemoveAllDevices();
  EXPECT_THAT(said(), ElementsAre(StartsWith("there are no RDMA devices")));
}

TEST_F(Ports, OnInfiniBandNeedNoGid) {
  verbsEmulationRemoveAllDevices();
  verbsEmulationAddPort(verbsEmulationAddDevice("mlx5_0"), IBV_LINK_LAYER_INFINIBAND, 17);
  EXPECT_THAT(said(), ElementsAre(HasSubstr("mlx5_0:1: used, InfiniBand, LID 17")));
}

}  // namespace
}  // namespace eccl::transport::verbs
