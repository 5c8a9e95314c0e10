// Ranks that die, abort, leave, or are starved: the others are told, in time, and nothing is left behind.

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "support/processes.h"

namespace eccl::runtime {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

/// What the library could have left behind; other programs use the folder too.
std::set<std::string> ourFilesIn(const char* folder) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().filename().string().find("eccl") != std::string::npos) names.insert(entry.path());
  }
  return names;
}

class DeathTiming : public ::testing::TestWithParam<std::tuple<const char*, bool>> {};

// Rank 1 is killed in the middle of a stream of collectives; with a forked child alive, too, which holds copies
// of whatever descriptors it was given.
TEST_P(DeathTiming, TheOthersNameTheDeadRankWithinASecond) {
  const auto [transport, withChild] = GetParam();
  auto outcomes = test::runProcesses(
      4, [&, transport = transport, withChild = withChild](int rank, test::Board& board, std::string& report) {
        setenv("ECCL_TRANSPORT", transport, 1);
        setenv("ECCL_DEBUG", "NONE", 1);
        ecclComm_t comm = test::join(rank, 4, board, report);
        if (comm == nullptr) return 2;
        std::vector<float> data(100000, 1), out(data.size());
        ecclResult_t result = ecclSuccess;
        for (int i = 0; result == ecclSuccess; ++i) {
          if (rank == 1 && i == 20) {
            pid_t child = withChild ? fork() : -1;
            if (child == 0) {
              // In the child the communicator refuses to work; the parent's end must not be kept alive by it.
              board.counter[2] = ecclAllReduce(data.data(), out.data(), 1, ecclFloat, ecclSum, comm, nullptr) ==
                                         ecclInvalidUsage
                                     ? 1
                                     : -1;
              for (int wait = 0; wait < 50; ++wait) usleep(100000);
              _exit(0);
            }
            if (withChild) {
              while (board.counter[2] == 0) usleep(1000);
              usleep(50000);
            }
            board.time = test::now();
            kill(getpid(), SIGKILL);
          }
          result = ecclAllReduce(data.data(), out.data(), data.size(), ecclFloat, ecclSum, comm, nullptr);
        }
        double took = test::now() - board.time;
        report += ecclGetLastError(comm);
        report += " [" + std::to_string(took) + " s]";
        ecclCommAbort(comm);
        return result != ecclRemoteError ? 3 : took > 1.0 ? 4 : withChild && board.counter[2] != 1 ? 5 : 0;
      });
  EXPECT_EQ(outcomes[1].signal, SIGKILL);
  for (int rank : {0, 2, 3}) {
    const test::Outcome& outcome = outcomes[static_cast<size_t>(rank)];
    EXPECT_TRUE(outcome.ended) << "rank " << rank << " hung";
    EXPECT_EQ(outcome.code, 0) << outcome.text;
    EXPECT_THAT(outcome.text, HasSubstr("rank 1"));
  }
  EXPECT_EQ(ourFilesIn("/dev/shm"), std::set<std::string>());
}

INSTANTIATE_TEST_SUITE_P(Paths, DeathTiming,
                         ::testing::Combine(::testing::Values("shm", "tcp"), ::testing::Bool()),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param)) +
                                  (std::get<1>(info.param) ? "WithForkedChild" : "");
                         });

TEST(AbortTiming, EndsEveryWaitWithinATenthOfASecond) {
  auto outcomes = test::runProcesses(2, [](int rank, test::Board& board, std::string& report) {
    setenv("ECCL_DEBUG", "NONE", 1);
    ecclComm_t comm = test::join(rank, 2, board, report);
    if (comm == nullptr) return 2;
    std::vector<float> data(10), out(10);
    double began = 0;
    std::thread aborter;
    if (rank == 0) {
      aborter = std::thread([&] {
        usleep(300000);
        began = test::now();
        ecclCommAbort(comm);
      });
    }
    if (rank == 1) {  // makes no call until it is told
      ecclResult_t state = ecclSuccess;
      for (int i = 0; i < 2000 && state == ecclSuccess; ++i) {
        usleep(1000);
        ecclCommGetAsyncError(comm, &state);
      }
      report += ecclGetLastError(comm);
      ecclCommAbort(comm);
      return state == ecclRemoteError ? 0 : 3;
    }
    ecclResult_t result = ecclRecv(out.data(), 10, ecclFloat, 1, comm, nullptr);
    double ended = test::now();
    aborter.join();
    report += std::to_string(ended - began);
    return result == ecclRemoteError && ended - began < 0.1 ? 0 : 3;
  });
  for (const test::Outcome& outcome : outcomes) EXPECT_EQ(outcome.code, 0) << outcome.text;
  EXPECT_THAT(outcomes[1].text, HasSubstr("rank 0"));
  EXPECT_THAT(outcomes[1].text, HasSubstr("aborted"));
}

TEST(Leaving, ARankThatWaitsForOneThatLeftIsTold) {
  auto outcomes = test::runProcesses(2, [](int rank, test::Board& board, std::string& report) {
    setenv("ECCL_DEBUG", "NONE", 1);
    ecclComm_t comm = test::join(rank, 2, board, report);
    if (comm == nullptr) return 2;
    if (rank == 1) return ecclCommDestroy(comm) == ecclSuccess ? 0 : 3;
    float x = 1;
    ecclResult_t result = ecclAllReduce(&x, &x, 1, ecclFloat, ecclSum, comm, nullptr);
    report += ecclGetLastError(comm);
    ecclCommAbort(comm);
    return result == ecclRemoteError ? 0 : 4;
  });
  for (const test::Outcome& outcome : outcomes) {
    EXPECT_TRUE(outcome.ended);
    EXPECT_EQ(outcome.code, 0) << outcome.text;
  }
  EXPECT_THAT(outcomes[0].text, HasSubstr("rank 1"));
}

// Everything said is received, even when the sender is gone by the time the receiver asks.
TEST(Leaving, NothingSentIsLost) {
  for (const char* transport : {"shm", "tcp"}) {
    auto outcomes = test::runProcesses(2, [=](int rank, test::Board& board, std::string& report) {
      setenv("ECCL_TRANSPORT", transport, 1);
      setenv("ECCL_DEBUG", "NONE", 1);
      ecclComm_t comm = test::join(rank, 2, board, report);
      if (comm == nullptr) return 2;
      std::vector<int> data(1000, 7 * rank);
      if (rank == 0) {
        std::fill(data.begin(), data.end(), 42);
        if (ecclSend(data.data(), data.size(), ecclInt32, 1, comm, nullptr) != ecclSuccess) return 3;
      } else {
        usleep(400000);
        ecclResult_t result = ecclRecv(data.data(), data.size(), ecclInt32, 0, comm, nullptr);
        if (result != ecclSuccess) report += ecclGetLastError(comm);
        if (result != ecclSuccess || data[999] != 42) return 4;
      }
      return ecclCommDestroy(comm) == ecclSuccess ? 0 : 5;
    });
    for (const test::Outcome& outcome : outcomes)
      EXPECT_EQ(outcome.code, 0) << transport << ": " << outcome.text;
  }
}

/// Of this process alone: what else runs on the machine does not count.
double cpuSeconds() {
  timespec used;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) + 1e-9 * static_cast<double>(used.tv_nsec);
}

class BlockedTiming : public ::testing::TestWithParam<const char*> {};

// A rank that waits long uses next to nothing of a core, whatever it waits on.
TEST_P(BlockedTiming, UsesUnderTwoPercentOfACore) {
  const char* transport = GetParam();
  auto outcomes = test::runProcesses(3, [=](int rank, test::Board& board, std::string& report) {
    // "mixed": rank 0 reaches rank 1 by shared memory and rank 2, which may not share, by TCP.
    bool mixed = std::string(transport) == "mixed";
    setenv("ECCL_TRANSPORT", mixed ? (rank == 2 ? "tcp" : "shm,tcp") : transport, 1);
    setenv("ECCL_DEBUG", "NONE", 1);
    setenv("ECCL_ALGO", "direct", 1);
    ecclComm_t comm = test::join(rank, 3, board, report);
    if (comm == nullptr) return 2;
    std::vector<float> data(1000), out(1000);
    if (ecclAllReduce(data.data(), out.data(), 1000, ecclFloat, ecclSum, comm, nullptr) != ecclSuccess)
      return 3;
    board.meet(0, 3);
    constexpr double kWait = 2;  // seconds; less for who comes late
    if (rank == 2) usleep(static_cast<useconds_t>(kWait * 1e6));
    double cpu = cpuSeconds(), wall = test::now();
    if (ecclAllReduce(data.data(), out.data(), 1000, ecclFloat, ecclSum, comm, nullptr) != ecclSuccess)
      return 4;
    cpu = cpuSeconds() - cpu;
    wall = test::now() - wall;
    report += std::to_string(100 * cpu / wall) + " % of a core over " + std::to_string(wall) + " s";
    ecclCommDestroy(comm);
    return rank == 2 || cpu < 0.02 * kWait ? 0 : 5;
  });
  for (const test::Outcome& outcome : outcomes) EXPECT_EQ(outcome.code, 0) << outcome.text;
}

INSTANTIATE_TEST_SUITE_P(Paths, BlockedTiming, ::testing::Values("shm", "tcp", "mixed"),
                         [](const auto& info) { return std::string(info.param); });

TEST(Oversubscription, SixteenProcessesFinish) {
  auto outcomes = test::runProcesses(
      16,
      [](int rank, test::Board& board, std::string& report) {
        setenv("ECCL_DEBUG", "NONE", 1);
        ecclComm_t comm = test::join(rank, 16, board, report);
        if (comm == nullptr) return 2;
        for (size_t count : {1, 1000, 200000}) {
          std::vector<int> data(count, rank + 1), out(count);
          for (int i = 0; i < 10; ++i) {
            if (ecclAllReduce(data.data(), out.data(), count, ecclInt32, ecclSum, comm, nullptr) !=
                ecclSuccess) {
              report += ecclGetLastError(comm);
              return 3;
            }
            if (out[0] != 136 || out[count - 1] != 136) return 4;
          }
        }
        return ecclCommDestroy(comm) == ecclSuccess ? 0 : 5;
      },
      120);
  for (const test::Outcome& outcome : outcomes) EXPECT_EQ(outcome.code, 0) << outcome.text;
}

TEST(Settings, RanksThatChooseDifferentlyAreNamedAtInit) {
  auto outcomes = test::runProcesses(3, [](int rank, test::Board& board, std::string& report) {
    setenv("ECCL_DEBUG", "NONE", 1);
    if (rank == 2)
      setenv("ECCL_ALGO", "tree", 1);
    else
      setenv("ECCL_ALGO", "ring", 1);
    ecclComm_t comm = test::join(rank, 3, board, report);
    return comm == nullptr ? 0 : 1;
  });
  for (const test::Outcome& outcome : outcomes) {
    EXPECT_EQ(outcome.code, 0);
    EXPECT_THAT(outcome.text, HasSubstr("ECCL_ALGO=ring on rank 0"));
    EXPECT_THAT(outcome.text, HasSubstr("ECCL_ALGO=tree on rank 2"));
  }
}

TEST(Missing, RanksThatDoNotJoinAreNamed) {
  auto outcomes = test::runProcesses(2, [](int rank, test::Board& board, std::string& report) {
    setenv("ECCL_DEBUG", "NONE", 1);
    setenv("ECCL_INIT_TIMEOUT", "1", 1);
    return test::join(rank == 0 ? 0 : 2, 4, board, report) == nullptr ? 0 : 1;
  });
  for (const test::Outcome& outcome : outcomes) {
    EXPECT_EQ(outcome.code, 0);
    EXPECT_THAT(outcome.text, HasSubstr("ranks 1, 3"));
  }
}

}  // namespace
}  // namespace eccl::runtime
