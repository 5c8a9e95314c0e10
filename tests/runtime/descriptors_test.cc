// Descriptors that communicators take, as docs/threading.md states them.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <filesystem>

#include "support/processes.h"

namespace eccl::test {
namespace {

int openDescriptors() {
  const std::filesystem::directory_iterator open("/proc/self/fd");
  return static_cast<int>(std::distance(begin(open), end(open)));
}

ecclResult_t allToAll(ecclComm_t comm, int ranks) {
  std::vector<float> in(static_cast<size_t>(ranks) * 100, 1), out(in.size());
  return ecclAlltoAll(in.data(), out.data(), 100, ecclFloat32, comm, nullptr);
}

// Each rank: its engine two, its service thread two, its control tree two, its door one and one for each
// listener (IPv4, IPv6, AF_UNIX), and its edges of the control tree. Connections among threads: none.
TEST(Descriptors, RanksThatAreThreadsTakeTenEachAndTwoForAnEdgeOfTheTree) {
  constexpr int kRanks = 16;
  const int before = openDescriptors();
  std::vector<ecclComm_t> comms(kRanks);
  ASSERT_EQ(ecclCommInitAll(comms.data(), kRanks, nullptr), ecclSuccess) << ecclGetLastError(nullptr);
  for (int i = 0; i < 200 && openDescriptors() > before + 10 * kRanks + 2 * (kRanks - 1); ++i)
    usleep(10'000);  // the rendezvous root ends
  const int made = openDescriptors();
  EXPECT_LE(made - before, 10 * kRanks + 2 * (kRanks - 1));
  std::vector<std::thread> threads;
  for (ecclComm_t comm : comms) threads.emplace_back([=] { EXPECT_EQ(allToAll(comm, kRanks), ecclSuccess); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(openDescriptors(), made);
  threads.clear();
  for (ecclComm_t comm : comms) threads.emplace_back([=] { EXPECT_EQ(ecclCommDestroy(comm), ecclSuccess); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(openDescriptors(), before);
}

// Each process: one for its shared memory, and for each peer on this host a doorbell and a pidfd, or by TCP one
// for each connection.
TEST(Descriptors, RanksThatAreProcessesTakeTwoForEachPeerOrOneForEachConnection) {
  constexpr int kRanks = 4;
  for (const char* path : {"shm", "tcp"}) {
    const auto outcomes = runProcesses(kRanks, [&](int rank, Board& board, std::string& report) {
      setenv("ECCL_TRANSPORT", path, 1);
      setenv("ECCL_CHANNELS", "1", 1);
      ecclComm_t comm = join(rank, kRanks, board, report);
      if (comm == nullptr) return 2;
      board.meet(0, kRanks);
      usleep(200'000);  // the rendezvous root ends
      const int made = openDescriptors();
      board.meet(1, kRanks);
      if (allToAll(comm, kRanks) != ecclSuccess) return 3;
      board.meet(2, kRanks);
      const int more = openDescriptors() - made;
      const bool shm = std::string(path) == "shm";
      const int expected = shm ? 1 + 2 * (kRanks - 1) : 2 * (kRanks - 1);
      if (more != expected)
        report += "took " + std::to_string(more) + " instead of " + std::to_string(expected);
      board.meet(3, kRanks);
      return ecclCommDestroy(comm) != ecclSuccess ? 4 : more == expected ? 0 : 5;
    });
    for (const Outcome& outcome : outcomes) EXPECT_EQ(outcome.code, 0) << path << ": " << outcome.text;
  }
}

// A login shell's limit, hard: nothing can be raised.
TEST(Descriptors, SixteenRanksAsThreadsNeedNoThousand) {
  const auto outcomes = runProcesses(1, [](int, Board&, std::string& report) {
    const rlimit few{400, 400};
    setrlimit(RLIMIT_NOFILE, &few);
    constexpr int kRanks = 16;
    std::vector<ecclComm_t> comms(kRanks);
    if (ecclCommInitAll(comms.data(), kRanks, nullptr) != ecclSuccess) {
      report += ecclGetLastError(nullptr);
      return 2;
    }
    std::vector<std::thread> threads;
    std::atomic<int> wrong{0};
    for (ecclComm_t comm : comms)
      threads.emplace_back([&, comm] { wrong += allToAll(comm, kRanks) != ecclSuccess; });
    for (std::thread& thread : threads) thread.join();
    return wrong == 0 ? 0 : 3;
  });
  EXPECT_EQ(outcomes[0].code, 0) << outcomes[0].text;
}

}  // namespace
}  // namespace eccl::test
