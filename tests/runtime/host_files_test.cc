// ECCL_TOPO_FILE and ECCL_TOPO_DUMP_FILE, and what ecclTopologyExport makes of them, by ranks that are
// processes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "runtime/init/local_host.h"
#include "support/processes.h"
#include "support/temporary_folder.h"
#include "topology/data_files.h"
#include "topology/formats/cluster_json.h"
#include "topology/formats/host_json.h"
#include "topology/model/cluster.h"
#include "topology/probe/probe.h"

namespace eccl::runtime {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr const char* kFirst = "azure_ndv4.xml";
constexpr const char* kSecond = "amd_topo_4p3l_n2.xml";

class HostFiles : public test::TemporaryFolder {};

/// The export of a communicator, or why there is none.
std::string topologyOf(ecclComm_t comm) {
  size_t size = 0;
  if (ecclTopologyExport(comm, nullptr, &size) != ecclSuccess) return ecclGetLastError(comm);
  std::string text(size, 'x');
  size_t less = size - 1;
  if (ecclTopologyExport(comm, text.data(), &less) != ecclInvalidArgument || less != size || text[0] != 'x')
    return "a buffer that is too small was taken";
  if (ecclTopologyExport(comm, text.data(), &size) != ecclSuccess) return ecclGetLastError(comm);
  return text.c_str();
}

topology::Cluster parsed(const std::string& text) {
  Result<topology::Cluster> cluster =
      topology::parseClusterJson(text, "export", [](const std::string& path) -> Result<topology::Host> {
        return Status::error(Code::invalidArgument, "refers to %s", path.c_str());
      });
  EXPECT_TRUE(cluster.ok()) << cluster.status().message() << "\n" << text;
  return cluster.ok() ? cluster.take() : topology::Cluster();
}

/// Ranks whose ECCL_TOPO_FILE is files[rank] ("": none) join; each reports its export, or what went wrong.
std::vector<test::Outcome> joinWith(
    const std::vector<std::string>& files,
    const std::function<void(int rank, ecclComm_t comm, std::string& report)>& then) {
  const int ranks = static_cast<int>(files.size());
  return test::runProcesses(ranks, [&](int rank, test::Board& board, std::string& report) {
    setenv("ECCL_DEBUG", "NONE", 1);
    if (!files[static_cast<size_t>(rank)].empty())
      setenv("ECCL_TOPO_FILE", files[static_cast<size_t>(rank)].c_str(), 1);
    ecclComm_t comm = test::join(rank, ranks, board, report);
    if (comm == nullptr) return 2;
    then(rank, comm, report);
    return ecclCommDestroy(comm) == ecclSuccess ? 0 : 3;
  });
}
void exported(int, ecclComm_t comm, std::string& report) {
  report = topologyOf(comm);
}

#define ECCL_NEEDS_TALES() \
  if (!canReadXml() || !topology::haveJson()) GTEST_SKIP() << "built without pugixml or nlohmann-json"

TEST_F(HostFiles, EveryRankSeesTheSameTwoHosts) {
  ECCL_NEEDS_TALES();
  const std::string first = dataFolder() + kFirst, second = dataFolder() + kSecond;
  const auto outcomes = joinWith({first, second, first, second, second}, exported);
  for (const test::Outcome& outcome : outcomes) {
    EXPECT_EQ(outcome.code, 0);
    EXPECT_EQ(outcome.text, outcomes[0].text);
  }
  const topology::Cluster cluster = parsed(outcomes[0].text);
  ASSERT_THAT(cluster.types, SizeIs(2));
  EXPECT_EQ(topology::withoutIdentity(cluster.types[0]), topology::withoutIdentity(dataHost(kFirst)));
  EXPECT_EQ(topology::withoutIdentity(cluster.types[1]), topology::withoutIdentity(dataHost(kSecond)));
  std::vector<int> hosts;
  for (const topology::RankPlace& place : cluster.ranks) hosts.push_back(place.host);
  EXPECT_THAT(hosts, ElementsAre(0, 1, 0, 1, 1));
}

TEST_F(HostFiles, AHostMayBeInAnyFormat) {
  ECCL_NEEDS_TALES();
  const topology::Host host = dataHost(kFirst);
  const std::string json = folder_ + "host.json";
  std::ofstream(json) << *topology::toJson(host);
  const auto outcomes = joinWith({json, dataFolder() + kFirst}, exported);
  for (const test::Outcome& outcome : outcomes) EXPECT_EQ(outcome.code, 0) << outcome.text;
  const topology::Cluster cluster = parsed(outcomes[0].text);
  ASSERT_THAT(cluster.types, SizeIs(1));
  EXPECT_EQ(topology::withoutIdentity(cluster.types[0]), topology::withoutIdentity(host));
}

TEST_F(HostFiles, WithoutAFileItIsThisMachine) {
  if (!topology::haveJson()) GTEST_SKIP() << "built without nlohmann-json";
  for (const test::Outcome& outcome : joinWith({"", ""}, exported)) {
    EXPECT_EQ(outcome.code, 0);
    const topology::Cluster cluster = parsed(outcome.text);
    ASSERT_THAT(cluster.hosts, SizeIs(1));
    EXPECT_EQ(topology::withoutIdentity(cluster.types[0]),
              topology::withoutIdentity(topology::probeHost({.nvml = ""})));
    EXPECT_THAT(cluster.ranks, SizeIs(2));
  }
}

TEST_F(HostFiles, ASplitHasTheHostsOfItsRanks) {
  ECCL_NEEDS_TALES();
  const std::string first = dataFolder() + kFirst, second = dataFolder() + kSecond;
  const auto outcomes = joinWith({first, second, second}, [](int rank, ecclComm_t comm, std::string& report) {
    ecclComm_t child = nullptr;
    if (ecclCommSplit(comm, rank == 0 ? 0 : 1, 0, &child, nullptr) != ecclSuccess) {
      report = ecclGetLastError(comm);
      return;
    }
    report = topologyOf(child);
    ecclCommDestroy(child);
  });
  for (const test::Outcome& outcome : outcomes) {
    EXPECT_EQ(outcome.code, 0);
    const topology::Cluster cluster = parsed(outcome.text);
    ASSERT_THAT(cluster.types, SizeIs(1));
    const bool isFirst = &outcome == &outcomes[0];
    EXPECT_THAT(cluster.ranks, SizeIs(isFirst ? 1 : 2));
    EXPECT_EQ(topology::withoutIdentity(cluster.types[0]),
              topology::withoutIdentity(dataHost(isFirst ? kFirst : kSecond)));
  }
}

TEST_F(HostFiles, WhatNcclDumpsIsTakenWithAWarning) {
  ECCL_NEEDS_TALES();
  const std::string path = folder_ + "dump.xml";
  const std::string eth0 = "<nic><net name=\"eth0\" dev=\"0\" speed=\"10000\" port=\"0\"/></nic></cpu>\n";
  std::ofstream(path) << "<system version=\"1\">\n<cpu numaid=\"0\">" + eth0 + "<cpu numaid=\"1\">" + eth0 +
                             "</system>\n";
  for (const test::Outcome& outcome : joinWith({path, path}, exported)) {
    EXPECT_EQ(outcome.code, 0) << outcome.text;
    EXPECT_THAT(parsed(outcome.text).types.at(0).all(topology::DeviceKind::port), SizeIs(1));
  }
  Settings settings;
  settings.topoFile = path;
  ::testing::internal::CaptureStderr();
  EXPECT_TRUE(localHost(settings).ok());
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("ECCL_TOPO_FILE: " + path + ":3: <net> \"eth0\" is there a second time"));
}

TEST_F(HostFiles, AMalformedFileIsEverybodysErrorWithRankAndLine) {
  ECCL_NEEDS_XML();
  const std::string path = folder_ + "broken.xml";
  std::ofstream(path) << "<system version=\"1\">\n  <cpu arch=\"x86_64\"/>\n</system>\n";
  const double before = test::now();
  for (const test::Outcome& outcome : joinWith({"", path, ""}, exported)) {
    EXPECT_EQ(outcome.code, 2);
    EXPECT_THAT(outcome.text, AllOf(HasSubstr("rank 1 ("), HasSubstr("ECCL_TOPO_FILE: " + path + ":2: ")));
  }
  EXPECT_LT(test::now() - before, 30) << "nobody waits for the rank that fails";
}

TEST_F(HostFiles, WithoutPugixmlAFileIsAnErrorThatSaysWhatToInstall) {
  if (canReadXml()) GTEST_SKIP() << "built with pugixml";
  for (const test::Outcome& outcome : joinWith({dataFolder() + kFirst}, exported)) {
    EXPECT_EQ(outcome.code, 2);
    EXPECT_THAT(outcome.text, AllOf(HasSubstr("ECCL_TOPO_FILE"), HasSubstr("libpugixml-dev")));
  }
}

TEST_F(HostFiles, ARankThatDiesWhileItLooksIsNamed) {
  const std::string pipe = folder_ + "pipe";  // that nobody writes to
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const auto outcomes = test::runProcesses(3, [&](int rank, test::Board& board, std::string& report) {
    setenv("ECCL_DEBUG", "NONE", 1);
    if (rank == 1) {
      setenv("ECCL_TOPO_FILE", pipe.c_str(), 1);
      std::thread([] {
        std::this_thread::sleep_for(std::chrono::milliseconds(700));
        kill(getpid(), SIGKILL);
      }).detach();
    }
    return test::join(rank, 3, board, report) == nullptr ? 0 : 2;
  });
  EXPECT_EQ(outcomes[1].signal, SIGKILL);
  for (int rank : {0, 2}) {
    EXPECT_EQ(outcomes[static_cast<size_t>(rank)].code, 0);
    EXPECT_THAT(outcomes[static_cast<size_t>(rank)].text, HasSubstr("rank 1"));
  }
}

TEST_F(HostFiles, WhatIsDumpedLoadsAsTheSameHost) {
  ECCL_NEEDS_XML();
  const std::string first = folder_ + "first.xml", second = folder_ + "second.xml";
  setenv("ECCL_TOPO_DUMP_FILE", first.c_str(), 1);
  for (const test::Outcome& outcome : joinWith({dataFolder() + kFirst, dataFolder() + kSecond}, exported))
    EXPECT_EQ(outcome.code, 0);
  setenv("ECCL_TOPO_DUMP_FILE", second.c_str(), 1);
  setenv("ECCL_TOPO_DUMP_FILE_RANK", "1", 1);
  for (const test::Outcome& outcome : joinWith({"", first}, exported)) EXPECT_EQ(outcome.code, 0);
  unsetenv("ECCL_TOPO_DUMP_FILE_RANK");
  unsetenv("ECCL_TOPO_DUMP_FILE");
  const Result<topology::Host> once = topology::loadNcclXml(first), twice = topology::loadNcclXml(second);
  ASSERT_TRUE(once.ok() && twice.ok());
  EXPECT_EQ(*once, dataHost(kFirst));
  EXPECT_EQ(*twice, *once);
  EXPECT_THAT(filesLeft(), ::testing::UnorderedElementsAre("first.xml", "second.xml"))
      << "nothing half written";
}

TEST_F(HostFiles, TheMachineIsDumpedAsItIs) {
  const std::string path = folder_ + "dump.xml";
  setenv("ECCL_TOPO_DUMP_FILE", path.c_str(), 1);
  for (const test::Outcome& outcome : joinWith({"", ""}, exported)) EXPECT_EQ(outcome.code, 0);
  unsetenv("ECCL_TOPO_DUMP_FILE");
  EXPECT_EQ(contentOfFile(path), topology::toNcclXml(topology::probeHost({.nvml = ""})));
}

TEST_F(HostFiles, ADumpThatCannotBeWrittenIsAWarning) {
  const std::string log = folder_ + "log";
  const auto outcomes = test::runProcesses(1, [&](int rank, test::Board& board, std::string& report) {
    setenv("ECCL_TOPO_DUMP_FILE", (folder_ + "no such folder/dump.xml").c_str(), 1);
    dup2(open(log.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600), STDERR_FILENO);
    ecclComm_t comm = test::join(rank, 1, board, report);
    return comm != nullptr && ecclCommDestroy(comm) == ecclSuccess ? 0 : 2;
  });
  EXPECT_EQ(outcomes[0].code, 0) << outcomes[0].text;
  EXPECT_THAT(contentOfFile(log),
              AllOf(HasSubstr("ECCL_TOPO_DUMP_FILE"), HasSubstr("no such folder/dump.xml")));
}

TEST_F(HostFiles, AForkedChildFindsItsHost) {
  const auto outcomes = test::runProcesses(1, [&](int, test::Board& board, std::string& report) {
    setenv("ECCL_DEBUG", "NONE", 1);
    ecclComm_t comm = test::join(0, 1, board, report);
    const pid_t child = comm == nullptr ? -1 : fork();
    if (child == 0) {
      ecclComm_t own = nullptr;
      _exit(ecclCommInitAll(&own, 1, nullptr) == ecclSuccess && ecclCommDestroy(own) == ecclSuccess ? 0 : 1);
    }
    int status = 1;
    waitpid(child, &status, 0);
    return ecclCommDestroy(comm) == ecclSuccess ? status : 3;
  });
  EXPECT_TRUE(outcomes[0].ended);
  EXPECT_EQ(outcomes[0].code, 0) << outcomes[0].text;
}

}  // namespace
}  // namespace eccl::runtime
