#include "topology/model/cluster.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "topology/clusters.h"

namespace eccl::topology {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(MergeHosts, IgnoresWhatIsAHostsOwn) {
  std::vector<Host> hosts(4, railHost(2));
  for (size_t i = 0; i < hosts.size(); ++i) {
    hosts[i].name = "node" + std::to_string(i);
    hosts[i].unread = {"/sys: process " + std::to_string(i)};
    for (Device& device : hosts[i].devices) {
      if (device.cpu) device.cpu->hostHash = 1000 + i;
      if (device.accelerator) device.accelerator->rank = static_cast<int>(i);
      if (device.port) device.port->guid = 7 * i;
    }
  }
  hosts[2].devices[1].pci->width = 8;  // trained down
  const MergedHosts merged = mergeHosts(hosts);
  EXPECT_THAT(merged.typeOf, ElementsAre(0, 0, 1, 0));
  ASSERT_EQ(merged.types.size(), 2U);
  EXPECT_EQ(merged.types[0].name, "node0");
  EXPECT_EQ(merged.types[1].name, "node2");
  EXPECT_EQ(withoutIdentity(merged.types[1]), withoutIdentity(hosts[2]));
}

TEST(MergeHosts, NamesTypesApart) {
  std::vector<Host> hosts = {railHost(1), railHost(2), railHost(3), railHost(4)};
  hosts[0].name = hosts[1].name = "";
  hosts[2].name = hosts[3].name = "host#2";
  const MergedHosts merged = mergeHosts(hosts);
  EXPECT_THAT(merged.typeOf, ElementsAre(0, 1, 2, 3));
  std::vector<std::string> names;
  for (const Host& type : merged.types) names.push_back(type.name);
  EXPECT_THAT(names, ElementsAre("host", "host#2", "host#2#2", "host#2#3"));
}

TEST(Cluster, AllPlacesAreItsAccelerators) {
  const Cluster cluster = pairOnOneLeaf();
  EXPECT_THAT(allPlaces(cluster), ElementsAre(RankPlace{0, cluster.types[0].find("0000:01:00.0")},
                                              RankPlace{0, cluster.types[0].find("0000:02:00.0")},
                                              RankPlace{1, cluster.types[0].find("0000:01:00.0")},
                                              RankPlace{1, cluster.types[0].find("0000:02:00.0")}));
}

TEST(Cluster, WhatIsWrongIsNamed) {
  ASSERT_TRUE(validate(pairOnOneLeaf()).ok()) << validate(pairOnOneLeaf()).message();
  const std::pair<std::function<void(Cluster&)>, const char*> faults[] = {
      {[](Cluster& c) { c.hosts.clear(); }, "there is no host"},
      {[](Cluster& c) { c.hosts[1].type = 1; }, "host b is of type 1 of 1"},
      {[](Cluster& c) { c.hosts[1].name = "a"; }, "host 1 has another's name, a"},
      {[](Cluster& c) { c.hosts[1].name = ""; }, "host 1 has no name"},
      {[](Cluster& c) { c.types[0].name = ""; }, "host type 0 has no name"},
      {[](Cluster& c) { c.types[0].devices[1].name = "cpu0"; }, "has another device's name"},
      {[](Cluster& c) { c.hosts[0].uplinks[0].port = 0; }, "device 0 of host a is wired, but is no port"},
      {[](Cluster& c) { c.hosts[0].uplinks[0].port = 99; }, "device 99 of host a is wired, but is no port"},
      {[](Cluster& c) { c.hosts[0].uplinks[1] = c.hosts[0].uplinks[0]; },
       "port mlx5_0 of host a is wired twice"},
      {[](Cluster& c) { std::swap(c.hosts[0].uplinks[0], c.hosts[0].uplinks[1]); },
       "not in the order of its ports"},
      {[](Cluster& c) { c.hosts[0].uplinks[0].toSwitch = 2; },
       "port mlx5_0 of host a is wired to switch 2 of 1"},
      {[](Cluster& c) { c.hosts[0].uplinks[0].gigabytes = 0; },
       "port mlx5_0 of host a has no possible bandwidth"},
      {[](Cluster& c) { c.hosts[0].uplinks[0].microseconds = -1; },
       "port mlx5_0 of host a has no possible latency"},
      {[](Cluster& c) { c.hosts[0].uplinks.clear(); }, "host a and host b are not connected"},
      {[](Cluster& c) {
         c.switches.push_back({"spine", 2, 0, {}, {}, {}});
       },
       "host a and switch spine are not connected"},
      {[](Cluster& c) { c.switches.push_back(c.switches[0]); }, "switch 1 has another's name, leaf"},
      {[](Cluster& c) { c.switches[0].ports = 3; }, "switch leaf has 3 ports, but 4 are wired"},
      {[](Cluster& c) { c.switches[0].tier = 0; }, "switch leaf is of tier 0"},
      {[](Cluster& c) {
         c.trunks.push_back({0, 0, 1, 1, 0});
       },
       "switch leaf has a link to itself"},
      {[](Cluster& c) {
         c.trunks.push_back({0, 5, 1, 1, 0});
       },
       "a link names switch 5 of 1"},
      {[](Cluster& c) {
         c.ranks = {{2, 1}};
       },
       "rank 0 is on host 2 of 2"},
      {[](Cluster& c) {
         c.ranks = {{0, 0}, {1, 99}};
       },
       "rank 1 uses device 99 of host b"},
      {[](Cluster& c) { c.hosts.resize(kMaxHosts + 1); }, "131073 hosts are more than the 131072 that can be"},
  };
  for (const auto& [spoil, words] : faults) {
    Cluster cluster = pairOnOneLeaf();
    spoil(cluster);
    const Status status = validate(cluster);
    EXPECT_EQ(status.code(), Code::invalidArgument) << words;
    EXPECT_THAT(status.message(), HasSubstr(words));
  }
}

}  // namespace
}  // namespace eccl::topology
