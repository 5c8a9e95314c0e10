// Splits: several at once, in groups and in the background.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include "eccl/eccl.h"
#include "support/processes.h"
#include "support/sanitizers.h"

namespace eccl::runtime {
namespace {

constexpr int kSplitRanks = 5;

size_t threadsOfThisProcess() {
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return static_cast<size_t>(std::distance(begin(tasks), end(tasks)));
}

class Splits : public ::testing::Test {
 protected:
  void SetUp() override {
    setenv("ECCL_DEBUG", "NONE", 1);
    setenv("ECCL_INIT_TIMEOUT", "30", 1);
    ASSERT_EQ(ecclCommInitAll(parents_, kSplitRanks, nullptr), ecclSuccess) << ecclGetLastError(nullptr);
  }
  void TearDown() override {
    for (auto& parent : parents_) {
      EXPECT_EQ(parent == nullptr ? ecclSuccess : ecclCommDestroy(parent), ecclSuccess);
    }
    unsetenv("ECCL_INIT_TIMEOUT");
  }
  /// body(rank) for each rank, in threads of their own.
  static void each(const std::function<void(int)>& body) {
    std::vector<std::thread> threads;
    for (int rank = 0; rank < kSplitRanks; ++rank) threads.emplace_back([&, rank] { body(rank); });
    for (auto& thread : threads) thread.join();
  }
  static void awaitReady(ecclComm_t comm) {
    ecclResult_t state = ecclInProgress;
    while (state == ecclInProgress) {
      usleep(500);
      ASSERT_EQ(ecclCommGetAsyncError(comm, &state), ecclSuccess);
    }
    ASSERT_EQ(state, ecclSuccess) << ecclGetLastError(comm);
  }
  /// Three ranks in the first split, two in the second: who is in which shows whether they were mixed up.
  static void expectChildren(int rank, ecclComm_t first, ecclComm_t second) {
    int count = 0, sum = 1;
    ASSERT_EQ(ecclCommCount(first, &count), ecclSuccess);
    EXPECT_EQ(count, rank < 3 ? 3 : 2);
    ASSERT_EQ(ecclCommCount(second, &count), ecclSuccess);
    EXPECT_EQ(count, rank < 2 ? 2 : 3);
    ASSERT_EQ(ecclAllReduce(&sum, &sum, 1, ecclInt32, ecclSum, first, nullptr), ecclSuccess);
    ASSERT_EQ(ecclCommSynchronize(first), ecclSuccess) << ecclGetLastError(nullptr);
    EXPECT_EQ(sum, rank < 3 ? 3 : 2);
    EXPECT_EQ(ecclCommDestroy(second), ecclSuccess);
    EXPECT_EQ(ecclCommDestroy(first), ecclSuccess);
  }
  ecclComm_t parents_[kSplitRanks] = {};
  const int rounds_ = kSanitized ? 5 : 20;
};

TEST_F(Splits, TwoInOneGroupAreNotSwapped) {
  each([&](int rank) {
    for (int round = 0; round < rounds_; ++round) {
      ecclComm_t first = nullptr, second = nullptr;
      ecclGroupStart();
      ecclCommSplit(parents_[rank], rank < 3 ? 0 : 1, rank, &first, nullptr);
      ecclCommSplit(parents_[rank], rank < 2 ? 0 : 1, rank, &second, nullptr);
      ASSERT_EQ(ecclGroupEnd(), ecclSuccess) << ecclGetLastError(nullptr);
      expectChildren(rank, first, second);
    }
  });
}

TEST_F(Splits, TwoInTheBackgroundAreNotSwapped) {
  each([&](int rank) {
    ecclConfig_t config = ECCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    for (int round = 0; round < rounds_; ++round) {
      ecclComm_t first = nullptr, second = nullptr;
      ASSERT_EQ(ecclCommSplit(parents_[rank], rank < 3 ? 0 : 1, rank, &first, &config), ecclInProgress);
      ASSERT_EQ(ecclCommSplit(parents_[rank], rank < 2 ? 0 : 1, rank, &second, &config), ecclInProgress);
      awaitReady(first);
      awaitReady(second);
      expectChildren(rank, first, second);
    }
  });
}

// The variable may be gone by the time the others have split.
TEST_F(Splits, WithoutAColorNothingIsWrittenAfterTheCall) {
  ecclConfig_t config = ECCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  const auto sentinel = reinterpret_cast<ecclComm_t>(uintptr_t{0x5eed});
  const size_t before = threadsOfThisProcess();
  for (int round = 0; round < 20; ++round) {
    ecclComm_t out = sentinel;
    ASSERT_EQ(ecclCommSplit(parents_[0], ECCL_SPLIT_NOCOLOR, 0, &out, &config), ecclSuccess);
    EXPECT_EQ(out, nullptr);
    __atomic_store_n(&out, sentinel, __ATOMIC_RELAXED);  // somebody else's by now
    each([&](int rank) {
      if (rank == 0) return;
      ecclComm_t child = nullptr;
      ASSERT_EQ(ecclCommSplit(parents_[rank], 0, rank, &child, nullptr), ecclSuccess)
          << ecclGetLastError(nullptr);
      EXPECT_EQ(ecclCommDestroy(child), ecclSuccess);
    });
    EXPECT_EQ(__atomic_load_n(&out, __ATOMIC_RELAXED), sentinel);
  }
  // Those that have done their part end: there is not one for each call.
  EXPECT_LT(threadsOfThisProcess(), before + 10);
}

TEST_F(Splits, AParentMayBeDestroyedBeforeTheGroupEnds) {
  ecclComm_t parent = nullptr, child = nullptr;
  ASSERT_EQ(ecclCommInitAll(&parent, 1, nullptr), ecclSuccess);
  ecclGroupStart();
  EXPECT_EQ(ecclCommSplit(parent, 0, 0, &child, nullptr), ecclSuccess);
  EXPECT_EQ(ecclCommDestroy(parent), ecclSuccess);
  EXPECT_EQ(ecclGroupEnd(), ecclInvalidArgument);
  EXPECT_THAT(ecclGetLastError(nullptr), ::testing::HasSubstr("has been destroyed"));
  EXPECT_EQ(child, nullptr);
}

// One call of the group is refused: nothing is made, and no handle stays behind.
TEST_F(Splits, ARefusedGroupMakesNothing) {
  ecclComm_t child = nullptr;
  ecclGroupStart();
  EXPECT_EQ(ecclCommSplit(parents_[0], 0, 0, &child, nullptr), ecclSuccess);
  EXPECT_EQ(ecclAllReduce(nullptr, nullptr, 1, ecclFloat, ecclSum, parents_[0], nullptr), ecclInvalidArgument);
  EXPECT_EQ(ecclGroupEnd(), ecclInvalidArgument);
  EXPECT_EQ(child, nullptr);
}

// Nor is it a split that the other ranks would wait for.
TEST_F(Splits, ARefusedGroupCountsForNothing) {
  ecclComm_t children[2] = {};
  ecclGroupStart();
  EXPECT_EQ(ecclCommSplit(parents_[0], 0, 0, &children[0], nullptr), ecclSuccess);
  EXPECT_EQ(ecclCommSplit(parents_[0], ECCL_SPLIT_NOCOLOR, 0, &children[1], nullptr), ecclSuccess);
  EXPECT_EQ(ecclAllReduce(nullptr, nullptr, 1, ecclFloat, ecclSum, parents_[0], nullptr), ecclInvalidArgument);
  EXPECT_EQ(ecclGroupEnd(), ecclInvalidArgument);
  each([&](int rank) {
    ecclComm_t child = nullptr;
    ASSERT_EQ(ecclCommSplit(parents_[rank], 0, rank, &child, nullptr), ecclSuccess)
        << ecclGetLastError(nullptr);
    int count = 0;
    EXPECT_EQ(ecclCommCount(child, &count), ecclSuccess);
    EXPECT_EQ(count, kSplitRanks);
    EXPECT_EQ(ecclCommDestroy(child), ecclSuccess);
  });
}

// One rank leaves its child when its part of the split is told already. The others wait for it there; to abort
// the parents ends that.
TEST_F(Splits, AnAbortedParentEndsThem) {
  ecclConfig_t config = ECCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ecclComm_t gone = nullptr;
  ASSERT_EQ(ecclCommSplit(parents_[2], 0, 2, &gone, &config), ecclInProgress);
  usleep(100'000);
  EXPECT_EQ(ecclCommAbort(gone), ecclSuccess);
  std::vector<std::thread> threads;
  for (int rank : {0, 1, 3, 4}) {
    threads.emplace_back([parent = parents_[rank], rank] {
      ecclComm_t child = nullptr;
      EXPECT_NE(ecclCommSplit(parent, 0, rank, &child, nullptr), ecclSuccess);
      EXPECT_EQ(child, nullptr);
    });
  }
  usleep(500'000);
  const double began = test::now();
  each([&](int rank) { EXPECT_EQ(ecclCommAbort(std::exchange(parents_[rank], nullptr)), ecclSuccess); });
  EXPECT_LT(test::now() - began, 5);
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace eccl::runtime
