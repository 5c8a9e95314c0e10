// The file of measured calls: exact both ways, and clear about what is wrong.
#include "algorithms/cost/measurement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace eccl::algorithms {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::vector<Measurement> measurementsOf(std::string_view text) {
  auto measurements = parseMeasurements(text, "file");
  EXPECT_TRUE(measurements.ok()) << measurements.status().message();
  return measurements.ok() ? measurements.take() : std::vector<Measurement>{};
}

std::string errorOfMeasurements(std::string_view text) {
  auto measurements = parseMeasurements(text, "file");
  if (measurements.ok()) return "it parses";
  EXPECT_EQ(measurements.status().code(), Code::invalidArgument);
  return measurements.status().message();
}

void expectSame(const std::vector<Measurement>& found, const std::vector<Measurement>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    const Measurement &a = found[i], &b = expected[i];
    EXPECT_EQ(a.algorithm, b.algorithm);
    EXPECT_EQ(a.size.elements, b.size.elements);
    EXPECT_EQ(a.size.elementBytes, b.size.elementBytes);
    EXPECT_EQ(a.size.slotBytes, b.size.slotBytes);
    EXPECT_EQ(a.size.slots, b.size.slots);
    EXPECT_EQ(a.size.registered, b.size.registered);
    EXPECT_EQ(a.placement, b.placement);
    EXPECT_EQ(a.microseconds, b.microseconds);
  }
}

TEST(Measurements, ComeBackAsTheyWere) {
  std::mt19937_64 random(5);
  std::uniform_real_distribution<double> exponent(-6, 12), cores(1, 1e6);
  std::vector<Measurement> measurements;
  Placement placement = Placement::hosts(3);
  for (int round = 0; round < 500; ++round) {
    if (random() % 3 == 0) {
      std::vector<RankLocation> locations(1 + random() % 9);
      for (RankLocation& location : locations) {
        location = {std::to_string(random() % 4), std::to_string(random() % 4), std::to_string(random() % 4),
                    cores(random)};
      }
      placement = Placement(locations);
    }
    const CallSize size = {1 + random() % (uint64_t{1} << 50), static_cast<uint32_t>(1 + random() % 16),
                           64 + random() % (1 << 20), static_cast<int>(2 + random() % 1000), random() % 2 == 0};
    measurements.push_back(
        {&algorithms()[random() % algorithms().size()], size, placement, std::pow(10, exponent(random))});
  }
  const std::string text = textOf(measurements);
  expectSame(measurementsOf(text), measurements);
  EXPECT_EQ(textOf(measurementsOf(text)), text);
  EXPECT_EQ(textOf(std::vector<Measurement>{}), "");
}

TEST(Measurements, AreLines) {
  const auto found = measurementsOf(
      "# two calls on two hosts\n"
      "ranks 0:0:0 0:0:0 1:1:1\ncores 2 8.5\n"
      "\tcall AllReduce ring 1024 4 131072 8 registered 12.5 # of many\r\n"
      "\n"
      "call Broadcast chain 8 1 64 2 plain 1e-6");
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].algorithm, findAlgorithm(Collective::allReduce, "ring"));
  EXPECT_EQ(found[0].blockBytes(), 4096);
  EXPECT_EQ(found[0].shape().ranks, 3);
  EXPECT_EQ(found[0].shape().collective, Collective::allReduce);
  EXPECT_EQ(found[0].programs().size(), 3u);
  EXPECT_EQ(found[0].placement.memory, (std::vector<int>{0, 0, 1}));
  EXPECT_EQ(found[0].placement.cores, (std::vector<double>{2, 8.5}));
  EXPECT_TRUE(found[0].size.registered);
  EXPECT_EQ(found[0].microseconds, 12.5);
  EXPECT_EQ(found[1].placement, found[0].placement);
  EXPECT_EQ(found[1].size.slots, 2);
  EXPECT_FALSE(found[1].size.registered);
  EXPECT_TRUE(measurementsOf("").empty());
}

TEST(Measurements, SayWhatIsWrongAndInWhichLine) {
  const char* const kRank = "a rank is MACHINE:MEMORY:PORT";
  const char* const kCall = "after the algorithm go elements";
  const std::pair<std::string, std::string> kWrong[] = {
      {"rank 0:0:0", "a line begins with ranks, cores or call"},
      {"ranks", "there are no ranks"},
      {"ranks 0", kRank},
      {"ranks 0:0", kRank},
      {"ranks 0:0:", kRank},
      {"ranks 0:0:0:", kRank},
      {"ranks 0:0:0:0", kRank},
      {"ranks 0:-1:0", kRank},
      {"ranks a:0:0", kRank},
      {"ranks 0:0:65537", kRank},
      {"ranks :0:0", kRank},
      {"ranks 0: 0:0", kRank},
      {"cores 0", "a number from 1"},
      {"cores 1 0.5", "a number from 1"},
      {"cores many", "a number from 1"},
      {"cores inf", "a number from 1"},
      {"call", "there is no such algorithm"},
      {"call AllReduce chain 1 4 64 2 plain 1", "there is no such algorithm"},
      {"call AllReduce ring", kCall},
      {"call AllReduce ring 0 4 64 2 plain 1", kCall},
      {"call AllReduce ring 1125899906842625 4 64 2 plain 1", kCall},
      {"call AllReduce ring 1 0 64 2 plain 1", kCall},
      {"call AllReduce ring 1 17 64 2 plain 1", kCall},
      {"call AllReduce ring 1 4 63 2 plain 1", kCall},
      {"call AllReduce ring 1 4 64 1 plain 1", kCall},
      {"call AllReduce ring 1 4 64 1025 plain 1", kCall},
      {"call AllReduce ring 1.5 4 64 2 plain 1", kCall},
      {"call AllReduce ring 1 4 64 2 1", "registered or plain"},
      {"call AllReduce ring 1 4 64 2 plain", "the last word is the microseconds"},
      {"call AllReduce ring 1 4 64 2 plain 0", "the last word is the microseconds"},
      {"call AllReduce ring 1 4 64 2 plain nan", "the last word is the microseconds"},
      {"call AllReduce ring 1 4 64 2 plain 1e13", "the last word is the microseconds"},
      {"call AllReduce ring 1 4 64 2 plain 1 2", "the last word is the microseconds"},
  };
  for (const auto& [line, what] : kWrong) {
    EXPECT_THAT(errorOfMeasurements("ranks 0:0:0 1:1:1\ncores 1 1\n\n" + line + "\n# after\n"),
                AllOf(StartsWith("file:4: \"" + line), HasSubstr(what)));
  }
}

TEST(Measurements, CallsComeAfterTheirRanksAndCores) {
  const std::string call = "call AllReduce ring 1 4 64 2 plain 1\n";
  EXPECT_THAT(errorOfMeasurements(call), HasSubstr("file:1: "));
  EXPECT_THAT(errorOfMeasurements(call), HasSubstr("the ranks are missing above"));
  EXPECT_THAT(errorOfMeasurements("ranks 0:0:0\n" + call),
              HasSubstr("the cores of a machine are missing above"));
  EXPECT_THAT(errorOfMeasurements("ranks 0:0:0 1:0:0\ncores 4\n" + call), HasSubstr("file:3: "));
  EXPECT_THAT(errorOfMeasurements("cores 4\nranks 0:0:0\n" + call),
              HasSubstr("the cores of a machine are missing above"));
  // New ranks have new cores.
  EXPECT_THAT(errorOfMeasurements("ranks 0:0:0\ncores 4\n" + call + "ranks 0:0:0\n" + call),
              HasSubstr("file:5: "));
}

TEST(Measurements, LongLinesAreNotRepeatedWhole) {
  EXPECT_LT(errorOfMeasurements("call " + std::string(100'000, 'x')).size(), 200u);
}

TEST(Measurements, RanksAreBounded) {
  std::string text = "ranks";
  for (int rank = 0; rank <= 1 << 16; ++rank) text += " 0:0:0";
  EXPECT_THAT(errorOfMeasurements(text), HasSubstr("too many ranks"));
}

}  // namespace
}  // namespace eccl::algorithms
