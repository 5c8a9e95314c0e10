// Where ranks are, from hosts and clusters.
#include "topology/model/locations.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "topology/clusters.h"

namespace eccl::topology {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> namesOf(const Host& host, const std::vector<int>& devices) {
  std::vector<std::string> names;
  for (int device : devices) names.push_back(host.devices[static_cast<size_t>(device)].name);
  return names;
}

TEST(PortsNear, TheNearestComeFirst) {
  const Host host = railHost(3);
  EXPECT_THAT(namesOf(host, portsNear(host, host.find("0000:02:00.0"))),
              ElementsAre("mlx5_1", "mlx5_0", "mlx5_2"));
  EXPECT_THAT(namesOf(host, portsNear(host, host.find("cpu0"))), ElementsAre("mlx5_0", "mlx5_1", "mlx5_2"));
}

TEST(PortsNear, APortThatIsDownIsNone) {
  Host host = railHost(2);
  host.devices[static_cast<size_t>(host.find("mlx5_0"))].port->state = "down";
  EXPECT_THAT(namesOf(host, portsNear(host, 0)), ElementsAre("mlx5_1"));
}

TEST(PortOfInterface, KnowsItByItsNameAndItsInterface) {
  Host host = railHost(2);
  host.devices[static_cast<size_t>(host.find("mlx5_1"))].port->interface = "eth7";
  EXPECT_EQ(portOfInterface(host, "eth7"), host.find("mlx5_1"));
  EXPECT_EQ(portOfInterface(host, "mlx5_0"), host.find("mlx5_0"));
  EXPECT_EQ(portOfInterface(host, "eth0"), Device::kNone);
}

TEST(FastestPort, OfThoseThatAreUpTheFirst) {
  Host host = railHost(3);
  const auto facts = [&](const char* port) -> PortFacts& {
    return *host.devices[static_cast<size_t>(host.find(port))].port;
  };
  EXPECT_EQ(fastestPort(host), host.find("mlx5_0"));
  facts("mlx5_0").megabits.reset();  // assumed to be slow
  EXPECT_EQ(fastestPort(host), host.find("mlx5_1"));
  facts("mlx5_2").megabits = 800000;
  EXPECT_EQ(fastestPort(host), host.find("mlx5_2"));
  facts("mlx5_2").state = "down";
  EXPECT_EQ(fastestPort(host), host.find("mlx5_1"));
  host.devices.resize(1);
  host.fabric.clear();
  EXPECT_EQ(fastestPort(host), Device::kNone);
}

TEST(NetworkPort, KnowsWhatTheHostSays) {
  Host host = railHost(1);
  const int port = host.find("mlx5_0");
  NetworkPort found = networkPorts(host, std::array{port}, "a").front();
  EXPECT_EQ(found.name, "a/mlx5_0");
  EXPECT_EQ(found.gigabytes, 50);
  EXPECT_EQ(found.microseconds, 0) << "it does not say its latency";
  EXPECT_EQ(found.rail, -1);
  PortFacts& facts = *host.devices[static_cast<size_t>(port)].port;
  facts.megabits.reset();
  facts.latency = 1.5;
  facts.rail = 3;
  found = networkPorts(host, std::array{port}, "a").front();
  EXPECT_EQ(found.gigabytes, 0) << "what the link model assumes is not known";
  EXPECT_EQ(found.microseconds, 1.5);
  EXPECT_EQ(found.rail, 3);
}

TEST(LocationsOf, RanksUseTheFastestPortFirst) {
  Cluster cluster = pairOnOneLeaf();
  cluster.types[0].devices[static_cast<size_t>(cluster.types[0].find("mlx5_1"))].port->megabits = 800000;
  for (ClusterHost& host : cluster.hosts) host.uplinks[1].gigabytes = 100;
  cluster.ranks = allPlaces(cluster);
  const std::vector<RankLocation> locations = locationsOf(cluster);
  ASSERT_EQ(locations.size(), 4U);
  EXPECT_EQ(locations[3].host, "b");
  EXPECT_EQ(locations[3].memory, "b");
  EXPECT_EQ(locations[3].numaNode, 0);
  EXPECT_EQ(locations[3].accelerator, "0000:02:00.0");
  EXPECT_EQ(locations[3].cores, 2) << "as many as ranks, as its CPU lists none";
  ASSERT_EQ(locations[3].ports.size(), 2U);
  EXPECT_EQ(locations[3].ports[0].name, "b/mlx5_1");
  EXPECT_EQ(locations[3].ports[1].name, "b/mlx5_0");
  const Placement placement(locations);
  EXPECT_THAT(placement.host, ElementsAre(0, 0, 1, 1));
  EXPECT_THAT(placement.port, ElementsAre(0, 0, 2, 2));
  EXPECT_THAT(placement.portsOf[0], ElementsAre(0, 1));
  EXPECT_THAT(placement.accelerator, ElementsAre(0, 1, 2, 3));
}

TEST(LocationsOf, CablesAndSwitchesCount) {
  Cluster cluster = pairOnOneLeaf();
  cluster.ranks = {{0, 0}};
  cluster.types[0].devices[0].cpu->cores = {0, 1, 2};
  Uplink& uplink = cluster.hosts[0].uplinks[0];
  uplink.gigabytes = 12.5;
  uplink.microseconds = 0.75;
  cluster.switches[0].rail = 5;
  const std::vector<RankLocation> locations = locationsOf(cluster);
  EXPECT_EQ(locations[0].cores, 3);
  EXPECT_EQ(locations[0].ports[0].gigabytes, 12.5);
  EXPECT_EQ(locations[0].ports[0].microseconds, 0.75);
  EXPECT_EQ(locations[0].ports[0].rail, 5);
}

TEST(LocationsOf, AHostWithoutPortsHasOneOfUnknownSpeed) {
  Host host = railHost(1);
  host.devices.resize(1);
  host.fabric.clear();
  Cluster cluster;
  cluster.types = {host};
  cluster.hosts = {{"a", 0, {}}};
  cluster.ranks = {{0, 0}, {0, 0}};
  const Placement placement(locationsOf(cluster));
  EXPECT_THAT(placement.port, ElementsAre(0, 0));
  EXPECT_EQ(placement.ports[0], Placement::Port());
}

}  // namespace
}  // namespace eccl::topology
