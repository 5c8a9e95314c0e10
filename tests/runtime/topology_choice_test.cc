// The topology reaches the choice of algorithms: ranks that are processes of this machine are told by
// ECCL_TOPO_FILE that they are on hosts of their own, and how fast these hosts' ports are.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "algorithms/selection/selection_rules.h"
#include "support/processes.h"
#include "support/temporary_folder.h"
#include "support/told_hosts.h"
#include "topology/data_files.h"
#include "topology/formats/host_json.h"

namespace eccl::runtime {
namespace {

using ::testing::Each;
using ::testing::Field;

constexpr int kChoiceRanks = 6;

class TopologyChoice : public test::TemporaryFolder {
 protected:
  std::string host(const std::string& name, int megabits) const {
    return test::toldHost(folder_, name, megabits);
  }
  /// Six ranks, three on each of these hosts, add up vectors; what they choose by.
  std::string tableOf(const std::string& firstHost, const std::string& secondHost,
                      const std::string& algorithm = "") const {
    const auto outcomes =
        test::runProcesses(kChoiceRanks, [&](int rank, test::Board& board, std::string& report) {
          setenv("ECCL_DEBUG", "NONE", 1);
          setenv("ECCL_TRANSPORT", "tcp", 1);
          setenv("ECCL_TOPO_FILE", (rank < kChoiceRanks / 2 ? firstHost : secondHost).c_str(), 1);
          setenv("ECCL_TABLE_DUMP_FILE", (folder_ + "table").c_str(), 1);
          if (!algorithm.empty()) setenv("ECCL_ALGO", algorithm.c_str(), 1);
          ecclComm_t comm = test::join(rank, kChoiceRanks, board, report);
          if (comm == nullptr) return 2;
          for (const size_t count : {size_t{1}, size_t{3001}, size_t{400'000}}) {
            std::vector<float> values(count, static_cast<float>(rank + 1));
            if (ecclAllReduce(values.data(), values.data(), count, ecclFloat32, ecclSum, comm, nullptr) !=
                ecclSuccess)
              return report = ecclGetLastError(comm), 3;
            if (values != std::vector<float>(count, 21)) return report = "no sum", 4;
          }
          return ecclCommDestroy(comm) == ecclSuccess ? 0 : 5;
        });
    for (const test::Outcome& outcome : outcomes) EXPECT_EQ(outcome.code, 0) << outcome.text;
    std::stringstream text;
    text << std::ifstream(folder_ + "table").rdbuf();
    return text.str();
  }
  static std::string chosen(const std::string& text, Collective collective, size_t bytes) {
    algorithms::SelectionTable table;
    auto rules = algorithms::parseRules(text, "the table");
    EXPECT_TRUE(rules.ok()) << rules.status().message();
    if (rules.ok()) table.rules = rules.take();
    return algorithms::select(collective, bytes, kChoiceRanks, table).algorithm->name;
  }
};

#define ECCL_NEEDS_TALES() \
  if (!canReadXml() || !topology::haveJson()) GTEST_SKIP() << "built without pugixml or nlohmann-json"

TEST_F(TopologyChoice, SlowAndFastPortsLeadToDifferentChoices) {
  ECCL_NEEDS_TALES();
  const std::string slow = tableOf(host("a", 100), host("b", 100)),
                    fast = tableOf(host("c", 400'000), host("d", 400'000));
  EXPECT_NE(slow, fast);
  int differ = 0;
  for (Collective collective : {Collective::allReduce, Collective::allGather, Collective::broadcast}) {
    for (size_t bytes = 64; bytes <= size_t{16} << 20; bytes *= 4)
      differ += chosen(slow, collective, bytes) != chosen(fast, collective, bytes);
  }
  EXPECT_GT(differ, 0) << "slow:\n" << slow << "fast:\n" << fast;
}

TEST_F(TopologyChoice, OneHostAndTwoLeadToDifferentChoices) {
  ECCL_NEEDS_TALES();
  const std::string first = host("a", 100), second = host("b", 100);
  const std::string one = tableOf(first, first), two = tableOf(first, second);
  EXPECT_EQ(one.find("hierarchical"), std::string::npos) << one;
  EXPECT_NE(two.find("hierarchical"), std::string::npos) << two;
}

TEST_F(TopologyChoice, AHierarchicalAlgorithmAddsUp) {
  ECCL_NEEDS_TALES();
  tableOf(host("a", 1000), host("b", 1000), "allreduce:hierarchical");
}

}  // namespace
}  // namespace eccl::runtime
