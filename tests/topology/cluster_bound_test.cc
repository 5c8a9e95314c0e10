// The bound of a cluster against the exact one of its whole graph.
#include "topology/search/cluster_bound.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "topology/clusters.h"
#include "topology/model/clos.h"
#include "topology/search/cut_bound.h"
#include "topology/search/graph_of_cluster.h"
#include "topology/search/graph_of_host.h"

namespace eccl::topology {
namespace {

using ::testing::HasSubstr;

double exactBound(const Cluster& cluster) {
  const WeightedGraph whole = graphOf(cluster);
  return cutBound(whole.graph, whole.weights).perTerminal() / kCapacityPerGigabyte;
}

/// What is between accelerator and port is made so slow that it is the limit.
Host slowPci(Host host, double gigatransfers) {
  for (Device& device : host.devices) {
    if (device.pci) device.pci->gigatransfers = device.pci->ablestGigatransfers = gigatransfers;
  }
  return host;
}

TEST(ClusterBound, IsExactOnSmallClusters) {
  Cluster onlyRails = pairOnOneLeaf();
  onlyRails.switches.push_back({"leaf2", 1, 0, {}, {}, {}});
  for (ClusterHost& host : onlyRails.hosts) host.uplinks[1].toSwitch = 1;
  Cluster mixed = closOf(railHost(4), 8, 4, 8);
  mixed.types.push_back(railHost(4, false));
  mixed.types.back().name = "pci";
  const Host& pci = mixed.types.back();
  for (int h : {1, 6}) {
    ClusterHost& host = mixed.hosts[static_cast<size_t>(h)];
    host.type = 1;
    for (size_t r = 0; r < 4; ++r) host.uplinks[r].port = pci.find("mlx5_" + std::to_string(r));
  }
  Cluster noSwitches;
  noSwitches.types = {railHost(2)};
  noSwitches.hosts = {{"a", 0, {}}, {"b", 0, {}}, {"c", 0, {}}};
  Cluster someRanks = closOf(railHost(4), 8, 4, 8);
  const int first = someRanks.types[0].find("0000:01:00.0"), last = someRanks.types[0].find("0000:04:00.0");
  someRanks.ranks = {{0, first}, {0, last}, {3, first}, {5, 0}, {5, 0}, {7, last}};
  Cluster thinRail = closOf(railHost(2, false), 16, 8, 16);
  for (Device& device : thinRail.types[0].devices) {
    if (device.kind == DeviceKind::bridge) device.pci->gigatransfers = device.pci->ablestGigatransfers = 0.1;
  }
  for (Trunk& trunk : thinRail.trunks) {
    if (trunk.a == 1 || trunk.a == 3) trunk.gigabytes = 0.1;
  }
  const std::pair<const char*, Cluster> clusters[] = {
      {"one host", closOf(railHost(4), 1, 4, 8)},
      {"one leaf", pairOnOneLeaf()},
      {"rails that meet nowhere", onlyRails},
      {"no switches", noSwitches},
      {"two tiers", closOf(railHost(4), 8, 4, 16)},
      {"two tiers, 4:1", closOf(railHost(4), 8, 4, 16, 4)},
      {"three tiers", closOf(railHost(2), 8, 2, 4)},
      {"three tiers, 2:1 twice", closOf(railHost(2), 12, 4, 8, 2, 2)},
      {"thin cables up", closOf(railHost(2), 16, 8, 16, 64, 1, 6.25)},
      {"without NVLink", closOf(railHost(4, false), 8, 4, 16)},
      {"without NVLink, 4:1", closOf(railHost(4, false), 8, 4, 16, 4)},
      {"slow PCI", closOf(slowPci(railHost(4), 5), 8, 4, 8)},
      {"slow PCI without NVLink", closOf(slowPci(railHost(4, false), 5), 8, 4, 8)},
      {"thin cables up without NVLink", closOf(railHost(2, false), 16, 8, 16, 64, 1, 6.25)},
      {"a thin rail without NVLink", thinRail},
      {"two types", mixed},
      {"some ranks", someRanks},
  };
  for (const auto& [name, cluster] : clusters) {
    SCOPED_TRACE(name);
    ASSERT_TRUE(validate(cluster).ok()) << validate(cluster).message();
    const Result<ClusterBound> bound = boundOf(cluster);
    ASSERT_TRUE(bound.ok()) << bound.status().message();
    const double exact = exactBound(cluster);
    std::printf("%-32s %8.3f GB/s each, exactly %8.3f: %s\n", name, bound->perRank(), exact,
                bound->inside.c_str());
    EXPECT_NEAR(bound->perRank(), exact, 1e-6 * exact);
  }
}

TEST(ClusterBound, SaysWhatIsCutOff) {
  const Result<ClusterBound> ports = boundOf(closOf(railHost(8), 2000, 32, 64));
  ASSERT_TRUE(ports.ok());
  EXPECT_EQ(ports->inside, "all but node0");
  EXPECT_DOUBLE_EQ(ports->gigabytes, 400);
  EXPECT_EQ(ports->ranks, 15992);
  const Result<ClusterBound> pods = boundOf(closOf(railHost(2), 16, 8, 16, 64, 1, 6.25));
  ASSERT_TRUE(pods.ok());
  EXPECT_EQ(pods->inside, "node0 and 7 more hosts with their switches of tier 1");
  EXPECT_DOUBLE_EQ(pods->gigabytes, 12.5);
}

TEST(ClusterBound, NeedsRanksThatReachEachOther) {
  Cluster alone;
  alone.types = {railHost(1)};
  alone.hosts = {{"a", 0, {}}};
  EXPECT_THAT(boundOf(alone).status().message(), HasSubstr("two ranks or more, not 1"));
  Cluster apart = pairOnOneLeaf();
  apart.ranks = {{0, 0}, {1, 0}};
  EXPECT_TRUE(boundOf(apart).ok());
  apart.types[0] = Host{"empty", {apart.types[0].devices[0]}, {}, {}};
  for (ClusterHost& host : apart.hosts) host.uplinks.clear();
  apart.switches.clear();
  EXPECT_THAT(boundOf(apart).status().message(), HasSubstr("no way to the others"));
}

}  // namespace
}  // namespace eccl::topology
