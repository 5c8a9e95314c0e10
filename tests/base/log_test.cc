// The level is read once per process, so every case runs in a process of its own: a death test that ends well.
#include "base/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "base/status.h"

namespace eccl {
namespace {

class LogDeathTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ::testing::GTEST_FLAG(death_test_style) = "threadsafe";  // GTEST_FLAG_SET is not in 1.11, Ubuntu 22.04's
  }

  /// What goes through logged(): an error in either form, and success in either form.
  [[noreturn]] static void logFailures() {
    Status failure = logged(Status::error(Code::invalidUsage, "a warning"));
    Result<int> result = logged(Result<int>(Status::error(Code::invalidUsage, "a second one")));
    const bool passed = logged(Status()).ok() && *logged(Result<int>(7)) == 7;
    const bool same = failure.message() == "a warning" && result.status().message() == "a second one";
    std::_Exit(passed && same ? 0 : 1);
  }

  /// Logs one line of each level with the given setting, in a fresh process.
  [[noreturn]] static void logAll(const char* name, const char* level) {
    unsetenv("ECCL_DEBUG_FILE");
    unsetenv("ECCL_DEBUG");
    unsetenv("NCCL_DEBUG");
    if (name != nullptr) setenv(name, level, 1);
    ECCL_WARN("a %s", "warning");
    ECCL_INFO("some %s", "information");
    ECCL_TRACE("a %s", "trace");
    std::_Exit(0);
  }
};

MATCHER_P(HoldsTheFirst, count, "") {
  const std::vector<std::string> texts = {"a warning", "some information", "a trace"};
  for (size_t i = 0; i < texts.size(); ++i) {
    if ((arg.find(texts[i]) != std::string::npos) != (i < static_cast<size_t>(count))) return false;
  }
  return true;
}

TEST_F(LogDeathTest, WarnsUnlessToldOtherwise) {
  const auto well = ::testing::ExitedWithCode(0);
  EXPECT_EXIT(logAll(nullptr, nullptr), well, HoldsTheFirst(1));
  EXPECT_EXIT(logAll("ECCL_DEBUG", "none"), well, HoldsTheFirst(0));
  EXPECT_EXIT(logAll("ECCL_DEBUG", "INFO"), well, HoldsTheFirst(2));
  EXPECT_EXIT(logAll("ECCL_DEBUG", "TRACE"), well, HoldsTheFirst(3));
  EXPECT_EXIT(logAll("NCCL_DEBUG", "INFO"), well, HoldsTheFirst(2));
  EXPECT_EXIT(logAll("NCCL_DEBUG", "VERSION"), well, HoldsTheFirst(1));
}

TEST_F(LogDeathTest, FailuresAreLoggedAndPassedOn) {
  EXPECT_EXIT(logFailures(), ::testing::ExitedWithCode(0),
              "^eccl WARN [^\n]* a warning\neccl WARN [^\n]* a second one\n$");
}

TEST_F(LogDeathTest, LinesNameHostProcessAndThread) {
  EXPECT_EXIT(logAll(nullptr, nullptr), ::testing::ExitedWithCode(0),
              "eccl WARN [^:]+:[0-9]+:[0-9]+ a warning\n");
}

TEST_F(LogDeathTest, WritesWholeLinesToTheFileThatIsNamed) {
  constexpr int kThreads = 4, kLines = 200;
  // The child runs this body again up to the death test: the folder is the parent's, handed down.
  if (getenv("ECCL_DEBUG_FILE") == nullptr) {
    const std::string folder = ::testing::TempDir() + format("eccl_log_%d", getpid());
    std::filesystem::create_directories(folder);
    setenv("ECCL_DEBUG_FILE", (folder + "/of-%h-%p").c_str(), 1);
  }
  const std::filesystem::path folder = std::filesystem::path(getenv("ECCL_DEBUG_FILE")).parent_path();
  EXPECT_EXIT(
      {
        std::vector<std::thread> threads;
        for (int t = 0; t < kThreads; ++t) {
          threads.emplace_back([] {
            for (int i = 0; i < kLines; ++i) ECCL_WARN("line %d end", i);
          });
        }
        for (std::thread& thread : threads) thread.join();
        std::_Exit(0);
      },
      ::testing::ExitedWithCode(0), "");
  unsetenv("ECCL_DEBUG_FILE");
  int lines = 0, files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    ++files;
    EXPECT_EQ(entry.path().string().find('%'), std::string::npos) << "%h and %p were not replaced";
    std::ifstream in(entry.path());
    for (std::string line; std::getline(in, line); ++lines) {
      ASSERT_EQ(line.rfind("eccl WARN ", 0), 0U) << line;
      ASSERT_EQ(line.substr(line.size() - 4), " end") << line;
    }
  }
  EXPECT_EQ(files, 1);
  EXPECT_EQ(lines, kThreads * kLines);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace eccl
