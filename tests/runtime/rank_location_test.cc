// Where ranks believe each other to be: of one process and several, under their settings, with topologies of
// files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <thread>

#include "runtime/init/cluster_exchange.h"
#include "support/temporary_folder.h"
#include "topology/data_files.h"
#include "topology/probe/host_summary.h"

namespace eccl::runtime {
namespace {

using ::testing::ElementsAre;

/// What a rank tells others of itself.
struct Told {
  std::string introduction;
  transport::Endpoint endpoint;
};
/// An endpoint with the rails that an Acceptor tells.
transport::Endpoint endpointOf(const Settings& settings) {
  transport::Endpoint endpoint = transport::localEndpoint(System::real());
  const transport::InterfaceOptions options = transport::interfaceOptions(settings);
  const auto all = transport::listInterfaces(System::real());
  EXPECT_TRUE(all.ok());
  const auto chosen = transport::chooseInterfaces(*all, options);
  if (chosen.ok()) endpoint.rails = transport::railsOf(*chosen, options, [](int) { return uint16_t{1}; });
  return endpoint;
}
Told byThisProcess(const Settings& settings) {
  return {RankHosts::introduce(settings, 0).text, endpointOf(settings)};
}
Told byAChild(const Settings& settings) {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    const std::string bytes = RankHosts::introduce(settings, 0).text;
    _exit(write(ends[1], bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()) ? 0 : 1);
  }
  close(ends[1]);
  char bytes[RankHosts::kMaxIntroduction];
  const ssize_t got = read(ends[0], bytes, sizeof bytes);
  close(ends[0]);
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  transport::Endpoint endpoint = endpointOf(settings);
  endpoint.pid = child;
  return {std::string(bytes, static_cast<size_t>(std::max<ssize_t>(got, 0))), endpoint};
}

std::vector<RankLocation> locationsOf(const std::vector<Told>& ranks, const Settings& settings = {}) {
  std::vector<std::string> introductions;
  std::vector<transport::Endpoint> endpoints;
  for (const Told& rank : ranks) {
    introductions.push_back(rank.introduction);
    endpoints.push_back(rank.endpoint);
  }
  const auto met = RankHosts::meet(
      introductions, endpoints, RankHosts::introduce(settings, 0).host, 0,
      [](std::string_view) { return std::vector<std::string>(); },
      [](int rank) { return std::to_string(rank); });
  EXPECT_TRUE(met.ok()) << met.status().message();
  return met.ok() ? met->locations() : std::vector<RankLocation>(ranks.size());
}

bool shareMemory(const Told& one, const Told& other) {
  return Placement(locationsOf({one, other})).sharesMemory();
}

TEST(RankLocations, ProcessesOfOneMachineShareIt) {
  const Placement placement(locationsOf({byThisProcess({}), byAChild({})}));
  for (const auto* all : {&placement.machine, &placement.host, &placement.memory, &placement.port})
    EXPECT_THAT(*all, ElementsAre(0, 0));
  ASSERT_EQ(placement.cores.size(), 1U);
  EXPECT_GE(placement.cores[0], 1);
  EXPECT_LE(placement.cores[0], static_cast<double>(sysconf(_SC_NPROCESSORS_CONF)));
}

TEST(RankLocations, SettingsSayWhatMemoryIsShared) {
  Settings settings;
  settings.shmDisable = true;  // then threads of one process share it, unless they may not either
  const Told here = byThisProcess(settings), child = byAChild(settings);
  EXPECT_TRUE(shareMemory(here, byThisProcess(settings)));
  EXPECT_FALSE(shareMemory(here, child));
  const Placement apart(locationsOf({here, child}));
  for (const auto* all : {&apart.machine, &apart.host, &apart.port}) EXPECT_THAT(*all, ElementsAre(0, 0));
  settings.p2pDisable = true;
  EXPECT_FALSE(shareMemory(byThisProcess(settings), byThisProcess(settings)));
  settings.shmDisable = false;
  EXPECT_TRUE(shareMemory(byThisProcess(settings), byAChild({})));
}

TEST(RankLocations, TransportsSayWhatMemoryIsShared) {
  Settings settings;
  for (const char* transport : {"shm", "shm,tcp", "thread,shm"}) {
    settings.transport = transport;
    EXPECT_TRUE(shareMemory(byThisProcess(settings), byAChild({}))) << transport;
  }
  for (const char* transport : {"thread", "tcp,thread"}) {
    settings.transport = transport;
    EXPECT_FALSE(shareMemory(byThisProcess(settings), byAChild(settings))) << transport;
    EXPECT_TRUE(shareMemory(byThisProcess(settings), byThisProcess(settings))) << transport;
  }
  settings.transport = "tcp";
  EXPECT_FALSE(shareMemory(byThisProcess(settings), byThisProcess(settings)));
}

TEST(RankLocations, CoresAreThoseThatAnyRankOfTheMachineMayUse) {
  cpu_set_t all;
  ASSERT_EQ(sched_getaffinity(0, sizeof all, &all), 0);
  std::vector<int> cores;
  for (int core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(core, &all)) cores.push_back(core);
  if (cores.size() < 2) GTEST_SKIP() << "needs two cores";
  const auto pinnedTo = [](int core) {
    Told told;
    std::thread([&] {
      cpu_set_t one;
      CPU_ZERO(&one);
      CPU_SET(core, &one);
      EXPECT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
      told = byThisProcess({});
    }).join();
    return told;
  };
  const double quota = topology::cpuQuota();
  const auto coresOf = [](const Told& one, const Told& other) {
    return Placement(locationsOf({one, other})).cores[0];
  };
  EXPECT_EQ(coresOf(pinnedTo(cores[0]), pinnedTo(cores[0])), topology::usableCores(1, quota));
  EXPECT_EQ(coresOf(pinnedTo(cores[0]), pinnedTo(cores[1])), topology::usableCores(2, quota));
}

TEST(RankLocations, AnotherBootIsAnotherMachineAndHost) {
  Told other = byThisProcess({});
  other.endpoint.bootId[0] ^= 1;
  const Placement placement(locationsOf({byThisProcess({}), other}));
  for (const auto* all : {&placement.machine, &placement.host, &placement.memory, &placement.port})
    EXPECT_THAT(*all, ElementsAre(0, 1));
}

TEST(RankLocations, ContainersOfOneMachineShareItsCoresOnly) {
  Told other = byThisProcess({});
  other.endpoint.host = "container";
  const Placement placement(locationsOf({byThisProcess({}), other}));
  EXPECT_THAT(placement.machine, ElementsAre(0, 0));
  for (const auto* all : {&placement.host, &placement.memory, &placement.port})
    EXPECT_THAT(*all, ElementsAre(0, 1));
}

/// Ranks with an ECCL_TOPO_FILE of two ports.
class LocationsOfFiles : public test::TemporaryFolder {
 protected:
  std::vector<RankLocation> with(const char* firstName, const char* secondName) {
    Settings settings;
    settings.socketIfname = "=lo";
    settings.topoFile = folder_ + firstName + secondName;
    std::ofstream(settings.topoFile)
        << R"(<system version="1"><cpu numaid="3" affinity="ffffffff" arch="x86_64" vendor="GenuineIntel")"
        << R"( familyid="6" modelid="143"><nic>)"
        << R"(<net name=")" << firstName << R"(" dev="0" speed="10000" port="1" latency="2.5" maxconn="1"/>)"
        << R"(<net name=")" << secondName << R"(" dev="1" speed="100000" port="2" latency="0" maxconn="1"/>)"
        << "</nic></cpu></system>\n";
    Told told = byThisProcess(settings);
    if (!rails_.empty()) told.endpoint.rails = rails_;
    return locationsOf({told}, settings);
  }

  std::vector<transport::Rail> rails_;  // instead of this machine's
};

TEST_F(LocationsOfFiles, ThePortOfTheInterfaceComesFirst) {
  ECCL_NEEDS_XML();
  const auto locations = with("lo", "eth0");
  ASSERT_EQ(locations[0].ports.size(), 2U);
  EXPECT_THAT(locations[0].ports[0].name, ::testing::EndsWith("/lo"));
  EXPECT_EQ(locations[0].ports[0].gigabytes, 1.25);
  EXPECT_EQ(locations[0].ports[0].microseconds, 2.5);
  EXPECT_EQ(locations[0].ports[1].gigabytes, 12.5);
  EXPECT_EQ(locations[0].numaNode, 3);
}

TEST_F(LocationsOfFiles, WhereNoneHasItsNameTheFastestPortDoes) {
  ECCL_NEEDS_XML();
  const auto locations = with("eth0", "eth1");
  ASSERT_EQ(locations[0].ports.size(), 2U);
  EXPECT_THAT(locations[0].ports[0].name, ::testing::EndsWith("/eth1"));
  EXPECT_EQ(locations[0].ports[0].gigabytes, 12.5);
}

TEST(RankLocations, OfAPortThatIsNotInTheTopologyTheSpeedIsNotKnown) {
  Settings settings;
  settings.socketIfname = "=lo";
  const auto locations = locationsOf({byThisProcess(settings)});
  EXPECT_THAT(locations[0].ports[0].name, ::testing::EndsWith("/lo"));
  EXPECT_EQ(locations[0].ports[0].gigabytes, 0);
  EXPECT_THAT(locations[0].text(), ::testing::HasSubstr("/lo (speed not known)"));
}

TEST(RankLocations, OfAPortThatIsNotInTheTopologyTheInterfaceSaysTheSpeed) {
  Told told = byThisProcess({});
  told.endpoint.rails = {{"bond7", {}, 25000}};
  auto locations = locationsOf({told});
  EXPECT_THAT(locations[0].ports[0].name, ::testing::EndsWith("/bond7"));
  EXPECT_EQ(locations[0].ports[0].gigabytes, 3.125);
  told.endpoint.rails = {{"bond7", {}, 25000}, {"bond8", {}, 10000}};
  locations = locationsOf({told});
  EXPECT_THAT(locations[0].ports[0].name, ::testing::EndsWith("/bond7+bond8"));
  EXPECT_EQ(locations[0].ports[0].gigabytes, 4.375);
}

TEST_F(LocationsOfFiles, RailsOfUnknownSpeedLeaveTheFilesPort) {
  ECCL_NEEDS_XML();
  rails_ = {{"bond7", {}, 0}, {"bond8", {}, 0}};
  const auto locations = with("eth8", "eth9");
  ASSERT_EQ(locations[0].ports.size(), 2U);
  EXPECT_THAT(locations[0].ports[0].name, ::testing::EndsWith("/eth9"));  // the fastest
}

}  // namespace
}  // namespace eccl::runtime
