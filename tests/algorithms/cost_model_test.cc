// The cost model's file, exact both ways and clear about what is wrong, and its corrections.
#include "algorithms/cost/cost_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <random>
#include <set>

namespace eccl::algorithms {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

const Algorithm& ring() {
  return *findAlgorithm(Collective::allReduce, "ring");
}
const Algorithm& tree() {
  return *findAlgorithm(Collective::allReduce, "tree");
}

CostModel modelOf(std::string_view text) {
  auto model = CostModel::parse(text, "file");
  EXPECT_TRUE(model.ok()) << model.status().message();
  return model.ok() ? model.take() : CostModel();
}

std::string errorOfModel(std::string_view text) {
  auto model = CostModel::parse(text, "file");
  if (model.ok()) return "it parses";
  EXPECT_EQ(model.status().code(), Code::invalidArgument);
  return model.status().message();
}

CostModel corrected(std::vector<Correction> corrections) {
  return {CostParameters::defaults(), std::move(corrections)};
}

TEST(CostTerms, HaveNamesOfTheirOwn) {
  std::set<std::string> names;
  for (int term = 0; term < kCostTerms; ++term) names.insert(nameOf(static_cast<CostTerm>(term)));
  EXPECT_EQ(names.size(), static_cast<size_t>(kCostTerms));
  EXPECT_EQ(nameOf(CostTerm::call), "call");
  EXPECT_EQ(nameOf(CostTerm::combine), "combine");
  EXPECT_EQ(nameOf(CostTerm::read), "read.64K");
  EXPECT_EQ(nameOf(CostTerm::write), "write.64K");
  EXPECT_EQ(nameOf(static_cast<CostTerm>(kCostTerms - 1)), "store.256000K");
}

TEST(CostModelText, ComesBackAsItWas) {
  EXPECT_EQ(modelOf(CostModel().text()), CostModel());
  std::mt19937_64 random(3);
  std::uniform_real_distribution<double> exponent(-300, 9), factor(-3, 3), bytes(0, 18);
  for (int round = 0; round < 200; ++round) {
    CostParameters parameters;
    for (double& value : parameters.values) value = random() % 4 == 0 ? 0 : std::pow(10, exponent(random));
    std::vector<Correction> corrections;
    for (const Algorithm& algorithm : algorithms()) {
      for (int ranks = 1; ranks < 1 << 20; ranks = 1 + ranks * 40)
        corrections.push_back(
            {&algorithm, random() % 2 == 0, ranks, std::pow(10, bytes(random)), std::pow(10, factor(random))});
    }
    std::shuffle(corrections.begin(), corrections.end(), random);
    const CostModel model(parameters, corrections);
    const CostModel again = modelOf(model.text());
    ASSERT_EQ(again, model);
    ASSERT_EQ(again.text(), model.text());
  }
}

TEST(CostModelText, WhatIsNotGivenIsTheDefault) {
  EXPECT_EQ(modelOf(""), CostModel());
  EXPECT_EQ(modelOf("\n \t\n# call 5\n"), CostModel());
  CostParameters parameters = CostParameters::defaults();
  parameters[CostTerm::notice] = 0.5;
  parameters[CostTerm::store] = 1e9;
  EXPECT_EQ(modelOf("notice 0.5\r\n\tstore.64K  1e9 # much\n").parameters(), parameters);
  EXPECT_EQ(modelOf("store.64K 1e9\nnotice 5e-1").parameters(), parameters);
}

TEST(CostModelText, CorrectionsAreRead) {
  EXPECT_EQ(modelOf("correct AllReduce ring memory 2 65536 1.25\ncorrect AllReduce ring network 4 8 0.5\n")
                .corrections(),
            (std::vector<Correction>{{&ring(), false, 4, 8, 0.5}, {&ring(), true, 2, 65536, 1.25}}));
}

TEST(CostModelText, SaysWhatIsWrongAndInWhichLine) {
  const std::pair<const char*, const char*> kWrong[] = {
      {"latency 5", "there is no such constant"},
      {"read 5", "there is no such constant"},
      {"Call 5", "there is no such constant"},
      {"notice", "one number from 0 to 1e9"},
      {"notice -1", "one number from 0 to 1e9"},
      {"notice 1.1e9", "one number from 0 to 1e9"},
      {"notice nan", "one number from 0 to 1e9"},
      {"notice inf", "one number from 0 to 1e9"},
      {"notice 0x10", "one number from 0 to 1e9"},
      {"notice 1e999", "one number from 0 to 1e9"},
      {"notice 1us", "one number from 0 to 1e9"},
      {"notice 1 2", "one number from 0 to 1e9"},
      {"call 2", "the constant is given for the second time"},
      {"correct", "there is no such algorithm"},
      {"correct AllReduce chain memory 2 8 1", "there is no such algorithm"},
      {"correct allreduce ring memory 2 8 1", "there is no such algorithm"},
      {"correct AllReduce ring 2 8 1", "memory or network"},
      {"correct AllReduce ring memory 0 8 1", "the ranks must be from 1 to 1048576"},
      {"correct AllReduce ring memory 1048577 8 1", "the ranks must be from 1 to 1048576"},
      {"correct AllReduce ring memory 2.0 8 1", "the ranks must be from 1 to 1048576"},
      {"correct AllReduce ring memory 2 0.5 1", "the bytes must be from 1 to 1e18"},
      {"correct AllReduce ring memory 2 2e18 1", "the bytes must be from 1 to 1e18"},
      {"correct AllReduce ring memory 2 8", "the factor must be from 0.001 to 1000"},
      {"correct AllReduce ring memory 2 8 0.0009", "the factor must be from 0.001 to 1000"},
      {"correct AllReduce ring memory 2 8 1001", "the factor must be from 0.001 to 1000"},
      {"correct AllReduce ring memory 2 8 1 1", "a word too many"},
      {"correct AllReduce tree memory 3 8 1", "for the second time"},
  };
  for (const auto& [line, what] : kWrong) {
    const std::string text =
        std::string("# a file\ncall 1\ncorrect AllReduce tree memory 3 8.0 2\n\n") + line + "\nhand-over 1\n";
    EXPECT_THAT(errorOfModel(text), AllOf(StartsWith("file:5: \"" + std::string(line)), HasSubstr(what)));
  }
}

TEST(CostModelText, LongLinesAreNotRepeatedWhole) {
  EXPECT_LT(errorOfModel(std::string(100'000, 'x')).size(), 200u);
}

class CostModelFile : public ::testing::Test {
 protected:
  void SetUp() override {
    path_ = std::filesystem::temp_directory_path() / ("eccl-cost-model-" + std::to_string(getpid()));
  }
  void TearDown() override { std::filesystem::remove_all(path_); }
  void write(const std::string& text) const { std::ofstream(path_, std::ios::binary) << text; }
  std::string error() const {
    const auto model = CostModel::load(path_);
    return model.ok() ? "it loads" : model.status().message();
  }
  std::filesystem::path path_;
};

TEST_F(CostModelFile, IsLoaded) {
  const CostModel model({}, {{&ring(), true, 2, 8, 3}});
  write(model.text());
  const auto loaded = CostModel::load(path_);
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  EXPECT_EQ(*loaded, model);
}

TEST_F(CostModelFile, IsAnErrorWhereverItIsCut) {
  const std::string text = CostModel({}, {{&ring(), true, 2, 8, 3}, {&ring(), true, 4, 8, 2}}).text();
  for (size_t length = 0; length < text.size(); ++length) {
    write(text.substr(0, length));
    EXPECT_THAT(error(), HasSubstr(path_.string() + ":")) << length;
  }
  write(text);
  EXPECT_EQ(error(), "it loads");
  write(text + "correct AllReduce tree memory 2 8 3\n");
  EXPECT_THAT(error(), HasSubstr("lines of the "));
  for (const char* blank : {"", "\n", " \t\n\r\n"}) {
    write(blank);
    EXPECT_THAT(error(), HasSubstr(": the cost model is empty")) << blank;
  }
  write("lines 1\nlines 1\n");
  EXPECT_THAT(error(), HasSubstr(":2: \"lines 1\": their number goes before the lines"));
  write("call 1\nlines 1\n");
  EXPECT_THAT(error(), HasSubstr(":2: "));
  for (const char* number : {"", "0", "-1", "x", "1 2", "99999999999999999999"}) {
    write(std::string("lines ") + number + "\ncall 1\n");
    EXPECT_THAT(error(), HasSubstr(":1: \"lines")) << number;
  }
}

TEST_F(CostModelFile, MayHoldSomeConstantsOnly) {
  write("# by hand\ncall 7\n");
  const auto loaded = CostModel::load(path_);
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  EXPECT_EQ(loaded->parameters()[CostTerm::call], 7);
  EXPECT_EQ(loaded->parameters()[CostTerm::move], CostModel().parameters()[CostTerm::move]);
}

TEST_F(CostModelFile, ErrorsNameIt) {
  EXPECT_THAT(error(), AllOf(HasSubstr(path_.string()), HasSubstr("No such file")));
  write("call 1\ncall x\n");
  EXPECT_THAT(error(), HasSubstr(path_.string() + ":2: "));
  write(std::string((16 << 20) + 1, '\n'));
  EXPECT_THAT(error(), AllOf(HasSubstr(path_.string()), HasSubstr("longer than")));
  std::filesystem::remove(path_);
  std::filesystem::create_directory(path_);
  EXPECT_THAT(error(), AllOf(HasSubstr(path_.string()), HasSubstr("cannot be read")));
}

TEST(Corrections, AreNoneWithoutMeasurementsOfTheKind) {
  EXPECT_EQ(CostModel().factorFor(ring(), true, 2, 8), 1);
  const CostModel model = corrected({{&ring(), true, 2, 1000, 3}});
  EXPECT_EQ(model.factorFor(ring(), false, 2, 1000), 1);
  EXPECT_EQ(model.factorFor(tree(), true, 2, 1000), 1);
  EXPECT_EQ(model.factorFor(*findAlgorithm(Collective::allGather, "ring"), true, 2, 1000), 1);
}

TEST(Corrections, OneIsForAllSizesAndRanks) {
  const CostModel model = corrected({{&ring(), true, 4, 1000, 3}});
  for (int ranks : {1, 4, 100})
    for (double bytes : {0.0, 1.0, 1000.0, 1e15})
      EXPECT_DOUBLE_EQ(model.factorFor(ring(), true, ranks, bytes), 3) << ranks << " ranks, " << bytes;
}

TEST(Corrections, AreInterpolatedOverTheLogarithmOfTheBytes) {
  const CostModel model =
      corrected({{&ring(), true, 4, 1e6, 2}, {&ring(), true, 4, 1e2, 8}, {&ring(), true, 4, 1e4, 0.5}});
  auto factor = [&](double bytes) { return model.factorFor(ring(), true, 4, bytes); };
  EXPECT_DOUBLE_EQ(factor(1e2), 8);
  EXPECT_DOUBLE_EQ(factor(1e4), 0.5);
  EXPECT_DOUBLE_EQ(factor(1e6), 2);
  EXPECT_NEAR(factor(1e3), 2, 1e-12);  // half way, and of 8 and 1/2
  EXPECT_NEAR(factor(1e5), 1, 1e-12);
  EXPECT_NEAR(factor(std::pow(10, 2.5)), 4, 1e-12);
  EXPECT_DOUBLE_EQ(factor(1), 8);
  EXPECT_DOUBLE_EQ(factor(1e9), 2);
}

TEST(Corrections, AreInterpolatedOverTheLogarithmOfTheRanks) {
  const CostModel model =
      corrected({{&ring(), true, 32, 1000, 8}, {&ring(), true, 2, 1000, 2}, {&ring(), true, 8, 1000, 0.5}});
  auto factor = [&](int ranks) { return model.factorFor(ring(), true, ranks, 1000); };
  EXPECT_DOUBLE_EQ(factor(2), 2);
  EXPECT_DOUBLE_EQ(factor(8), 0.5);
  EXPECT_DOUBLE_EQ(factor(32), 8);
  EXPECT_NEAR(factor(4), 1, 1e-12);
  EXPECT_NEAR(factor(16), 2, 1e-12);
  EXPECT_DOUBLE_EQ(factor(1), 2);
  EXPECT_DOUBLE_EQ(factor(1000), 8);
}

TEST(Corrections, AreInterpolatedOverBytesFirstThenRanks) {
  const CostModel model = corrected({{&ring(), true, 2, 1e2, 4},
                                     {&ring(), true, 2, 1e4, 1},
                                     {&ring(), true, 8, 1e3, 8},
                                     {&tree(), true, 4, 1e3, 100},
                                     {&ring(), false, 4, 1e3, 100}});
  // 2 at 2 ranks, 8 at 8, each at 1000 bytes.
  EXPECT_NEAR(model.factorFor(ring(), true, 4, 1e3), 4, 1e-12);
  EXPECT_NEAR(model.factorFor(ring(), true, 4, 1e9), std::sqrt(1 * 8), 1e-12);
}

TEST(Prediction, IsTheSimulationCorrected) {
  const auto programs = buildAll(ring(), {Collective::allReduce, 4, 0}, 1);
  const CallSize size = {.elements = 256, .elementBytes = 4};
  const CostModel model =
      corrected({{&ring(), true, 4, 1024, 3}, {&ring(), true, 4, 256, 50}, {&ring(), false, 4, 1024, 7}});
  for (const auto& [placement, factor] :
       {std::pair(Placement::oneHost(4, 4), 3), std::pair(Placement::hosts(4), 7)}) {
    const auto time = simulatedTime(programs, size, placement, model.parameters());
    const auto predicted = model.predict(ring(), programs, size, placement);
    ASSERT_TRUE(time.ok() && predicted.ok());
    EXPECT_DOUBLE_EQ(*predicted, *time * factor);
  }
}

}  // namespace
}  // namespace eccl::algorithms
