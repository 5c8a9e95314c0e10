// The searches on real machines.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>

#include "topology/formats/nccl_xml.h"
#include "topology/search/forest.h"
#include "topology/search/graph_of_host.h"
#include "topology/search/rings.h"

namespace eccl::topology {
namespace {

constexpr char kData[] = ECCL_SOURCE_DIR "/tests/topology/data";

std::vector<std::string> realFiles() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kData)) {
    if (entry.path().extension() == ".xml") names.push_back(entry.path().stem());
  }
  std::sort(names.begin(), names.end());
  return names;
}

class RealMachine : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    Result<Host> loaded = loadNcclXml(std::string(kData) + "/" + GetParam() + ".xml");
    ASSERT_TRUE(loaded.ok()) << loaded.status().message();
    host = loaded.take();
    graph = graphOf(host, participantsOf(host));
  }
  Host host;
  CapacityGraph graph;
};

// The aim is 95 % of what no schedule can exceed, with at most 32 channels.
TEST_P(RealMachine, HasTreesNearTheBound) {
  const auto begun = std::chrono::steady_clock::now();
  const Result<Forest> forest = searchForest(graph);
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begun;
  ASSERT_TRUE(forest.ok()) << forest.status().message();
  std::printf("%-24s %2zu accelerators: %2d channels, %6.2f of %6.2f GB/s each (%.3f), %.1f ms\n",
              GetParam().c_str(), graph.terminals.size(), forest->channels,
              forest->perTerminal() / kCapacityPerGigabyte, forest->bound.perTerminal() / kCapacityPerGigabyte,
              forest->ofBound(), took.count());
  EXPECT_GE(forest->ofBound(), 0.95);
  EXPECT_LE(forest->ofBound(), 1 + 1e-9);
}

TEST_P(RealMachine, HasRings) {
  const auto begun = std::chrono::steady_clock::now();
  const Result<Rings> rings = searchRings(graph);
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begun;
  ASSERT_TRUE(rings.ok()) << rings.status().message();
  std::printf("%-24s %2zu rings, %.3f of the bound, %.1f ms\n", GetParam().c_str(), rings->rings.size(),
              rings->ofBound(), took.count());
  EXPECT_LE(rings->ofBound(), 1 + 1e-9);
  EXPECT_GE(rings->ofBound(), 0.25);
}

INSTANTIATE_TEST_SUITE_P(Files, RealMachine, ::testing::ValuesIn(realFiles()), [](const auto& test) {
  return test.param.find('-') == std::string::npos
             ? test.param
             : std::string(test.param).replace(test.param.find('-'), 1, "_");
});

}  // namespace
}  // namespace eccl::topology
