#include "topology/paths/cluster_paths.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "topology/clusters.h"
#include "topology/model/clos.h"

namespace eccl::topology {
namespace {

RankPlace place(const Cluster& cluster, int host, const char* device) {
  return {host, cluster.typeOf(host).find(device)};
}

TEST(ClusterPaths, StayOnTheRailByNvLink) {
  const Cluster cluster = closOf(railHost(2), 8, 4, 8);
  const ClusterPaths paths(cluster);
  const auto between = [&](int from, const char* a, int to, const char* b) {
    return paths.between(place(cluster, from, a), place(cluster, to, b));
  };
  // PCI to the adapter, 1.35 us at either port, and half a microsecond of each cable.
  const ClusterPath same = between(0, "0000:01:00.0", 1, "0000:01:00.0");
  EXPECT_EQ(same.type, PathType::net);
  EXPECT_EQ(same.switches, 1);
  EXPECT_DOUBLE_EQ(same.gigabytes, 50);
  EXPECT_DOUBLE_EQ(same.microseconds, 2 * (2 * 0.5 + 1.35 + 0.5));
  EXPECT_EQ(describe(cluster, same.bottleneck), "node0: mlx5_0 and 0000:81:00.0");
  const ClusterPath cross = between(0, "0000:01:00.0", 1, "0000:02:00.0");
  EXPECT_EQ(cross.type, PathType::pxn);
  EXPECT_EQ(cross.switches, 1);
  EXPECT_DOUBLE_EQ(cross.gigabytes, 50);
  EXPECT_DOUBLE_EQ(cross.microseconds, same.microseconds + 2 * 0.3);
  EXPECT_EQ(cluster.typeOf(0).devices[static_cast<size_t>(cross.fromPort)].name, "mlx5_1");
  // In the other pod the rail is reached by a spine.
  const ClusterPath far = between(0, "0000:02:00.0", 7, "0000:02:00.0");
  EXPECT_EQ(far.type, PathType::net);
  EXPECT_EQ(far.switches, 3);
  EXPECT_DOUBLE_EQ(far.microseconds, same.microseconds + 2 * 0.5);
}

TEST(ClusterPaths, CrossRailsBySpinesWithoutNvLink) {
  const Cluster cluster = closOf(railHost(2, false), 8, 4, 8);
  const ClusterPath cross =
      ClusterPaths(cluster).between(place(cluster, 0, "0000:01:00.0"), place(cluster, 1, "0000:02:00.0"));
  EXPECT_EQ(cross.type, PathType::net);
  // By the CPU to the port on the right rail: PCI carries as much as the port.
  EXPECT_EQ(cross.switches, 1);
  EXPECT_EQ(cluster.typeOf(0).devices[static_cast<size_t>(cross.fromPort)].name, "mlx5_1");
}

TEST(ClusterPaths, NameTheNarrowLink) {
  Cluster cluster = pairOnOneLeaf();
  cluster.switches.push_back({"leaf2", 1, 0, {}, {}, {}});
  cluster.trunks = {{0, 1, 2, 10, 0.5}};
  for (Uplink& link : cluster.hosts[1].uplinks) link.toSwitch = 1;
  ASSERT_TRUE(validate(cluster).ok());
  const auto path = [&] {
    return ClusterPaths(cluster).between(place(cluster, 0, "0000:01:00.0"), place(cluster, 1, "0000:01:00.0"));
  };
  EXPECT_EQ(describe(cluster, path().bottleneck), "leaf and leaf2");
  EXPECT_DOUBLE_EQ(path().gigabytes, 20);
  for (Uplink& link : cluster.hosts[1].uplinks) link.gigabytes = 5;
  EXPECT_EQ(describe(cluster, path().bottleneck), "b: mlx5_0 to leaf2");
  cluster.types[0].devices[2].pci->width = cluster.types[0].devices[2].pci->ablestWidth =
      1;  // the first accelerator
  EXPECT_EQ(describe(cluster, path().bottleneck), "a: 0000:01:00.0 and 0000:41:00.0");
  EXPECT_LT(path().gigabytes, 5);
}

TEST(ClusterPaths, OfRailsThatMeetNowhereNeedAnotherAccelerator) {
  Cluster cluster = pairOnOneLeaf();
  cluster.switches.push_back({"leaf2", 1, 0, {}, {}, {}});
  for (ClusterHost& host : cluster.hosts) host.uplinks[1].toSwitch = 1;
  ASSERT_TRUE(validate(cluster).ok());
  const ClusterPath path =
      ClusterPaths(cluster).between(place(cluster, 0, "0000:01:00.0"), place(cluster, 1, "0000:02:00.0"));
  EXPECT_EQ(path.type, PathType::pxn);
  EXPECT_EQ(path.switches, 1);
}

TEST(ClusterPaths, WithoutSwitchesPortsAreTheLimit) {
  Cluster cluster;
  cluster.types = {railHost(2)};
  cluster.hosts = {{"a", 0, {}}, {"b", 0, {}}};
  const ClusterPath path =
      ClusterPaths(cluster).between(place(cluster, 0, "0000:01:00.0"), place(cluster, 1, "0000:01:00.0"));
  EXPECT_EQ(path.type, PathType::net);
  EXPECT_EQ(path.switches, 0);
  EXPECT_DOUBLE_EQ(path.gigabytes, 50);
  cluster.types[0].devices.resize(3);  // a CPU, a bridge, an accelerator
  cluster.types[0].fabric.clear();
  EXPECT_EQ(ClusterPaths(cluster).between({0, 2}, {1, 2}).type, PathType::dis);
}

TEST(ClusterPaths, ManyAreFoundAtOnce) {
  const Cluster cluster = closOf(railHost(4), 30, 8, 16);
  const std::vector<RankPlace> all = allPlaces(cluster);
  const ClusterPaths paths(cluster);
  const std::vector<RankPlace> others(all.begin() + 4, all.end());
  const std::vector<ClusterPath> found = paths.from(all[1], others);
  ASSERT_EQ(found.size(), 29U * 4);
  for (size_t i = 0; i < found.size(); ++i) {
    const ClusterPath one = paths.between(all[1], others[i]);
    EXPECT_EQ(found[i].type, one.type);
    EXPECT_EQ(found[i].switches, one.switches);
    EXPECT_EQ(found[i].bottleneck, one.bottleneck);
    // Across pods all rails are as near.
    EXPECT_EQ(found[i].type, i % 4 == 1 || others[i].host >= 8 ? PathType::net : PathType::pxn);
    EXPECT_EQ(found[i].switches, others[i].host < 8 ? 1 : 3);
  }
}

}  // namespace
}  // namespace eccl::topology
