// The speeds of this machine: how they are measured, and the file that keeps them.
#include "runtime/calibration/machine_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "base/text_file.h"
#include "runtime/calibration/machine_speeds.h"
#include "support/temporary_folder.h"
#include "topology/probe/host_summary.h"

namespace eccl::runtime {
namespace {

using algorithms::CostModel;
using algorithms::CostParameters;
using algorithms::CostTerm;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

TEST(ProcessorsOf, AreOfTwoCoresWherePossible) {
  auto pair = [](const std::vector<int>& allowed, const std::vector<int>& online,
                 const std::vector<int>& threads) {
    const auto found = processorsOf(allowed, online, threads);
    return found ? std::pair(found->first, found->second) : std::pair(-1, -1);
  };
  EXPECT_EQ(pair({0, 1}, {0, 1}, {0}), std::pair(0, 1));
  EXPECT_EQ(pair({4, 5, 6}, {0, 1, 4, 5, 6}, {4, 5}), std::pair(4, 6)) << "5 is a thread of 4's core";
  EXPECT_EQ(pair({2}, {0, 1, 2, 3}, {0, 2}), std::pair(2, 1)) << "bound to one, and another's is borrowed";
  EXPECT_EQ(pair({4, 5}, {4, 5}, {4, 5}), std::pair(4, 5)) << "one core is all there is";
  EXPECT_EQ(pair({4, 5}, {4, 5, 6}, {4, 5}), std::pair(4, 6));
  EXPECT_EQ(pair({3}, {3}, {3}), std::pair(-1, -1));
  EXPECT_EQ(pair({}, {0, 1}, {}), std::pair(-1, -1));
}

/// Two processors of this machine.
std::optional<ProcessorPair> two() {
  const topology::Processors here = topology::processors();
  return processorsOf(here.allowed, here.online, here.threads);
}

constexpr size_t kShare = 16 << 20;

template <class T>
bool busy(const Result<T>& measured) {
  return !measured.ok() && measured.status().message().find("busy with something else") != std::string::npos;
}
/// What else there is may have the processors for a while, or for ever.
template <class Measure>
auto untilIdle(Measure measure) {
  auto measured = measure();
  for (int tries = 1; tries < 50 && busy(measured); ++tries) measured = measure();
  return measured;
}

TEST(MachineSpeeds, TimingsArePlausible) {
  const auto pair = two();
  if (!pair) GTEST_SKIP() << "this machine has one processor";
  CostParameters defaults;
  defaults[CostTerm::call] = 123;
  const auto speeds = untilIdle([&] { return measureSpeeds(*pair, kShare, defaults); });
  if (busy(speeds)) GTEST_SKIP() << speeds.status().message();
  ASSERT_TRUE(speeds.ok()) << speeds.status().message();
  for (int term = 0; term < algorithms::kCostTerms; ++term) {
    const double value = speeds->values[static_cast<size_t>(term)];
    const bool measured =
        term == static_cast<int>(CostTerm::notice) || term == static_cast<int>(CostTerm::slotWrite) ||
        term == static_cast<int>(CostTerm::slotRead) || term >= static_cast<int>(CostTerm::read);
    if (measured) {
      EXPECT_GT(value, 1e-3) << nameOf(static_cast<CostTerm>(term));
      EXPECT_LT(value, 1e4) << nameOf(static_cast<CostTerm>(term));
    } else {
      EXPECT_EQ(value, defaults.values[static_cast<size_t>(term)]) << nameOf(static_cast<CostTerm>(term));
    }
  }
  // No machine copies what is past its caches faster than what is in the first of them.
  auto copy = [&](int level) {
    return speeds->values[static_cast<size_t>(CostTerm::read) + static_cast<size_t>(level)] +
           speeds->values[static_cast<size_t>(CostTerm::write) + static_cast<size_t>(level)];
  };
  EXPECT_GT(copy(algorithms::kMemoryLevels - 1), copy(0));
}

TEST(MachineSpeeds, BesideOtherWorkAreNotThoseOfTheMachine) {
  const auto pair = two();
  if (!pair) GTEST_SKIP() << "this machine has one processor";
  std::atomic<bool> stop{false};
  std::vector<std::thread> others;
  for (const int processor : {pair->first, pair->second, pair->first, pair->second}) {
    others.emplace_back([&stop, processor] {
      cpu_set_t set;
      CPU_ZERO(&set);
      CPU_SET(static_cast<size_t>(processor), &set);
      sched_setaffinity(0, sizeof set, &set);
      while (!stop) continue;
    });
  }
  const auto speeds = measureSpeeds(*pair, kShare, CostParameters::defaults());
  stop = true;
  for (std::thread& other : others) other.join();
  ASSERT_FALSE(speeds.ok());
  EXPECT_THAT(speeds.status().message(), HasSubstr("busy with something else"));
}

TEST(MachineSpeeds, AProcessorThatIsNotThereIsNamed) {
  const auto speeds =
      measureSpeeds({topology::processors().allowed.front(), 1023}, kShare, CostParameters::defaults());
  ASSERT_FALSE(speeds.ok());
  EXPECT_THAT(speeds.status().message(), HasSubstr("processor 1023, to measure on, may not be used"));
}

class SpeedsFile : public test::TemporaryFolder {
 protected:
  void SetUp() override {
    TemporaryFolder::SetUp();
    settings_.speedsFile = folder_ + "speeds";
  }
  void write(const std::string& text) const { std::ofstream(settings_.speedsFile) << text; }
  /// A text that is no machine's.
  static CostModel strange() {
    CostParameters parameters = CostParameters::defaults();
    parameters[CostTerm::slotRead] = 4321;
    return CostModel(parameters, {});
  }

  Settings settings_;
};

TEST_F(SpeedsFile, IsReadWhereThereIsOne) {
  write("# by hand\n" + strange().text());
  for (auto* model : {&machineModel, &keptModel}) {
    const auto machine = model(settings_);
    ASSERT_TRUE(machine.ok()) << machine.status().message();
    EXPECT_EQ(machine->model, strange());
    EXPECT_EQ(machine->file, settings_.speedsFile);
    EXPECT_THAT(machine->why, IsEmpty());
  }
}

TEST_F(SpeedsFile, CountsNeitherBesideACostFileNorWhereChoicesAreNotToDependOnTheMachine) {
  write(strange().text());
  Settings deterministic = settings_;
  deterministic.deterministic = true;
  EXPECT_EQ(machineModel(deterministic)->model, CostModel());
  EXPECT_THAT(machineModel(deterministic)->why, HasSubstr("ECCL_DETERMINISTIC=1"));
  Settings none;
  none.speedsFile = "none";
  EXPECT_EQ(machineModel(none)->model, CostModel());
  EXPECT_EQ(machineModel(none)->why, "ECCL_SPEEDS_FILE=none");
  EXPECT_FALSE(speedsFileOf(none).ok());
  Settings cost = settings_;
  cost.costFile = folder_ + "cost";
  std::ofstream(cost.costFile) << "call 77\n";
  ASSERT_TRUE(machineModel(cost).ok());
  EXPECT_EQ(machineModel(cost)->model.parameters()[CostTerm::call], 77);
  EXPECT_EQ(machineModel(cost)->file, cost.costFile);
}

TEST_F(SpeedsFile, ThatIsNamedAndWrongIsAnError) {
  write("call 1\nspeed 3\n");
  const auto machine = machineModel(settings_);
  ASSERT_FALSE(machine.ok());
  EXPECT_THAT(machine.status().message(),
              HasSubstr(settings_.speedsFile + ":2: \"speed 3\": there is no such constant"));
}

TEST_F(SpeedsFile, InTheUsualPlaceIsNamedByTheMachineAndNoErrorWhereItIsWrong) {
  settings_.speedsFile.clear();
  setenv("XDG_CACHE_HOME", folder_.c_str(), 1);
  const auto path = speedsFileOf(settings_);
  ASSERT_TRUE(path.ok()) << path.status().message();
  EXPECT_THAT(*path, AllOf(StartsWith(folder_ + "eccl/speeds-"), HasSubstr(topology::processors().kernel)));
  EXPECT_THAT(keptModel(settings_)->why, HasSubstr("there is no " + *path));
  std::filesystem::create_directories(folder_ + "eccl");
  std::ofstream(*path) << "nonsense\n";
  const auto machine = machineModel(settings_);
  ASSERT_TRUE(machine.ok()) << machine.status().message();
  EXPECT_EQ(machine->model, CostModel());
  EXPECT_THAT(machine->why, HasSubstr("nonsense"));

  unsetenv("XDG_CACHE_HOME");
  setenv("HOME", "/somebody", 1);
  EXPECT_THAT(*speedsFileOf(settings_), StartsWith("/somebody/.cache/eccl/speeds-"));
  unsetenv("HOME");
  EXPECT_THAT(keptModel(settings_)->why, HasSubstr("neither XDG_CACHE_HOME nor HOME is set"));
}

TEST_F(SpeedsFile, ThatCannotBeWrittenLeavesTheDefaults) {
  settings_.speedsFile = "/proc/self/nowhere/speeds";
  const auto machine = machineModel(settings_);
  ASSERT_TRUE(machine.ok()) << machine.status().message();
  EXPECT_EQ(machine->model, CostModel());
  EXPECT_THAT(machine->why, HasSubstr("/proc/self/nowhere/speeds"));
}

TEST_F(SpeedsFile, TimingMakesItOnceAndItCanBeDeleted) {
  if (!two()) GTEST_SKIP() << "this machine has one processor";
  settings_.speedsFile = folder_ + "in/a/folder/speeds";
  const auto made = untilIdle([&] { return measureMachine(settings_); });
  if (busy(made)) GTEST_SKIP() << made.status().message();
  if (!made.ok() && made.status().message().find("looks for errors") != std::string::npos)
    GTEST_SKIP() << "a build with sanitizers measures nothing";
  ASSERT_TRUE(made.ok()) << made.status().message();
  EXPECT_NE(made->model, CostModel());
  const auto text = readTextFile(settings_.speedsFile, "the file");
  ASSERT_TRUE(text.ok());
  EXPECT_THAT(*text,
              AllOf(StartsWith("# Speeds of " + topology::processors().model), HasSubstr("Delete this file")));
  const auto read = keptModel(settings_);
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(read->model, made->model) << "what is written is what was measured";
  std::filesystem::remove(settings_.speedsFile);
  EXPECT_THAT(keptModel(settings_)->why, HasSubstr("there is no"));
}

}  // namespace
}  // namespace eccl::runtime
