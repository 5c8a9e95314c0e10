// Ranks that are through: who still waits for them is told the truth, and they wait for nobody who never comes.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "support/processes.h"

namespace eccl::runtime {
namespace {

using ::testing::HasSubstr;

/// Returns when none of its threads runs any more.
void stop(pid_t process) {
  kill(process, SIGSTOP);
  const auto runs = [](const std::filesystem::directory_entry& thread) {
    std::string line;
    std::getline(std::ifstream(thread.path() / "stat"), line);
    return line.find(") T ") == std::string::npos;
  };
  const std::filesystem::directory_iterator threads("/proc/" + std::to_string(process) + "/task");
  for (const auto& thread : threads) {
    while (runs(thread)) usleep(1000);
  }
}

class LeavingFirst : public ::testing::TestWithParam<const char*> {};

// Rank 2 has done all that a Gather asks of it, and is gone when rank 1 comes. Who waits in it is told once a
// rank has waited for the stall time.
TEST_P(LeavingFirst, WhoDidItsPartIsNotMissed) {
  test::expectAllSucceeded(test::runProcesses(3, [&](int rank, test::Board& board, std::string& report) {
    setenv("ECCL_TRANSPORT", GetParam(), 1);
    setenv("ECCL_STALL_TIME", "0.02", 1);
    setenv("ECCL_DEBUG", "NONE", 1);
    ecclComm_t comm = test::join(rank, 3, board, report);
    if (comm == nullptr) return 2;
    std::vector<float> mine(1000, static_cast<float>(rank)), all(3000, -1);
    for (const char* algorithm : {"first", "second"}) {  // connections are there the second time
      if (rank == 1) usleep(algorithm[0] == 'f' ? 0 : 600'000);
      if (ecclGather(mine.data(), all.data(), 1000, ecclFloat, 0, comm, nullptr) != ecclSuccess) {
        report += ecclGetLastError(comm);
        return 3;
      }
    }
    if (rank == 0 && (all[999] != 0 || all[1999] != 1 || all[2999] != 2)) return 4;
    if (ecclCommDestroy(comm) == ecclSuccess) return 0;
    report += ecclGetLastError(nullptr);
    return 5;
  }));
}

// The peer lives on, but its communicator is gone: what it has not received it never will.
TEST_P(LeavingFirst, EndsTheWaitForAReceive) {
  test::expectAllSucceeded(test::runProcesses(
      2,
      [&](int rank, test::Board& board, std::string& report) {
        setenv("ECCL_TRANSPORT", GetParam(), 1);
        setenv("ECCL_DEBUG", "NONE", 1);
        ecclComm_t comm = test::join(rank, 2, board, report);
        if (comm == nullptr) return 2;
        float x = 1, y = 0;
        // The connection stands, and one of two messages is received.
        if (rank == 0 && ecclSend(&x, 1, ecclFloat, 1, comm, nullptr) != ecclSuccess) return 3;
        if (rank == 1 && ecclRecv(&y, 1, ecclFloat, 0, comm, nullptr) != ecclSuccess) return 4;
        if (rank == 0 && ecclSend(&x, 1, ecclFloat, 1, comm, nullptr) != ecclSuccess) return 5;
        board.meet(0, 2);
        const double began = test::now();
        const ecclResult_t result = ecclCommDestroy(comm);
        report += ecclGetLastError(nullptr);
        if (test::now() - began > 5) return 6;
        board.meet(1, 2);  // both live
        if (rank == 1) return result == ecclSuccess ? 0 : 7;
        const bool told = report.find("1 message to rank 1") != std::string::npos &&
                          report.find("the last of Send(count 1, float, to rank 1)") != std::string::npos;
        return result == ecclRemoteError && told ? 0 : 8;
      },
      30));
}

// Each would wait for the other.
TEST_P(LeavingFirst, TwoThatReceiveNothingDoNotWaitForEachOther) {
  test::expectAllSucceeded(test::runProcesses(
      2,
      [&](int rank, test::Board& board, std::string& report) {
        setenv("ECCL_TRANSPORT", GetParam(), 1);
        setenv("ECCL_DEBUG", "NONE", 1);
        ecclComm_t comm = test::join(rank, 2, board, report);
        if (comm == nullptr) return 2;
        float x = 1, y = 0;
        ecclGroupStart();
        ecclSend(&x, 1, ecclFloat, 1 - rank, comm, nullptr);
        ecclRecv(&y, 1, ecclFloat, 1 - rank, comm, nullptr);
        if (ecclGroupEnd() != ecclSuccess) return 3;
        for (int i = 0; i < 3; ++i) {
          if (ecclSend(&x, 1, ecclFloat, 1 - rank, comm, nullptr) != ecclSuccess) return 4;
        }
        board.meet(0, 2);
        const double began = test::now();
        const ecclResult_t result = ecclCommFinalize(comm);
        report += ecclGetLastError(comm);
        board.meet(1, 2);
        ecclCommDestroy(comm);
        if (test::now() - began > 5) return 5;
        return result == ecclRemoteError && report.find("3 messages to rank") != std::string::npos ? 0 : 6;
      },
      30));
}

// The same of a communicator that is polled.
TEST_P(LeavingFirst, WhoPollsIsToldOfMessagesThatNobodyReceived) {
  test::expectAllSucceeded(test::runProcesses(
      2,
      [&](int rank, test::Board& board, std::string& report) {
        setenv("ECCL_TRANSPORT", GetParam(), 1);
        setenv("ECCL_DEBUG", "NONE", 1);
        const auto settled = [](ecclComm_t of, ecclResult_t state) {
          while (state == ecclInProgress) {
            usleep(1000);
            if (ecclCommGetAsyncError(of, &state) != ecclSuccess) return ecclInternalError;
          }
          return state;
        };
        ecclConfig_t config = ECCL_CONFIG_INITIALIZER;
        config.blocking = 0;
        if (rank == 0) board.idReady = ecclGetUniqueId(&board.id) == ecclSuccess ? 1 : -1;
        while (board.idReady == 0) usleep(1000);
        ecclComm_t comm = nullptr;
        const ecclResult_t begun = ecclCommInitRankConfig(&comm, 2, board.id, rank, &config);
        if (settled(comm, begun) != ecclSuccess) return 2;
        ecclStream_t stream;
        ecclStreamCreate(&stream);
        float x = 1, y = 0;
        if (rank == 0 && ecclSend(&x, 1, ecclFloat, 1, comm, stream) != ecclSuccess) return 3;
        if (rank == 1 && ecclRecv(&y, 1, ecclFloat, 0, comm, stream) != ecclSuccess) return 4;
        if (rank == 0 && ecclSend(&x, 1, ecclFloat, 1, comm, stream) != ecclSuccess) return 5;
        if (ecclStreamSynchronize(stream) != ecclSuccess) return 6;
        board.meet(0, 2);
        const ecclResult_t state = settled(comm, ecclCommFinalize(comm));
        report += ecclGetLastError(comm);
        board.meet(1, 2);  // both live
        ecclCommDestroy(comm);
        ecclStreamDestroy(stream);
        return state == (rank == 0 ? ecclRemoteError : ecclSuccess) ? 0 : 8;
      },
      60));
}

// Queued, too long for the slots, and nobody receives: both are told, neither waits for ever.
TEST_P(LeavingFirst, AQueuedSendThatNobodyReceivesIsAnError) {
  test::expectAllSucceeded(test::runProcesses(
      2,
      [&](int rank, test::Board& board, std::string& report) {
        setenv("ECCL_TRANSPORT", GetParam(), 1);
        setenv("ECCL_DEBUG", "NONE", 1);
        ecclComm_t comm = test::join(rank, 2, board, report);
        if (comm == nullptr) return 2;
        ecclStream_t stream;
        ecclStreamCreate(&stream);
        std::vector<float> data(32 << 20, 1);
        if (ecclSend(data.data(), data.size(), ecclFloat, 1 - rank, comm, stream) != ecclSuccess) return 3;
        const double began = test::now();
        const ecclResult_t result = ecclCommDestroy(comm);
        report += ecclGetLastError(nullptr);
        if (test::now() - began > 10) return 4;
        ecclStreamDestroy(stream);
        // Who is the first to say so is chance; the other may have gone before it was asked.
        return (result == ecclInvalidUsage || result == ecclRemoteError) &&
                       report.find("Send(count 33554432, float") != std::string::npos
                   ? 0
                   : 5;
      },
      60));
}

INSTANTIATE_TEST_SUITE_P(Paths, LeavingFirst, ::testing::Values("shm", "tcp"),
                         [](const auto& info) { return std::string(info.param); });

// A host so busy that it keeps rank 1 from its cores: rank 0 is not gone before rank 1 knows why.
TEST(Leaving, WaitsForANeighbourThatGetsNoCore) {
  const std::vector<test::Outcome> outcomes =
      test::runProcesses(2, [&](int rank, test::Board& board, std::string& report) {
        std::atomic<int>& process = board.counter[1];
        ecclComm_t comm = test::join(rank, 2, board, report);
        if (comm == nullptr) return 2;
        if (rank == 1) process = getpid();
        board.meet(0, 2);
        if (rank == 1) {
          usleep(1'000'000);
          while (board.time.load() == 0) usleep(1000);
        } else {
          stop(process);
          std::thread later([&] {
            usleep(1'500'000);
            kill(process, SIGCONT);
          });
          const double began = test::now();
          const ecclResult_t result = ecclCommDestroy(comm);
          const double took = test::now() - began;
          later.join();
          board.time = 1;
          report += std::to_string(took) + " s " + ecclGetLastError(nullptr);
          return result != ecclSuccess ? 3 : took < 1.4 || took > 4.5 ? 4 : 0;
        }
        usleep(500'000);  // were rank 0 dead, it would know now
        const ecclResult_t result = ecclCommDestroy(comm);
        report += ecclGetLastError(nullptr);
        return result == ecclSuccess ? 0 : 5;
      });
  test::expectAllSucceeded(outcomes);
}

// A process that ends without a word: service threads run on while exit() destroys what is static.
TEST(Exit, PeersReadThatTheProcessHasEnded) {
  for (int round = 0; round < 2; ++round) {
    auto outcomes = test::runProcesses(
        2,
        [&](int rank, test::Board& board, std::string& report) {
          setenv("ECCL_DEBUG", "NONE", 1);
          setenv("ECCL_TRANSPORT", round % 2 == 0 ? "shm" : "tcp", 1);
          if (rank == 1) std::atexit([] { usleep(1'500'000); });  // registered first, it runs last
          ecclComm_t comm = test::join(rank, 2, board, report);
          if (comm == nullptr) return 2;
          float x = 1;
          if (ecclAllReduce(&x, &x, 1, ecclFloat, ecclSum, comm, nullptr) != ecclSuccess) return 3;
          if (rank == 1) exit(0);
          const double began = test::now();
          const ecclResult_t result = ecclAllReduce(&x, &x, 1, ecclFloat, ecclSum, comm, nullptr);
          report += ecclGetLastError(comm);
          const double took = test::now() - began;
          ecclCommAbort(comm);
          // Not before it has really ended: until then it shows signs of life.
          return result != ecclRemoteError ? 4 : took < 1.2 ? 5 : 0;
        },
        30);
    EXPECT_EQ(outcomes[0].code, 0) << outcomes[0].text;
    EXPECT_THAT(outcomes[0].text, HasSubstr("rank 1"));
    EXPECT_THAT(outcomes[0].text, ::testing::Not(HasSubstr("malformed")));
    EXPECT_TRUE(outcomes[1].ended);
    EXPECT_EQ(outcomes[1].code, 0) << "signal " << outcomes[1].signal;
  }
}

// Calls come while the process ends, as from destructors of static objects: after those of the main thread's
// own objects.
TEST(Exit, CallsFromAnExitHandlerWork) {
  static ecclComm_t comm;
  auto outcomes = test::runProcesses(1, [&](int, test::Board&, std::string&) {
    setenv("ECCL_DEBUG", "NONE", 1);
    std::atexit([] {
      float x = 3;
      ecclGroupStart();
      const bool ok = ecclAllReduce(&x, &x, 1, ecclFloat, ecclSum, comm, nullptr) == ecclSuccess &&
                      ecclGroupEnd() == ecclSuccess && ecclCommCount(nullptr, nullptr) == ecclInvalidArgument &&
                      std::string(ecclGetLastError(nullptr)).find("comm is NULL") != std::string::npos &&
                      ecclCommDestroy(comm) == ecclSuccess;
      _exit(ok ? 42 : 1);
    });
    ecclCommInitAll(&comm, 1, nullptr);
    exit(2);
    return 3;
  });
  EXPECT_EQ(outcomes[0].code, 42);
}

}  // namespace
}  // namespace eccl::runtime
