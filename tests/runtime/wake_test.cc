// Whoever sleeps is woken by what it waits for, not by the time that passes.

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>

#include "support/processes.h"

namespace eccl::runtime {
namespace {

using std::chrono::steady_clock;

/// A sleep that nobody ends goes on for this long, in seconds.
constexpr int kStall = 30;
constexpr useconds_t kLate = 100'000;  // microseconds; long enough for the other to fall asleep

/// Rank 1 takes rank 0's message late. Seconds until rank 0's Send has returned.
int secondsOfASend(const char* transport, size_t count, bool own) {
  auto outcomes = test::runProcesses(2, [&](int rank, test::Board& board, std::string& report) {
    setenv("ECCL_TRANSPORT", transport, 1);
    setenv("ECCL_STALL_TIME", std::to_string(kStall).c_str(), 1);
    ecclComm_t comm = test::join(rank, 2, board, report);
    if (comm == nullptr) return 99;
    std::vector<float> ordinary(count);
    void* memory = nullptr;
    if (own && ecclMemAlloc(&memory, count * sizeof(float)) != ecclSuccess) return 98;
    float* data = own ? static_cast<float*>(memory) : ordinary.data();
    const auto begun = steady_clock::now();
    for (int i = 0; i < 5; ++i) {
      if (rank == 1) usleep(kLate);
      const ecclResult_t result = rank == 0 ? ecclSend(data, count, ecclFloat, 1, comm, nullptr)
                                            : ecclRecv(data, count, ecclFloat, 0, comm, nullptr);
      if (result != ecclSuccess) return 97;
    }
    const auto took = std::chrono::duration_cast<std::chrono::seconds>(steady_clock::now() - begun);
    if (own) ecclMemFree(memory);
    ecclCommDestroy(comm);
    return rank == 0 ? static_cast<int>(took.count()) : 0;
  });
  EXPECT_TRUE(outcomes[0].ended && outcomes[1].ended) << outcomes[0].text << outcomes[1].text;
  EXPECT_EQ(outcomes[1].code, 0) << outcomes[1].text;
  return outcomes[0].code;
}

// The message refers to the sender's memory: nothing is left to send, but it must not be written to yet.
TEST(Wake, ByTheReceiverOfTheSendersOwnMemory) {
  EXPECT_LT(secondsOfASend("shm", 1 << 18, true), kStall);
}

TEST(Wake, BySlotsThatBecomeFree) {
  EXPECT_LT(secondsOfASend("shm", 1 << 18, false), kStall);
  EXPECT_LT(secondsOfASend("tcp", 1 << 20, false), kStall);
}

}  // namespace
}  // namespace eccl::runtime
