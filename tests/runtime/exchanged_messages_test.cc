// Registered messages of some KiB: where ranks send to each other they are copied, else read in place.

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>

#include "support/processes.h"

namespace eccl {
namespace {

/// Rank 0 sends registered memory. Rank 1 takes it when the Send has returned, or after a while, of the last 20
/// messages so many seconds. After each message it sends one back, if `answers`. Of the last ones: how many
/// Sends returned before, as nobody had to read the sender's memory any more.
int copiedOf(double patience, bool answers) {
  constexpr int kMessages = 30, kLast = 20;
  constexpr size_t kBytes = 8192;
  const auto outcomes = test::runProcesses(2, [&](int rank, test::Board& board, std::string& report) {
    setenv("ECCL_TRANSPORT", "shm", 1);
    ecclComm_t comm = test::join(rank, 2, board, report);
    if (comm == nullptr) return 101;
    void* memory[2];
    for (void*& each : memory)
      if (ecclMemAlloc(&each, kBytes) != ecclSuccess) return 102;
    auto* const out = static_cast<uint8_t*>(memory[0]);
    auto* const in = static_cast<uint8_t*>(memory[1]);
    const auto pass = [&](int from) {
      return rank == from ? ecclSend(out, kBytes, ecclUint8, 1 - rank, comm, nullptr)
                          : ecclRecv(in, kBytes, ecclUint8, 1 - rank, comm, nullptr);
    };
    const auto holds = [&](int value) { return in[0] == value && in[kBytes - 1] == value; };
    std::atomic<int>& returned = board.counter[6];
    int copied = 0;
    for (int i = 0; i < kMessages; ++i) {
      std::memset(out, i + rank, kBytes);
      const bool isLate = i >= kMessages - kLast;
      const double until = test::now() + (isLate ? patience : 0.01);
      while (rank == 1 && returned <= i && test::now() < until) usleep(100);
      copied += rank == 1 && isLate && returned > i;
      if (pass(0) != ecclSuccess) return 103;
      if (rank == 0) returned = i + 1;
      if (rank == 1 && !holds(i)) return 104;
      if (answers && pass(1) != ecclSuccess) return 105;
      if (answers && rank == 0 && !holds(i + 1)) return 106;
    }
    return ecclCommDestroy(comm) == ecclSuccess ? copied : 107;
  });
  EXPECT_EQ(outcomes[0].code, 0) << outcomes[0].text;
  EXPECT_LE(outcomes[1].code, kLast) << outcomes[1].text;
  return outcomes[1].code;
}

TEST(ExchangedMessages, AreCopiedWhereAreasComeBack) {
  EXPECT_EQ(copiedOf(2, true), 20);
}

TEST(ExchangedMessages, AreReadInPlaceWhereNoneComesBack) {
  EXPECT_EQ(copiedOf(0.02, false), 0);
}

}  // namespace
}  // namespace eccl
