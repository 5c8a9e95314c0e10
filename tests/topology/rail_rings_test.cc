#include "topology/search/rail_rings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "topology/clusters.h"
#include "topology/model/clos.h"

namespace eccl::topology {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

ClosShape shapeOf(const Host& host, int hosts, int hostsPerPod, int radix) {
  ClosShape shape;
  shape.host = host;
  shape.hosts = hosts;
  shape.hostsPerPod = hostsPerPod;
  shape.radix = radix;
  return shape;
}

RailRings ringsOf(const Cluster& cluster) {
  Result<RailRings> rings = searchRailRings(cluster);
  EXPECT_TRUE(rings.ok()) << rings.status().message();
  return rings.ok() ? rings.take() : RailRings{};
}

/// Every chain begins and ends at the port of its rail and visits all accelerators.
void expectWhole(const Cluster& cluster, const RailRings& rings) {
  EXPECT_EQ(rings.hosts.size(), cluster.hosts.size());
  EXPECT_EQ(std::set<int>(rings.hosts.begin(), rings.hosts.end()).size(), cluster.hosts.size());
  for (int host : rings.hosts) {
    const auto& chains = rings.chains[static_cast<size_t>(rings.chainsOf[static_cast<size_t>(host)])];
    ASSERT_EQ(chains.size(), rings.rails.size());
    const auto& uplinks = cluster.hosts[static_cast<size_t>(host)].uplinks;
    for (size_t c = 0; c < chains.size(); ++c) {
      EXPECT_EQ(chains[c].front(), uplinks[c].port);
      EXPECT_EQ(chains[c].back(), uplinks[c].port);
      const std::set<int> visited(chains[c].begin(), chains[c].end());
      for (int accelerator : cluster.typeOf(host).all(DeviceKind::accelerator))
        EXPECT_EQ(visited.count(accelerator), 1U);
    }
  }
}

TEST(RailRings, OneOnEveryRailThroughAllHosts) {
  const Result<Cluster> cluster = makeClos(shapeOf(railHost(4), 64, 16, 32));
  ASSERT_TRUE(cluster.ok()) << cluster.status().message();
  const RailRings rings = ringsOf(*cluster);
  EXPECT_THAT(rings.rails, ElementsAre(0, 1, 2, 3));
  expectWhole(*cluster, rings);
  EXPECT_DOUBLE_EQ(rings.gigabytes, 50);  // four times 50 GB/s are less than NVLink carries
  EXPECT_EQ(rings.bound.inside, "all but node0");
  EXPECT_NEAR(rings.ofBound(), 252.0 / 255, 1e-9);
}

TEST(RailRings, ShareWhatNvLinkCarries) {
  Host host = railHost(8);
  for (Device& device : host.devices) {  // so that the way by the CPU is of no use
    if (device.kind == DeviceKind::bridge) device.pci->gigatransfers = device.pci->ablestGigatransfers = 2.5;
  }
  const Result<Cluster> cluster = makeClos(shapeOf(host, 2000, 32, 64));
  ASSERT_TRUE(cluster.ok()) << cluster.status().message();
  const RailRings rings = ringsOf(*cluster);
  expectWhole(*cluster, rings);
  EXPECT_EQ(rings.chains.size(), 1U);
  EXPECT_NEAR(rings.gigabytes, 18 * 20.6 / 8, 1e-9);  // each accelerator sends all eight rings to the next
  EXPECT_GT(rings.ofBound(), 0.92);
  EXPECT_LE(rings.ofBound(), 1);
}

TEST(RailRings, CrossThinCablesOnce) {
  ClosShape shape = shapeOf(railHost(2), 16, 8, 16);
  shape.trunkGigabytes = 6.25;
  shape.leafOversubscription = 64;
  const Result<Cluster> cluster = makeClos(shape);
  ASSERT_TRUE(cluster.ok()) << cluster.status().message();
  EXPECT_DOUBLE_EQ(ringsOf(*cluster).gigabytes, 6.25);
  EXPECT_NEAR(ringsOf(*cluster).ofBound(), 16.0 / 31,
              1e-9);  // the bound is that of half the ranks leaving a pod
}

TEST(RailRings, WithoutNvLinkGoByTheCpu) {
  const Result<Cluster> cluster = makeClos(shapeOf(railHost(2, false), 4, 4, 8));
  ASSERT_TRUE(cluster.ok()) << cluster.status().message();
  const RailRings rings = ringsOf(*cluster);
  expectWhole(*cluster, rings);
  EXPECT_GT(rings.gigabytes, 10);
  EXPECT_LE(rings.ofBound(), 1);
}

TEST(RailRings, OfCpusAlone) {
  Cluster cluster = pairOnOneLeaf();
  cluster.ranks = {{0, 0}, {1, 0}};
  const RailRings rings = ringsOf(cluster);
  EXPECT_EQ(rings.channels(), 2);
  EXPECT_EQ(rings.ranks, 2);
  EXPECT_DOUBLE_EQ(rings.ofBound(), 1);
}

TEST(RailRings, SkipRailsThatDoNotJoinAll) {
  Cluster cluster = pairOnOneLeaf();
  for (int rail : {0, 1}) {
    cluster.switches.push_back({"rail" + std::to_string(rail), 1, 0, {}, rail, {}});
    for (ClusterHost& host : cluster.hosts) host.uplinks[static_cast<size_t>(rail)].toSwitch = rail;
  }
  cluster.switches.erase(cluster.switches.begin());
  EXPECT_THAT(ringsOf(cluster).rails, ElementsAre(0, 1));
  cluster.hosts[1].uplinks.erase(cluster.hosts[1].uplinks.begin());
  ASSERT_TRUE(validate(cluster).ok());
  EXPECT_THAT(ringsOf(cluster).rails, ElementsAre(1));
  cluster.hosts[1].uplinks[0].toSwitch = 0;
  cluster.trunks = {{0, 1, 1, 50, 0}};
  cluster.hosts[0].uplinks.erase(cluster.hosts[0].uplinks.begin());
  EXPECT_THAT(searchRailRings(cluster).status().message(), HasSubstr("no rail joins all 2 hosts"));
  cluster = pairOnOneLeaf();
  cluster.hosts.pop_back();
  EXPECT_THAT(searchRailRings(cluster).status().message(), HasSubstr("need two or more"));
}

}  // namespace
}  // namespace eccl::topology
