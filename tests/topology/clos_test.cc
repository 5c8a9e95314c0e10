#include "topology/model/clos.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "topology/clusters.h"
#include "topology/search/max_flow.h"

namespace eccl::topology {
namespace {

using ::testing::HasSubstr;

ClosShape shapeOf(int rails, int hosts, int hostsPerPod, int radix, double leaf = 1, double spine = 1) {
  ClosShape shape;
  shape.host = railHost(rails);
  shape.hosts = hosts;
  shape.hostsPerPod = hostsPerPod;
  shape.radix = radix;
  shape.leafOversubscription = leaf;
  shape.spineOversubscription = spine;
  return shape;
}

std::map<int, int> switchesByTier(const Cluster& cluster) {
  std::map<int, int> count;
  for (const Switch& sw : cluster.switches) ++count[sw.tier];
  return count;
}

/// GB/s from the first half of the hosts to the second, through cables and switches.
double bisection(const Cluster& cluster) {
  const int hosts = static_cast<int>(cluster.hosts.size()),
            all = hosts + static_cast<int>(cluster.switches.size());
  MaxFlow flow(all + 2);
  const auto join = [&](int a, int b, double gigabytes) {
    flow.add(a, b, static_cast<int64_t>(gigabytes * 1000));
    flow.add(b, a, static_cast<int64_t>(gigabytes * 1000));
  };
  for (int h = 0; h < hosts; ++h) {
    for (const Uplink& link : cluster.hosts[static_cast<size_t>(h)].uplinks)
      join(h, hosts + link.toSwitch, link.gigabytes);
    if (h < hosts / 2)
      flow.add(all, h, MaxFlow::kUnlimited);
    else
      flow.add(h, all + 1, MaxFlow::kUnlimited);
  }
  for (const Trunk& trunk : cluster.trunks)
    join(hosts + trunk.a, hosts + trunk.b, trunk.gigabytes * trunk.count);
  return static_cast<double>(flow.flow(all, all + 1)) / 1000;
}

struct Case {
  ClosShape shape;
  int leaves, spines, cores;
};

TEST(Clos, HasTheSwitchesAndTheBisectionOfItsShape) {
  const Case cases[] = {
      {shapeOf(1, 8, 8, 16), 1, 0, 0},            // one leaf
      {shapeOf(8, 32, 32, 64), 8, 4, 0},          // one pod
      {shapeOf(8, 128, 32, 64), 32, 16, 0},       // two tiers
      {shapeOf(8, 128, 32, 64, 2), 32, 8, 0},     //
      {shapeOf(2, 8, 4, 8), 4, 2, 0},             //
      {shapeOf(2, 32, 4, 8), 16, 16, 8},          // three tiers: 2 spines a pod, 4 cores for each
      {shapeOf(2, 32, 4, 8, 2), 16, 8, 4},        //
      {shapeOf(2, 32, 4, 8, 1, 2), 16, 16, 4},    //
      {shapeOf(2, 32, 4, 8, 2, 2), 16, 8, 2},     //
      {shapeOf(8, 2048, 32, 64), 512, 512, 256},  // 16,384 accelerators
      {shapeOf(8, 2048, 32, 64, 1, 4), 512, 512, 64},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(format("%d hosts, %g:1, %g:1", c.shape.hosts, c.shape.leafOversubscription,
                        c.shape.spineOversubscription));
    const Result<Cluster> cluster = makeClos(c.shape);
    ASSERT_TRUE(cluster.ok()) << cluster.status().message();
    std::map<int, int> tiers = switchesByTier(*cluster);
    EXPECT_EQ(tiers[1], c.leaves);
    EXPECT_EQ(tiers[2], c.spines);
    EXPECT_EQ(tiers[3], c.cores);
    const int rails = c.leaves / ((c.shape.hosts + c.shape.hostsPerPod - 1) / c.shape.hostsPerPod);
    const double ports = c.shape.hosts / 2 * rails * c.shape.portGigabytes;
    const bool acrossPods = c.shape.hosts > c.shape.hostsPerPod;
    const double narrowed =
        (acrossPods ? c.shape.leafOversubscription : 1) * (c.cores > 0 ? c.shape.spineOversubscription : 1);
    EXPECT_NEAR(bisection(*cluster), ports / narrowed, 1e-6 * ports);
  }
}

TEST(Clos, WiresEveryPortOnceOnItsRail) {
  for (const ClosShape& shape : {shapeOf(2, 30, 4, 8), shapeOf(8, 2000, 32, 64), shapeOf(8, 96, 32, 64, 2)}) {
    const Result<Cluster> cluster = makeClos(shape);
    ASSERT_TRUE(cluster.ok()) << cluster.status().message();
    ASSERT_EQ(cluster->hosts.size(), static_cast<size_t>(shape.hosts));
    std::vector<int> used(cluster->switches.size());
    const std::vector<int> ports = networkPorts(shape.host);
    for (size_t h = 0; h < cluster->hosts.size(); ++h) {
      const ClusterHost& host = cluster->hosts[h];
      ASSERT_EQ(host.uplinks.size(), ports.size());
      for (size_t rail = 0; rail < ports.size(); ++rail) {
        EXPECT_EQ(host.uplinks[rail].port, ports[rail]);
        const Switch& leaf = cluster->switches[static_cast<size_t>(host.uplinks[rail].toSwitch)];
        EXPECT_EQ(leaf.tier, 1);
        EXPECT_EQ(leaf.rail, static_cast<int>(rail));
        EXPECT_EQ(leaf.pod, static_cast<int>(h) / shape.hostsPerPod);
        ++used[static_cast<size_t>(host.uplinks[rail].toSwitch)];
      }
    }
    std::set<std::pair<int, int>> joined;
    for (const Trunk& trunk : cluster->trunks) {
      used[static_cast<size_t>(trunk.a)] += trunk.count;
      used[static_cast<size_t>(trunk.b)] += trunk.count;
      EXPECT_TRUE(joined.insert(std::minmax(trunk.a, trunk.b)).second);
      EXPECT_EQ(cluster->switches[static_cast<size_t>(trunk.a)].tier + 1,
                cluster->switches[static_cast<size_t>(trunk.b)].tier);
    }
    EXPECT_LE(*std::max_element(used.begin(), used.end()), shape.radix);
  }
}

TEST(Clos, SaysWhatToChange) {
  const auto error = [](const ClosShape& shape) { return makeClos(shape).status().message(); };
  EXPECT_EQ(error(shapeOf(8, 64, 32, 64, 3)),
            "clos: 1600 GB/s from below at 3:1 need 10.6667 cables of 50 GB/s up from each leaf: choose an "
            "oversubscription that gives whole cables");
  EXPECT_THAT(error(shapeOf(8, 64, 48, 64)), HasSubstr("make pods smaller or oversubscribe"));
  EXPECT_THAT(error(shapeOf(1, 65, 65, 64)), HasSubstr("65 hosts in a pod are more than the 64 ports"));
  EXPECT_THAT(error(shapeOf(8, 100000, 32, 64)), HasSubstr("make pods larger"));
  EXPECT_THAT(error(shapeOf(0, 2, 2, 64)), HasSubstr("no network port"));
  EXPECT_THAT(error(shapeOf(1, 0, 2, 64)), HasSubstr("number of hosts"));
  EXPECT_THAT(error(shapeOf(1, 2, 2, 64, 0.5)), HasSubstr("oversubscription is from 1"));
  EXPECT_THAT(error(shapeOf(1, 2, 2, 64, NAN)), HasSubstr("oversubscription is from 1"));
  ClosShape slow = shapeOf(1, 2, 2, 64);
  slow.trunkGigabytes = 0;
  EXPECT_THAT(error(slow), HasSubstr("speed of cables"));
}

}  // namespace
}  // namespace eccl::topology
