// What ranks tell each other of their hosts when they meet, in one thread; host_files_test.cc has processes.
#include "runtime/init/cluster_exchange.h"
#include "transport/registry/registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <thread>

#include "support/modules.h"
#include "topology/data_files.h"
#include "topology/formats/host_json.h"
#include "transport/net/bytes.h"

namespace eccl::runtime {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

bool canTellHosts() {
  return canReadXml() && topology::haveJson();
}
#define ECCL_NEEDS_TALES() \
  if (!canTellHosts()) GTEST_SKIP() << "built without pugixml or nlohmann-json"

Placement placementOf(const RankHosts& met) {
  return Placement(met.locations());
}

/// Ranks that meet in one thread.
class MeetingTest : public ::testing::Test {
 protected:
  /// A rank that is told its host by a file, of tests/topology/data if without a folder; empty: this machine.
  void add(const std::string& file, const std::string& machine, const std::string& transports = "",
           const std::string& gpu = "") {
    Settings settings;
    settings.transport = transports;
    if (!file.empty()) settings.topoFile = file[0] == '/' ? file : dataFolder() + file;
    own_.push_back(RankHosts::introduce(settings, static_cast<int>(own_.size()), gpu));
    transport::Endpoint endpoint;
    endpoint.host = machine;
    endpoints_.push_back(endpoint);
  }
  /// What rank `rank` finds; tales_ is what others would send. Each rank's tale is kept there.
  Result<RankHosts> meet(int rank) {
    std::vector<std::string> introductions;
    for (const auto& each : own_) introductions.push_back(each.text);
    tales_.resize(own_.size());
    const auto gather = [&](std::string_view mine) -> Result<std::vector<std::string>> {
      ++gathers_;
      if (!spoiled_) tales_[static_cast<size_t>(rank)] = mine;
      return tales_;
    };
    return RankHosts::meet(introductions, endpoints_, own_[static_cast<size_t>(rank)].host, rank, gather,
                           [](int r) { return "rank " + std::to_string(r); });
  }
  /// The last of all ranks has heard the tales of the others.
  RankHosts meetAll() {
    for (int rank = 0; rank + 1 < static_cast<int>(own_.size()); ++rank) meet(rank).status().ignore();
    Result<RankHosts> met = meet(static_cast<int>(own_.size()) - 1);
    EXPECT_TRUE(met.ok()) << met.status().message();
    return met.ok() ? met.take() : RankHosts();
  }

  std::vector<RankHosts::Introduction> own_;
  std::vector<transport::Endpoint> endpoints_;
  std::vector<std::string> tales_;
  int gathers_ = 0;
  bool spoiled_ = false;
};

TEST_F(MeetingTest, OnOneMachineNothingMoreIsSent) {
  for (int i = 0; i < 3; ++i) add("", "node7");
  const RankHosts met = meetAll();
  EXPECT_EQ(gathers_, 0);
  EXPECT_THAT(placementOf(met).host, ElementsAre(0, 0, 0));
  EXPECT_EQ(placementOf(met).ranksOf(0), 3);
  cpu_set_t cores;
  ASSERT_EQ(sched_getaffinity(0, sizeof cores, &cores), 0);
  EXPECT_GE(placementOf(met).cores[0], 1);
  EXPECT_LE(placementOf(met).cores[0], CPU_COUNT(&cores));
  ASSERT_TRUE(met.cluster().ok());
  const topology::Cluster cluster = met.cluster().take();
  EXPECT_TRUE(topology::validate(cluster).ok()) << topology::validate(cluster).message();
  ASSERT_THAT(cluster.hosts, SizeIs(1));
  EXPECT_EQ(cluster.hosts[0].name, "node7");
  EXPECT_THAT(cluster.ranks, SizeIs(3));
  EXPECT_EQ(topology::withoutIdentity(cluster.types[0]), topology::withoutIdentity(own_[0].host->host));
}

TEST_F(MeetingTest, MachinesAlikeAreOneKind) {
  for (const char* machine : {"a", "b", "a", "c"}) add("", machine);
  const RankHosts met = meetAll();
  EXPECT_EQ(gathers_, 0) << "each knows already what the others are made of";
  EXPECT_THAT(placementOf(met).host, ElementsAre(0, 1, 0, 2));
  EXPECT_THAT(met.cluster()->types, SizeIs(1));
  EXPECT_THAT(met.cluster()->hosts, SizeIs(3));
}

TEST_F(MeetingTest, RanksSayWhetherTheyUseUcx) {
  Settings settings;
  settings.transportModules = test::builtModule("ucx");
  if (settings.transportModules.empty()) GTEST_SKIP() << "built without UCX";
  ASSERT_TRUE(transport::chooseTransports(settings).ok());
  for (const char* transports : {"ucx,tcp", "tcp,ucx", "shm,ucx", ""}) add("", "a", transports);
  EXPECT_THAT(placementOf(meetAll()).ucx, ElementsAre(true, false, true, false));
  settings.transport = "ucx,tcp";
  EXPECT_TRUE(usesUcx(settings));
  settings.encrypt = true;
  EXPECT_FALSE(usesUcx(settings));
}

TEST_F(MeetingTest, OneRankOfEachKindTells) {
  ECCL_NEEDS_TALES();
  const char* const kFirst = "azure_ndv4.xml";
  const char* const kSecond = "amd_topo_4p3l_n2.xml";
  for (const char* file : {kFirst, kSecond, kFirst, kSecond}) add(file, "node7");
  const RankHosts met = meetAll();
  EXPECT_THAT(tales_[2], IsEmpty());
  EXPECT_THAT(tales_[3], IsEmpty());
  EXPECT_THAT(placementOf(met).host, ElementsAre(0, 1, 0, 1));
  const topology::Cluster cluster = met.cluster().take();
  EXPECT_TRUE(topology::validate(cluster).ok()) << topology::validate(cluster).message();
  ASSERT_THAT(cluster.types, SizeIs(2));
  EXPECT_EQ(topology::withoutIdentity(cluster.types[0]), topology::withoutIdentity(dataHost(kFirst)));
  EXPECT_EQ(topology::withoutIdentity(cluster.types[1]), topology::withoutIdentity(dataHost(kSecond)));
  EXPECT_EQ(cluster.hosts[0].name, "node7");
  EXPECT_EQ(cluster.hosts[1].name, "node7#2");
  for (int rank = 0; rank < 4; ++rank) {
    const Result<RankHosts> again = meet(rank);
    ASSERT_TRUE(again.ok()) << again.status().message();
    EXPECT_EQ(*again->cluster(), cluster);
  }
}

TEST_F(MeetingTest, EveryKnownFileIsAHost) {
  ECCL_NEEDS_TALES();
  for (const std::string& file : dataFiles()) add(file, "node7");
  const RankHosts met = meetAll();
  ASSERT_TRUE(met.cluster().ok()) << met.cluster().status().message();
  const topology::Cluster cluster = met.cluster().take();
  EXPECT_TRUE(topology::validate(cluster).ok()) << topology::validate(cluster).message();
  EXPECT_THAT(cluster.hosts, SizeIs(dataFiles().size()));
  for (size_t rank = 0; rank < own_.size(); ++rank)
    EXPECT_EQ(topology::withoutIdentity(cluster.typeOf(placementOf(met).host[rank])),
              topology::withoutIdentity(own_[rank].host->host));
}

TEST_F(MeetingTest, ARankIsOnTheCpuThatHasItsCores) {
  ECCL_NEEDS_XML();
  cpu_set_t allowed;
  ASSERT_EQ(sched_getaffinity(0, sizeof allowed, &allowed), 0);
  if (!CPU_ISSET(0, &allowed) || !CPU_ISSET(1, &allowed)) GTEST_SKIP() << "needs cores 0 and 1";
  const std::string path = ::testing::TempDir() + "eccl-two-cpus-" + std::to_string(getpid()) + ".xml";
  std::ofstream(path) << R"(<system version="1">
  <cpu numaid="0" affinity="00000001" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="143"/>
  <cpu numaid="1" affinity="00000002" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="143"/>
</system>)";
  for (const std::vector<int>& cores : std::vector<std::vector<int>>{{1}, {0, 1}, {0, 1}, {0}}) {
    std::thread([&] {
      cpu_set_t mine;
      CPU_ZERO(&mine);
      for (int core : cores) CPU_SET(core, &mine);
      EXPECT_EQ(sched_setaffinity(0, sizeof mine, &mine), 0);
      add(path, "node7");
    }).join();
  }
  std::remove(path.c_str());
  const RankHosts met = meetAll();
  std::vector<int> devices;
  const topology::Cluster cluster = met.cluster().take();
  for (const topology::RankPlace& place : cluster.ranks) devices.push_back(place.device);
  EXPECT_THAT(devices, ElementsAre(1, 0, 1, 0)) << "those that may use both are on them in turn";
  EXPECT_THAT(placementOf(met).numaNode, ElementsAre(1, -1, -1, 0)) << "that is not known of their memory";
  const double both = placementOf(met).cores[0], one = placementOf(met.of(std::vector<int>{0})).cores[0];
  EXPECT_EQ(one, 1);
  EXPECT_LE(both, 2);
  EXPECT_GE(both, one) << "2, but for a cgroup that grants one";
}

// Of two switches the first has one GPU and one port, the second two of each.
TEST_F(MeetingTest, ARankBestUsesThePortsOfItsGpu) {
  ECCL_NEEDS_XML();
  const std::string path = ::testing::TempDir() + "eccl-gpu-ports-" + std::to_string(getpid()) + ".xml";
  const auto pci = [](const std::string& address, const char* kind, const std::string& below) {
    return "<pci busid=\"" + address + "\" class=\"" + kind +
           "\" link_speed=\"16.0 GT/s PCIe\" link_width=\"16\">" + below + "</pci>";
  };
  const auto gpu = [&](const std::string& address) { return pci(address, "0x030200", ""); };
  const auto port = [&](const std::string& n) {
    return pci("0000:b" + n + ":00.0", "0x020700",
               "<nic><net name=\"mlx5_" + n + "\" dev=\"" + n +
                   "\" speed=\"100000\" port=\"1\" guid=\"0x98039b030001000" + n +
                   "\" maxconn=\"128\" gdr=\"0\"/></nic>");
  };
  std::ofstream(path) << "<system version=\"1\"><cpu numaid=\"0\" affinity=\"ffffffff\" arch=\"x86_64\" "
                         "vendor=\"GenuineIntel\" familyid=\"6\" modelid=\"143\">"
                      << pci("0000:01:00.0", "0x060400", gpu("0000:a0:00.0") + port("0"))
                      << pci("0000:02:00.0", "0x060400",
                             gpu("0000:a1:00.0") + gpu("0000:a2:00.0") + port("1") + port("2"))
                      << "</cpu></system>";
  for (const char* each : {"0000:a1:00.0", "0000:a0:00.0", "0000:a2:00.0", "0000:a0:00.0", "0000:99:00.0", ""})
    add(path, "node7", "", each);
  std::remove(path.c_str());
  const RankHosts met = meetAll();
  EXPECT_THAT(met.portsOf(0), ElementsAre("mlx5_1", "mlx5_2", "mlx5_0"));
  EXPECT_THAT(met.portsOf(1), ElementsAre("mlx5_0", "mlx5_1", "mlx5_2"));
  EXPECT_THAT(met.portsOf(2), ElementsAre("mlx5_2", "mlx5_1", "mlx5_0")) << "the other one is taken";
  EXPECT_THAT(met.portsOf(3), ElementsAre("mlx5_0", "mlx5_1", "mlx5_2")) << "it has no other";
  EXPECT_THAT(met.portsOf(4), ElementsAre("mlx5_0", "mlx5_1", "mlx5_2")) << "a GPU that the topology has not";
  EXPECT_THAT(met.portsOf(5), ElementsAre("mlx5_1", "mlx5_2", "mlx5_0")) << "all are as near to the CPU";
  EXPECT_EQ(met.of(std::vector<int>{5, 2}).portsOf(1), met.portsOf(2));
  const std::vector<int> gpus = placementOf(met).accelerator;
  EXPECT_EQ(gpus[1], gpus[3]);
  EXPECT_EQ(std::set<int>(gpus.begin(), gpus.end()).size(), 5U);
  EXPECT_EQ(std::ranges::count(gpus, -1), 1);
  EXPECT_EQ(gpus[5], -1) << "it has none";
}

// Ranks of a CPU take turns of the ports that hang below it; those of one without, of all.
TEST_F(MeetingTest, ARankBestUsesThePortsOfItsCpu) {
  ECCL_NEEDS_XML();
  const std::string path = ::testing::TempDir() + "eccl-three-ports-" + std::to_string(getpid()) + ".xml";
  const auto nic = [](int number) {
    const std::string n = std::to_string(number);
    return R"(<pci busid="0000:)" + n + R"(1:00.0" class="0x020700" link_speed="16.0 GT/s PCIe" link_width="16">
      <nic><net name="mlx5_)" +
           n + R"(" dev=")" + n + R"(" speed="100000" port="1" guid="0x98039b030001000)" + n +
           R"(" maxconn="128" gdr="0"/></nic></pci>)";
  };
  const auto cpu = [](int node, const char* cores, const std::string& below) {
    return "<cpu numaid=\"" + std::to_string(node) + "\" affinity=\"" + cores +
           R"(" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="143">)" + below + "</cpu>";
  };
  // Its cores are none of this machine's, so ranks are on its CPUs in turn.
  std::ofstream(path)
      << "<system version=\"1\">"
      << cpu(0, "00000000,00000001,00000000,00000000,00000000,00000000,00000000,00000000,00000000", nic(0))
      << cpu(1, "00000000,00000002,00000000,00000000,00000000,00000000,00000000,00000000,00000000",
             nic(1) + nic(2))
      << cpu(2, "00000000,00000004,00000000,00000000,00000000,00000000,00000000,00000000,00000000", "")
      << "</system>";
  // Where RDMA can be had, that is what the port is for.
  Settings settings;
  settings.transportModules = test::builtModule("verbs");
  const bool verbs = !settings.transportModules.empty();
  if (verbs) {
    ASSERT_TRUE(transport::chooseTransports(settings).ok());
    add(path, "node7", "tcp,verbs,shm");
    EXPECT_FALSE(meetAll().location(0).rdma) << "TCP is preferred";
    own_.clear(), endpoints_.clear(), tales_.clear();
  }
  for (int rank = 0; rank < 9; ++rank) add(path, "node7");
  add(path, "node8");
  std::remove(path.c_str());
  const RankHosts met = meetAll();
  const std::vector<std::vector<std::string>> expected = {
      {"mlx5_0", "mlx5_1", "mlx5_2"}, {"mlx5_1", "mlx5_2", "mlx5_0"}, {"mlx5_0", "mlx5_1", "mlx5_2"},
      {"mlx5_0", "mlx5_1", "mlx5_2"}, {"mlx5_2", "mlx5_1", "mlx5_0"}, {"mlx5_1", "mlx5_2", "mlx5_0"},
      {"mlx5_0", "mlx5_1", "mlx5_2"}, {"mlx5_1", "mlx5_2", "mlx5_0"}, {"mlx5_2", "mlx5_0", "mlx5_1"},
      {"mlx5_0", "mlx5_1", "mlx5_2"}};
  for (int rank = 0; rank < 10; ++rank) {
    const std::vector<std::string>& names = expected[static_cast<size_t>(rank)];
    EXPECT_EQ(met.portsOf(rank), names) << rank;
    EXPECT_EQ(met.location(rank).rdma, verbs);
    const std::string first = (rank < 9 ? "node7/" : "node8/") + names[0];
    EXPECT_TRUE(!verbs || met.location(rank).ports[0].name == first) << first;
  }
  // In a split they are as before.
  EXPECT_EQ(met.of(std::vector<int>{9, 8, 4}).portsOf(2), expected[4]);
  // Nor does it matter that hosts are told of, without their GUIDs, as they are not alike.
  if (!canTellHosts()) return;
  add("azure_ncv4.xml", "node9");
  const RankHosts unlike = meetAll();
  for (int rank = 0; rank < 10; ++rank) {
    EXPECT_EQ(unlike.location(rank).rdma, verbs);
    EXPECT_EQ(unlike.location(rank).ports, met.location(rank).ports);
  }
}

TEST_F(MeetingTest, ASplitKeepsWhatItsRanksKnow) {
  ECCL_NEEDS_TALES();
  for (const char* file : {"azure_ndv4.xml", "azure_ncv4.xml", "azure_ncv4.xml"}) add(file, "node7");
  const RankHosts met = meetAll();
  const RankHosts some = met.of(std::vector<int>{2, 1});
  EXPECT_THAT(placementOf(some).host, ElementsAre(0, 0));
  EXPECT_EQ(placementOf(some).ranksOf(0), 2);
  EXPECT_EQ(placementOf(some).cores, placementOf(met).cores);
  ASSERT_THAT(some.cluster()->types, SizeIs(1));
  EXPECT_EQ(some.cluster()->types[0].devices, met.cluster()->types[1].devices);
}

TEST_F(MeetingTest, AHostThatCannotBeReadIsEverybodysError) {
  add("", "node7");
  add("no such.xml", "node7");
  const Status status = meet(0).status();
  EXPECT_EQ(status.code(), Code::invalidUsage);
  EXPECT_THAT(status.message(),
              AllOf(HasSubstr("rank 1"), HasSubstr("ECCL_TOPO_FILE"), HasSubstr("no such.xml")));
}

TEST_F(MeetingTest, GarbageIsToldWithItsSender) {
  add("", "node7");
  add("", "node7");
  const std::string good = own_[1].text;
  for (size_t size = 0; size < good.size(); ++size) {
    own_[1].text = good.substr(0, size);
    EXPECT_EQ(meet(0).status().code(), Code::remote) << size;
  }
  own_[1].text = good + "x";
  EXPECT_THAT(meet(0).status().message(), HasSubstr("rank 1 said of its host something unreadable"));
  own_[1].text = transport::ByteWriter().text("line\nbreaks \x1b[31m").raw(good.substr(4)).take();
  EXPECT_THAT(meet(0).status().message(),
              HasSubstr("rank 1 does not know what its host is made of: line?breaks ?[31m"));
}

TEST_F(MeetingTest, TalesThatAreNoHostsAreToldWithTheirSender) {
  ECCL_NEEDS_TALES();
  add("azure_ndv4.xml", "node7");
  add("azure_ncv4.xml", "node7");
  const auto saying = [](const char* error, const std::string& json) {
    return transport::ByteWriter().text(error).text(json).take();
  };
  meet(0).status().ignore();
  spoiled_ = true;
  for (const auto& [tale, says] : std::vector<std::pair<std::string, const char*>>{
           {"", "something unreadable"},
           {"garbage", "something unreadable"},
           {saying("", "{"), "parse error"},
           {saying("", R"({"format": "eccl-host", "version": 1, "devices": [], "links": []})"), "no CPU"},
           {saying("", R"({"format": "eccl-host", "version": 1, "devices": [{"name": "x"}], "links": []})"),
            "kind"},
           {saying("has none", ""), "has none"}}) {
    tales_[1] = tale;
    const Status status = meet(0).status();
    EXPECT_EQ(status.code(), Code::remote);
    EXPECT_THAT(status.message(), AllOf(HasSubstr("rank 1"), HasSubstr(says)));
  }
}

// A rank's build that has no JSON says so with its second byte behind the error.
TEST_F(MeetingTest, WhereARankHasNoJsonHostsAreStillToldApart) {
  ECCL_NEEDS_XML();
  for (const char* file : {"azure_ndv4.xml", "azure_ncv4.xml", "azure_ncv4.xml"}) add(file, "node7");
  own_[1].text[5] = 0;
  const RankHosts met = meetAll();
  EXPECT_EQ(gathers_, 0);
  EXPECT_THAT(placementOf(met).host, ElementsAre(0, 1, 1));
  EXPECT_THAT(placementOf(met).cores, ElementsAre(::testing::Ge(1))) << "it is one machine";
  EXPECT_EQ(met.cluster().status().code(), Code::invalidUsage);
  EXPECT_THAT(met.cluster().status().message(), AllOf(HasSubstr("rank 1"), HasSubstr("nlohmann-json3-dev")));
  EXPECT_FALSE(met.of(std::vector<int>{1, 2}).cluster().ok());
}

}  // namespace
}  // namespace eccl::runtime
