// Ranks that are connected by UCX alone, from the outside.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <thread>
#include <vector>

#include "support/modules.h"
#include "support/processes.h"
#include "support/temporary_folder.h"

namespace eccl::runtime {
namespace {

using ::testing::HasSubstr;

class UcxModule : public test::TemporaryFolder {
 protected:
  void SetUp() override {
    TemporaryFolder::SetUp();
    if (test::builtModule("ucx").empty())
      GTEST_SKIP() << "the transport module 'ucx' was not built: no libucx-dev";
  }
  static ecclComm_t join(int rank, int ranks, test::Board& board, std::string& report,
                         const char* transports = "ucx") {
    setenv("ECCL_TRANSPORT_MODULES", test::builtModule("ucx").c_str(), 1);
    setenv("ECCL_TRANSPORT", transports, 1);
    return test::join(rank, ranks, board, report);
  }
  static void expectAllWell(const std::vector<test::Outcome>& outcomes) {
    for (const test::Outcome& outcome : outcomes) EXPECT_EQ(outcome.code, 0) << outcome.text;
  }
};

TEST_F(UcxModule, CarriesAnAllReduce) {
  constexpr int kRanks = 3;
  expectAllWell(test::runProcesses(kRanks, [](int rank, test::Board& board, std::string& report) {
    ecclComm_t comm = join(rank, kRanks, board, report);
    if (comm == nullptr) return 2;
    for (size_t count : {1, 1000, 100'000, 1'000'000}) {
      std::vector<float> mine(count, static_cast<float>(rank + 1)), sum(count);
      for (int times = 0; times < 5; ++times) {
        if (ecclAllReduce(mine.data(), sum.data(), count, ecclFloat, ecclSum, comm, nullptr) != ecclSuccess) {
          report += ecclGetLastError(comm);
          return 3;
        }
        if (sum != std::vector<float>(count, 6)) return 4;
      }
    }
    return ecclCommDestroy(comm) == ecclSuccess ? 0 : 5;
  }));
}

TEST_F(UcxModule, CarriesSendAndReceive) {
  expectAllWell(test::runProcesses(2, [](int rank, test::Board& board, std::string& report) {
    ecclComm_t comm = join(rank, 2, board, report);
    if (comm == nullptr) return 2;
    for (size_t count : {0, 1, 5000, 3'000'000}) {
      std::vector<int> out(count, rank + 10), in(count);
      ecclResult_t result = ecclGroupStart();
      if (result == ecclSuccess) result = ecclSend(out.data(), count, ecclInt32, 1 - rank, comm, nullptr);
      if (result == ecclSuccess) result = ecclRecv(in.data(), count, ecclInt32, 1 - rank, comm, nullptr);
      if (const ecclResult_t end = ecclGroupEnd(); result == ecclSuccess) result = end;
      if (result != ecclSuccess) {
        report += ecclGetLastError(comm);
        return 3;
      }
      if (in != std::vector<int>(count, 11 - rank)) return 4;
    }
    return ecclCommDestroy(comm) == ecclSuccess ? 0 : 5;
  }));
}

TEST_F(UcxModule, CarriesAnAlltoAllv) {
  constexpr int kRanks = 3;
  expectAllWell(test::runProcesses(kRanks, [](int rank, test::Board& board, std::string& report) {
    ecclComm_t comm = join(rank, kRanks, board, report);
    if (comm == nullptr) return 2;
    // Rank i sends j * 50,000 + 1 elements to rank j.
    constexpr size_t kMost = 2 * 50'000 + 1;
    size_t sends[kRanks], receives[kRanks], at[kRanks];
    for (size_t peer = 0; peer < kRanks; ++peer) {
      sends[peer] = peer * 50'000 + 1;
      receives[peer] = static_cast<size_t>(rank) * 50'000 + 1;
      at[peer] = peer * kMost;
    }
    std::vector<int> out(kRanks * kMost, rank), in(kRanks * kMost, -1);
    for (int times = 0; times < 5; ++times) {
      if (ecclAlltoAllv(out.data(), sends, at, in.data(), receives, at, ecclInt32, comm, nullptr) !=
          ecclSuccess) {
        report += ecclGetLastError(comm);
        return 3;
      }
      for (size_t peer = 0; peer < kRanks; ++peer) {
        for (size_t i = 0; i < receives[peer]; ++i)
          if (in[at[peer] + i] != static_cast<int>(peer)) return 4;
      }
    }
    return ecclCommDestroy(comm) == ecclSuccess ? 0 : 5;
  }));
}

TEST_F(UcxModule, TheFirstOfTheListIsTaken) {
  for (const std::string list : {"ucx,tcp", "tcp,ucx"}) {
    expectAllWell(test::runProcesses(2, [&](int rank, test::Board& board, std::string& report) {
      setenv("ECCL_CONNECTIONS_DUMP_FILE", (folder_ + list).c_str(), 1);
      ecclComm_t comm = join(rank, 2, board, report, list.c_str());
      if (comm == nullptr) return 2;
      float x = 1;
      if (ecclAllReduce(&x, &x, 1, ecclFloat, ecclSum, comm, nullptr) != ecclSuccess || x != 2) return 3;
      return ecclCommDestroy(comm) == ecclSuccess ? 0 : 4;
    }));
  }
  ASSERT_EQ(filesLeft().size(), 4);
  for (const std::string& name : filesLeft()) {
    std::stringstream text;
    text << std::ifstream(folder_ + name).rdbuf();
    EXPECT_THAT(text.str(), HasSubstr("path=" + name.substr(0, 3) + " ")) << name;
  }
}

// One after the other, and two at once.
TEST_F(UcxModule, ServesSeveralCommunicators) {
  expectAllWell(test::runProcesses(2, [](int rank, test::Board& board, std::string& report) {
    ecclComm_t comm = join(rank, 2, board, report);
    if (comm == nullptr) return 2;
    for (int times = 0; times < 3; ++times) {
      ecclComm_t part = nullptr;
      if (ecclCommSplit(comm, 0, rank, &part, nullptr) != ecclSuccess) return 3;
      std::vector<float> data(100'000, 1);
      for (ecclComm_t each : {part, comm, part}) {
        if (ecclAllReduce(data.data(), data.data(), data.size(), ecclFloat, ecclSum, each, nullptr) !=
            ecclSuccess) {
          report += ecclGetLastError(each);
          return 4;
        }
      }
      if (data[99'999] != 8) return 5;
      if (ecclCommDestroy(part) != ecclSuccess) return 6;
    }
    return ecclCommDestroy(comm) == ecclSuccess ? 0 : 7;
  }));
}

TEST_F(UcxModule, ARankThatDiesIsNamedWithinASecondTiming) {
  const auto outcomes = test::runProcesses(3, [](int rank, test::Board& board, std::string& report) {
    setenv("ECCL_DEBUG", "NONE", 1);
    ecclComm_t comm = join(rank, 3, board, report);
    if (comm == nullptr) return 2;
    std::vector<float> data(100'000, 1), out(data.size());
    ecclResult_t result = ecclSuccess;
    for (int i = 0; result == ecclSuccess; ++i) {
      if (rank == 1 && i == 20) {
        board.time = test::now();
        kill(getpid(), SIGKILL);
      }
      result = ecclAllReduce(data.data(), out.data(), data.size(), ecclFloat, ecclSum, comm, nullptr);
    }
    const double took = test::now() - board.time;
    report += ecclGetLastError(comm) + (" [" + std::to_string(took) + " s]");
    ecclCommAbort(comm);
    return result != ecclRemoteError ? 3 : took > 1 ? 4 : 0;
  });
  EXPECT_EQ(outcomes[1].signal, SIGKILL);
  for (size_t rank : {0, 2}) {
    EXPECT_EQ(outcomes[rank].code, 0) << outcomes[rank].text;
    EXPECT_THAT(outcomes[rank].text, HasSubstr("rank 1"));
  }
}

// UCX's thread does not go with a fork, so that a child could wait for ever.
TEST_F(UcxModule, AForkedChildIsToldThatItCannotUseIt) {
  const auto outcomes = test::runProcesses(1, [](int, test::Board&, std::string& report) {
    // Two ranks in threads of a process, and again in a child of that.
    const auto sum = [](std::string& why) {
      ecclUniqueId id;
      if (ecclGetUniqueId(&id) != ecclSuccess) return 2;
      setenv("ECCL_TRANSPORT_MODULES", test::builtModule("ucx").c_str(), 1);
      setenv("ECCL_TRANSPORT", "ucx", 1);
      setenv("ECCL_DEBUG", "NONE", 1);
      int codes[2] = {0, 0};
      std::string texts[2];
      ecclComm_t comms[2] = {};
      const auto rank = [&](int mine) {
        float x = 1;
        ecclResult_t result = ecclCommInitRank(&comms[mine], 2, id, mine);
        if (result == ecclSuccess) result = ecclAllReduce(&x, &x, 1, ecclFloat, ecclSum, comms[mine], nullptr);
        codes[mine] = result == ecclSuccess && x == 2 ? 0 : 3;
        texts[mine] = ecclGetLastError(comms[mine]);
        if (codes[mine] != 0) ecclCommAbort(comms[mine]);
      };
      std::thread other([&] { rank(1); });
      rank(0);
      other.join();
      why += texts[0] + texts[1];
      return codes[0] + codes[1];
    };
    if (const int code = sum(report); code != 0) return code;
    const pid_t child = fork();
    if (child == 0) {
      std::string why;
      const int code = sum(why);
      _exit(code != 0 && why.find("was forked while") != std::string::npos ? 0 : 1);
    }
    int status = 0;
    if (waitpid(child, &status, 0) != child) return 4;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 5;
  });
  for (const test::Outcome& outcome : outcomes) EXPECT_EQ(outcome.code, 0) << outcome.text;
}

}  // namespace
}  // namespace eccl::runtime
