// ECCL_COST_FILE, ECCL_TABLE_FILE and ECCL_TABLE_DUMP_FILE among ranks that are processes, what they believe of
// each other, and estimates.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "algorithms/selection/selection_rules.h"
#include "runtime/init/cluster_exchange.h"
#include "runtime/init/selection.h"
#include "support/processes.h"
#include "support/temporary_folder.h"
#include "transport/net/bytes.h"

namespace eccl::runtime {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class SelectionFiles : public test::TemporaryFolder {
 protected:
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ + name) << text;
    return folder_ + name;
  }
  std::string read(const std::string& name) const {
    std::stringstream text;
    text << std::ifstream(folder_ + name).rdbuf();
    return text.str();
  }
  /// Rank 0 has these settings, the others none. Each joins, does `then` and reports.
  std::vector<test::Outcome> join(
      int ranks, const std::map<std::string, std::string>& settings,
      const std::function<void(int rank, ecclComm_t comm, std::string& report)>& then) const {
    return test::runProcesses(ranks, [&](int rank, test::Board& board, std::string& report) {
      setenv("ECCL_DEBUG", "NONE", 1);
      setenv("ECCL_SPEEDS_FILE", "none", 1);
      if (rank == 0)
        for (const auto& [name, value] : settings) setenv(name.c_str(), value.c_str(), 1);
      ecclComm_t comm = test::join(rank, ranks, board, report);
      if (comm == nullptr) return 2;
      then(rank, comm, report);
      return ecclCommDestroy(comm) == ecclSuccess ? 0 : 3;
    });
  }
};

/// So many ranks that are processes of this machine.
Placement here(int ranks) {
  const RankHosts::Introduction one = RankHosts::introduce({}, 0);
  const std::vector<std::string> all(static_cast<size_t>(ranks), one.text);
  const std::vector<transport::Endpoint> endpoints(all.size(), transport::localEndpoint(System::real()));
  const auto met = RankHosts::meet(
      all, endpoints, one.host, 0, [](std::string_view) { return std::vector<std::string>(); },
      [](int rank) { return std::to_string(rank); });
  EXPECT_TRUE(met.ok()) << met.status().message();
  return met.ok() ? Placement(met->locations()) : Placement();
}

/// The table of such ranks, as text.
std::string tableHere(int ranks, const algorithms::CostModel& model = {}) {
  const Placement placement = here(ranks);
  algorithms::CallSize size;
  size.slotBytes = algorithms::slotBytesFor(0, placement);
  const auto rules = algorithms::rulesFor(placement, model, size);
  EXPECT_TRUE(rules.ok()) << rules.status().message();
  return rules.ok() ? algorithms::textOf(*rules) : "";
}

/// "sum" if an AllReduce gives the sum.
void addUp(int, ecclComm_t comm, std::string& report) {
  std::vector<float> values(3000, 1);
  int ranks = 0;
  ecclCommCount(comm, &ranks);
  const ecclResult_t result =
      ecclAllReduce(values.data(), values.data(), values.size(), ecclFloat32, ecclSum, comm, nullptr);
  if (result != ecclSuccess) report = ecclGetLastError(comm);
  if (result == ecclSuccess && values.front() == static_cast<float>(ranks) && values.back() == values.front())
    report = "sum";
}

TEST_F(SelectionFiles, WithoutAnyTheDefaultModelMakesTheTable) {
  const auto outcomes = join(2, {{"ECCL_TABLE_DUMP_FILE", folder_ + "dump"}}, addUp);
  EXPECT_THAT(outcomes, Each(Field(&test::Outcome::text, "sum")));
  EXPECT_EQ(read("dump"), tableHere(2));
}

TEST_F(SelectionFiles, ATableGivesChannelsAndTheLengthOfMessages) {
  const std::string table = write("table", "AllReduce * ring 2 1024\n");
  const auto outcomes = join(3, {{"ECCL_TABLE_FILE", table}, {"ECCL_TABLE_DUMP_FILE", folder_ + "dump"}},
                             [](int rank, ecclComm_t comm, std::string& report) {
                               addUp(rank, comm, report);
                               // 3000 floats in 3 parts and 2 channels, in messages of 1024 bytes: 2 tiles; not
                               // for two calls that differ.
                               double little = 0, much = 0;
                               ecclCostEstimate(comm, ecclCollAllReduce, 1500, ecclFloat32, 0, &little);
                               ecclCostEstimate(comm, ecclCollAllReduce, 3000, ecclFloat32, 0, &much);
                               if (report == "sum" && !(much > 1.2 * little))
                                 report = format("%g, %g", little, much);
                             });
  EXPECT_THAT(outcomes, Each(Field(&test::Outcome::text, "sum")));
  EXPECT_THAT(read("dump"), StartsWith("AllReduce * ring 2 1024\nAllGather"));
}

TEST_F(SelectionFiles, ATableOverridesTheCollectivesItNames) {
  const std::string table = write("table", "# ours\nAllReduce 8 ring\nAllReduce * tree\n");
  const auto outcomes = join(
      3, {{"ECCL_TABLE_FILE", table}, {"ECCL_TABLE_DUMP_FILE", folder_ + "dump"}, {"ECCL_TRANSPORT", "tcp"}},
      addUp);
  EXPECT_THAT(outcomes, Each(Field(&test::Outcome::text, "sum")));
  EXPECT_THAT(read("dump"),
              AllOf(StartsWith("AllReduce 8 ring\nAllReduce * tree\nAllGather"), HasSubstr("Broadcast")));
}

TEST_F(SelectionFiles, ACostModelOrTheSpeedsOfRank0MakeTheTable) {
  algorithms::CostParameters slow;
  slow[algorithms::CostTerm::networkLatency] = 1000;  // so that rounds are all that counts
  slow[algorithms::CostTerm::notice] = 1000;
  const algorithms::CostModel model(slow, {});
  const std::string table = tableHere(4, model);
  ASSERT_NE(table, tableHere(4));
  for (const char* setting : {"ECCL_COST_FILE", "ECCL_SPEEDS_FILE"}) {
    const auto outcomes =
        join(4, {{setting, write("model", model.text())}, {"ECCL_TABLE_DUMP_FILE", folder_ + "dump"}}, addUp);
    EXPECT_THAT(outcomes, Each(Field(&test::Outcome::text, "sum")));
    EXPECT_EQ(read("dump"), table) << setting;
  }
}

TEST_F(SelectionFiles, AFileThatIsWrongIsEverybodysError) {
  for (const auto& [setting, text, message] :
       {std::tuple{"ECCL_TABLE_FILE", "AllReduce * rong\n",
                   ":1: \"AllReduce * rong\": the third word is an algorithm"},
        std::tuple{"ECCL_COST_FILE", "call 1\nspeed 3\n", ":2: \"speed 3\": there is no such constant"},
        std::tuple{"ECCL_COST_FILE", "", ":1: the cost model is empty"},
        std::tuple{"ECCL_COST_FILE", "call 1\nmove 2", ":2: the last line of the cost model has no end"},
        std::tuple{"ECCL_TABLE_FILE", "", ":1: the table of algorithms is empty"}}) {
    const std::string file = write("wrong", text);
    const auto outcomes = join(3, {{setting, file}}, addUp);
    for (const test::Outcome& outcome : outcomes)
      EXPECT_THAT(outcome.text, AllOf(HasSubstr("rank 0: " + file + message))) << setting;
  }
  EXPECT_THAT(join(2, {{"ECCL_COST_FILE", folder_ + "none"}}, addUp),
              Each(Field(&test::Outcome::text,
                         HasSubstr("rank 0: the cost model " + folder_ + "none cannot be opened"))));
}

TEST_F(SelectionFiles, ADumpThatCannotBeWrittenIsAWarning) {
  const std::string path = folder_ + "none/dump";
  const auto outcomes = test::runProcesses(2, [&](int rank, test::Board& board, std::string& report) {
    setenv("ECCL_TABLE_DUMP_FILE", path.c_str(), 1);
    dup2(open((folder_ + "log").c_str(), O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0600), STDERR_FILENO);
    ecclComm_t comm = test::join(rank, 2, board, report);
    if (comm == nullptr) return 2;
    addUp(rank, comm, report);
    return ecclCommDestroy(comm) == ecclSuccess ? 0 : 3;
  });
  EXPECT_THAT(outcomes, Each(Field(&test::Outcome::text, "sum"))) << "the job goes on";
  EXPECT_THAT(outcomes, Each(Field(&test::Outcome::code, 0)));
  const std::string warning = "ECCL_TABLE_DUMP_FILE: the table of algorithms " + path +
                              " cannot be written: No such file or directory; rank 0 goes on without\n";
  EXPECT_THAT(read("log"), HasSubstr(warning));
  EXPECT_THAT(read("log"), Not(HasSubstr("rank 1"))) << "it is rank 0's to write";
}

/// Rank 0, which has these files, and another without any; in one thread.
class Agreement : public SelectionFiles {
 protected:
  void SetUp() override {
    SelectionFiles::SetUp();
    files_.costFile = write("cost", algorithms::CostModel().text());
    files_.tableFile = write("table", "AllReduce 8 ring\nAllReduce * tree\n");
  }
  /// What the other makes of it if rank 0 tells this.
  Result<Selection> hear(const std::string& told) const {
    return Selection::agree({}, 1, std::make_shared<const Placement>(here(2)),
                            [&](std::string_view) -> Result<std::vector<std::string>> {
                              return std::vector<std::string>{told, ""};
                            });
  }
  void expectError(const std::string& told, Code code, const char* message) const {
    const Status status = hear(told).status();
    EXPECT_EQ(status.code(), code);
    EXPECT_THAT(status.message(), HasSubstr(message));
  }
  Settings files_;
};

TEST_F(Agreement, WhatRank0TellsIsBoundedAndChecked) {
  std::string told;
  const auto tell = [&](std::string_view mine) -> Result<std::vector<std::string>> {
    told = mine;
    return std::vector<std::string>{told, ""};
  };
  const auto own = Selection::agree(files_, 0, std::make_shared<const Placement>(here(2)), tell);
  ASSERT_TRUE(own.ok()) << own.status().message();
  const auto heard = hear(told);
  ASSERT_TRUE(heard.ok()) << heard.status().message();
  EXPECT_EQ(algorithms::textOf(heard->rules), algorithms::textOf(own->rules));
  EXPECT_THAT(algorithms::textOf(heard->rules), StartsWith("AllReduce 8 ring\nAllReduce * tree\n"));

  const char* const kUnreadable = "rank 0 tells no table of algorithms that can be read";
  for (size_t size = 0; size < told.size(); ++size)
    expectError(told.substr(0, size), Code::remote, kUnreadable);
  expectError(told + "x", Code::remote, kUnreadable);
  expectError(std::string(100, '\xff'), Code::remote, kUnreadable);
  const auto telling = [](const char* wrong, const char* model, const char* rules) {
    return transport::ByteWriter().text(wrong).text(model).text(rules).take();
  };
  expectError(telling("no file", "", ""), Code::invalidUsage, "rank 0: no file");
  expectError(telling("", "speed 3", ""), Code::invalidArgument,
              "the cost model of rank 0:1: \"speed 3\": there is");
  expectError(telling("", "", "AllReduce * rong"), Code::invalidArgument,
              "the table of algorithms of rank 0:1: \"AllReduce * rong\": the third word");
  expectError(telling("", "", "AllReduce 8 ring"), Code::invalidArgument, "the last line of AllReduce must be");
}

/// "ok", or what is wrong with the estimates.
void estimate(int rank, ecclComm_t comm, std::string& report) {
  double little = -1, much = -1, pair = -1;
  if (ecclCostEstimate(comm, ecclCollAllReduce, 1000, ecclFloat32, 0, &little) != ecclSuccess ||
      ecclCostEstimate(comm, ecclCollAllReduce, 1000000, ecclFloat32, 0, &much) != ecclSuccess ||
      ecclCostEstimate(comm, ecclCollAllReduce, 1000000, ecclFloat32, 2, &pair) != ecclSuccess) {
    report = ecclGetLastError(comm);
    return;
  }
  if (!(little > 0 && much > little && pair > 0 && pair < much)) {
    report = format("%g, %g, %g", little, much, pair);
    return;
  }
  for (const auto& [collective, type, ranks] :
       {std::tuple{99, 7, 0}, std::tuple{0, 99, 0}, std::tuple{0, 7, 4}, std::tuple{0, 7, -1}}) {
    if (ecclCostEstimate(comm, static_cast<ecclCollective_t>(collective), 1, static_cast<ecclDataType_t>(type),
                         ranks, &pair) != ecclInvalidArgument)
      report = format("(%d, %d, %d) was taken", collective, type, ranks);
  }
  // A group that is simulated does nothing: no peer takes part.
  std::vector<float> values(1000, 1);
  ecclSimInfo_t info = ECCL_SIM_INFO_INITIALIZER;
  auto simulated = [&](auto calls) {
    ecclGroupStart();
    calls();
    info.estimatedTime = ECCL_SIM_INFO_UNDEFINED;
    return ecclGroupSimulateEnd(&info) == ecclSuccess ? info.estimatedTime : -1.0F;
  };
  auto add = [&] { ecclAllReduce(values.data(), values.data(), 1000, ecclFloat32, ecclSum, comm, nullptr); };
  auto send = [&] { ecclSend(values.data(), 1000, ecclFloat32, (rank + 1) % 3, comm, nullptr); };
  auto receive = [&] { ecclRecv(values.data(), 1000, ecclFloat32, (rank + 2) % 3, comm, nullptr); };
  const float one = simulated(add), two = simulated([&] { add(), add(); });
  const float exchange = simulated([&] { send(), receive(); }), only = simulated(send);
  if (!(one > 0 && std::abs(two - 2 * one) < 1e-3F * one && only > 0 && exchange >= only &&
        exchange < 2 * only))
    report = format("%g, %g; %g, %g", one, two, exchange, only);
  if (values[0] != 1) report = "a simulated group did something";
  ecclGroupStart();
  add();
  info.magic = 0;
  if (ecclGroupSimulateEnd(&info) != ecclInvalidArgument) report = "any bytes are taken for an ecclSimInfo_t";
  info = ECCL_SIM_INFO_INITIALIZER;
  if (ecclGroupSimulateEnd(&info) != ecclInvalidUsage && report.empty()) report = "the group did not end";
  if (report.empty()) addUp(rank, comm, report);  // and what is called next is done
}

TEST_F(SelectionFiles, CallsAndGroupsHaveEstimates) {
  EXPECT_THAT(join(3, {}, estimate), Each(Field(&test::Outcome::text, "sum")));
  const algorithms::CostModel model;
  EXPECT_THAT(join(3, {{"ECCL_COST_FILE", write("cost", model.text())}}, estimate),
              Each(Field(&test::Outcome::text, "sum")));
}

}  // namespace
}  // namespace eccl::runtime
