// Communicators that give their memory back for a while.
#include <gmock/gmock.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "support/mapped_memory.h"
#include "support/processes.h"

namespace eccl {
namespace {

using ::testing::HasSubstr;

class Suspended : public testing::Test {
 protected:
  static constexpr size_t kCount = 40'000;

  void SetUp() override {
    ASSERT_EQ(ecclCommInitAll(comms, 2, nullptr), ecclSuccess) << ecclGetLastError(nullptr);
  }
  void TearDown() override {
    std::thread other([&] { EXPECT_EQ(ecclCommDestroy(comms[1]), ecclSuccess); });
    EXPECT_EQ(ecclCommDestroy(comms[0]), ecclSuccess) << ecclGetLastError(nullptr);
    other.join();
  }
  ecclResult_t sum(int rank, ecclStream_t stream = nullptr) {
    return ecclAllReduce(in[rank].data(), out[rank].data(), kCount, ecclFloat, ecclSum, comms[rank], stream);
  }
  void bothSum() {
    std::thread other([&] { EXPECT_EQ(sum(1), ecclSuccess); });
    EXPECT_EQ(sum(0), ecclSuccess) << ecclGetLastError(comms[0]);
    other.join();
    EXPECT_EQ(out[0], std::vector<float>(kCount, 2));
    EXPECT_EQ(out[1], std::vector<float>(kCount, 2));
    out[0].assign(kCount, 0);
  }
  uint64_t suspended(int rank) {
    uint64_t value = 7;
    EXPECT_EQ(ecclCommMemStats(comms[rank], ecclStatGpuMemSuspended, &value), ecclSuccess);
    return value;
  }

  ecclComm_t comms[2] = {};
  std::vector<float> in[2] = {std::vector<float>(kCount, 1), std::vector<float>(kCount, 1)},
                     out[2] = {std::vector<float>(kCount), std::vector<float>(kCount)};
};

TEST_F(Suspended, TakesNoCallsUntilItIsResumed) {
  for (int i = 0; i < 5; ++i) bothSum();
  EXPECT_EQ(suspended(0), 0u);
  EXPECT_EQ(ecclCommSuspend(comms[0], 0), ecclSuccess) << "nothing was asked for";
  EXPECT_EQ(suspended(0), 0u);
  ASSERT_EQ(ecclCommSuspend(comms[0], ECCL_SUSPEND_MEM), ecclSuccess) << ecclGetLastError(comms[0]);
  EXPECT_EQ(ecclCommSuspend(comms[0], ECCL_SUSPEND_MEM), ecclSuccess) << "it is";
  EXPECT_EQ(suspended(0), 1u);
  EXPECT_EQ(suspended(1), 0u) << "it is local";
  ecclStream_t stream;
  ASSERT_EQ(ecclStreamCreate(&stream), ecclSuccess);
  ecclRedOp_t op;
  ecclComm_t child;
  float two = 2;
  for (const ecclResult_t refused :
       {sum(0), sum(0, stream), ecclSend(&two, 1, ecclFloat, 1, comms[0], nullptr),
        ecclBarrier(comms[0], nullptr), ecclCommSplit(comms[0], 0, 0, &child, nullptr),
        ecclCommSynchronize(comms[0]),
        ecclRedOpCreatePreMulSum(&op, &two, ecclFloat, ecclScalarHostImmediate, comms[0])})
    EXPECT_EQ(refused, ecclInvalidUsage);
  EXPECT_THAT(ecclGetLastError(comms[0]), HasSubstr("ecclCommResume"));
  int count = 0;
  EXPECT_EQ(ecclCommCount(comms[0], &count), ecclSuccess);
  EXPECT_EQ(count, 2);
  ecclResult_t async = ecclInternalError;
  EXPECT_EQ(ecclCommGetAsyncError(comms[0], &async), ecclSuccess);
  EXPECT_EQ(async, ecclSuccess);
  ASSERT_EQ(ecclCommResume(comms[0]), ecclSuccess);
  EXPECT_EQ(ecclCommResume(comms[0]), ecclSuccess) << "it is";
  for (int i = 0; i < 5; ++i) bothSum();
  EXPECT_EQ(ecclStreamDestroy(stream), ecclSuccess);
}

// A peer that goes on waits, and what it has sent meanwhile arrives.
TEST_F(Suspended, PeersWait) {
  bothSum();
  ASSERT_EQ(ecclCommSuspend(comms[0], ECCL_SUSPEND_MEM), ecclSuccess);
  std::thread other([&] { EXPECT_EQ(sum(1), ecclSuccess) << ecclGetLastError(comms[1]); });
  usleep(300'000);  // longer than it takes a rank to ask the others what they are in
  EXPECT_EQ(ecclCommResume(comms[0]), ecclSuccess);
  EXPECT_EQ(sum(0), ecclSuccess) << ecclGetLastError(comms[0]);
  other.join();
  EXPECT_EQ(out[0], out[1]);
}

TEST_F(Suspended, NotWhileACallIsUnderWay) {
  bothSum();
  ecclStream_t stream;
  ASSERT_EQ(ecclStreamCreate(&stream), ecclSuccess);
  ASSERT_EQ(sum(0, stream), ecclSuccess);
  EXPECT_EQ(ecclCommSuspend(comms[0], ECCL_SUSPEND_MEM), ecclInvalidUsage);
  EXPECT_THAT(ecclGetLastError(comms[0]), HasSubstr("calls of rank 0 are under way"));
  EXPECT_EQ(suspended(0), 0u);
  EXPECT_EQ(sum(1), ecclSuccess);
  EXPECT_EQ(ecclStreamSynchronize(stream), ecclSuccess);
  EXPECT_EQ(ecclCommSuspend(comms[0], ECCL_SUSPEND_MEM), ecclSuccess);
  EXPECT_EQ(ecclStreamDestroy(stream), ecclSuccess);  // it is destroyed suspended
}

// Whoever is inside a call need not end it first.
TEST_F(Suspended, NotWhileAThreadWaitsInACall) {
  bothSum();
  std::thread waits([&] { EXPECT_EQ(sum(0), ecclSuccess) << ecclGetLastError(comms[0]); });
  usleep(100'000);
  EXPECT_EQ(ecclCommSuspend(comms[0], ECCL_SUSPEND_MEM), ecclInvalidUsage);
  EXPECT_EQ(suspended(0), 0u);
  EXPECT_EQ(sum(1), ecclSuccess) << ecclGetLastError(comms[1]);
  waits.join();
  EXPECT_EQ(out[0], out[1]);
}

TEST_F(Suspended, ANonBlockingOneIsFinalizedToo) {
  ecclUniqueId id;
  ecclComm_t comm;
  ecclConfig_t config = ECCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ASSERT_EQ(ecclGetUniqueId(&id), ecclSuccess);
  ASSERT_EQ(ecclCommInitRankConfig(&comm, 1, id, 0, &config), ecclInProgress);
  ecclResult_t state = ecclInProgress;
  const auto settle = [&] {
    do ASSERT_EQ(ecclCommGetAsyncError(comm, &state), ecclSuccess);
    while (state == ecclInProgress && usleep(1000) == 0);
    ASSERT_EQ(state, ecclSuccess);
  };
  settle();
  EXPECT_EQ(ecclCommSuspend(comm, ECCL_SUSPEND_MEM), ecclSuccess);
  EXPECT_EQ(ecclCommFinalize(comm), ecclInProgress) << ecclGetLastError(comm);
  settle();
  EXPECT_EQ(ecclCommSuspend(comm, ECCL_SUSPEND_MEM), ecclInvalidUsage) << "it has ended";
  EXPECT_EQ(ecclCommDestroy(comm), ecclSuccess);
}

TEST_F(Suspended, ArgumentsAreChecked) {
  EXPECT_EQ(ecclCommSuspend(comms[0], 2), ecclInvalidArgument);
  EXPECT_EQ(ecclCommSuspend(nullptr, ECCL_SUSPEND_MEM), ecclInvalidArgument);
  EXPECT_EQ(ecclCommResume(nullptr), ecclInvalidArgument);
  EXPECT_EQ(ecclCommMemStats(comms[0], static_cast<ecclCommMemStat_t>(-1), nullptr), ecclInvalidArgument);
}

// Calls that lose the race are refused, those that win are complete; nothing hangs.
TEST_F(Suspended, AnyTimeFromAnotherThread) {
  std::atomic<bool> over{false};
  std::thread third([&] {
    while (!over) {
      ecclCommSuspend(comms[0], ECCL_SUSPEND_MEM);
      ecclCommResume(comms[0]);
      usleep(500);  // planning anew takes longer than a call
    }
  });
  std::thread other([&] {
    for (int i = 0; i < 100; ++i) EXPECT_EQ(sum(1), ecclSuccess) << ecclGetLastError(comms[1]);
  });
  for (int i = 0; i < 100;) {
    const ecclResult_t result = sum(0);
    i += result == ecclSuccess;
    ASSERT_TRUE(result == ecclSuccess || result == ecclInvalidUsage) << ecclGetLastError(comms[0]);
  }
  over = true;
  other.join();
  third.join();
  EXPECT_EQ(out[0], std::vector<float>(kCount, 2));
}

// As the kernel sees it, in two processes: the pages of rings are gone, and come back.
TEST(SuspendedProcess, GivesPagesBack) {
  auto outcomes = test::runProcesses(2, [&](int rank, test::Board& board, std::string& report) {
    setenv("ECCL_TRANSPORT", "shm", 1);
    setenv("ECCL_SLOT_SPREAD", "4194304", 1);
    setenv("ECCL_SINGLE_COPY", "0", 1);
    ecclComm_t comm = test::join(rank, 2, board, report);
    if (comm == nullptr) return 1;
    std::vector<float> in(40'000, 1), out(40'000);
    const auto sum = [&] {
      return ecclAllReduce(in.data(), out.data(), in.size(), ecclFloat, ecclSum, comm, nullptr) ==
                 ecclSuccess &&
             out.back() == 2;
    };
    const auto pass = [&] {  // one way: the receiver comes to own what the messages lay in
      return rank == 0 ? ecclSend(in.data(), in.size(), ecclFloat, 1, comm, nullptr)
                       : ecclRecv(out.data(), out.size(), ecclFloat, 0, comm, nullptr);
    };
    for (int i = 0; i < 5; ++i)
      if (!sum() || pass() != ecclSuccess) return 2;
    // The first message back shows that there is a way: from then on areas are given.
    const ecclResult_t back = rank == 1 ? ecclSend(in.data(), 1, ecclFloat, 0, comm, nullptr)
                                        : ecclRecv(out.data(), 1, ecclFloat, 1, comm, nullptr);
    if (back != ecclSuccess) return 2;
    for (int i = 0; i < 5; ++i)
      if (pass() != ecclSuccess) return 2;
    if (test::touchedKiB("eccl-ring") < 4096) return 3;
    board.meet(0, 2);
    if (ecclCommSuspend(comm, ECCL_SUSPEND_MEM) != ecclSuccess) return 4;
    board.meet(1, 2);
    // Headers, with what lies beside them, and proofs are left: some ten pages of each of four rings.
    if (test::touchedKiB("eccl-ring") > 48 * sysconf(_SC_PAGESIZE) / 1024) return 5;
    board.meet(2, 2);
    if (ecclCommResume(comm) != ecclSuccess) return 6;
    for (int i = 0; i < 5; ++i)
      if (!sum()) return 7;
    return ecclCommDestroy(comm) == ecclSuccess ? 0 : 8;
  });
  for (const auto& outcome : outcomes) EXPECT_EQ(outcome.code, 0) << outcome.text;
}

}  // namespace
}  // namespace eccl
