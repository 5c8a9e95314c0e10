// Descriptors and address space that communicators take, as the documents state them.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <fstream>

#include "support/descriptors.h"
#include "support/processes.h"
#include "support/sanitizers.h"

namespace eccl::runtime {
namespace {

int openDescriptors() {
  return static_cast<int>(test::openDescriptors());
}

ecclResult_t allToAll(ecclComm_t comm, int ranks) {
  std::vector<float> in(static_cast<size_t>(ranks) * 100, 1), out(in.size());
  return ecclAlltoAll(in.data(), out.data(), 100, ecclFloat32, comm, nullptr);
}

// Each rank: its engine two, its service thread two, its control tree two, its listener one and one for each
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
    const auto outcomes = test::runProcesses(kRanks, [&](int rank, test::Board& board, std::string& report) {
      setenv("ECCL_TRANSPORT", path, 1);
      setenv("ECCL_CHANNELS", "1", 1);
      ecclComm_t comm = test::join(rank, kRanks, board, report);
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
    for (const test::Outcome& outcome : outcomes) EXPECT_EQ(outcome.code, 0) << path << ": " << outcome.text;
  }
}

std::vector<std::pair<size_t, size_t>> mappingsOfHeaps() {
  std::ifstream maps("/proc/self/maps");
  std::vector<std::pair<size_t, size_t>> found;
  for (std::string line; std::getline(maps, line);) {
    size_t begin, end;
    if (line.find("eccl-heap") != line.npos && sscanf(line.c_str(), "%zx-%zx", &begin, &end) == 2)
      found.emplace_back(begin, end);
  }
  return found;
}

/// In a process that has just been forked: what its parent had.
void unmapInheritedHeaps() {
  for (auto [begin, end] : mappingsOfHeaps()) munmap(reinterpret_cast<void*>(begin), end - begin);
}

/// Bytes of all mappings of heaps, and of the largest, which is this process's own.
std::pair<size_t, size_t> mappedHeaps() {
  size_t sum = 0, largest = 0;
  for (auto [begin, end] : mappingsOfHeaps()) {
    sum += end - begin;
    largest = std::max(largest, end - begin);
  }
  return {sum, largest};
}

// Address space is finite as well: of a peer's heap that is mapped which is in use, however large the heap may
// become, and the sums are right while it grows.
TEST(AddressSpace, PeersMemoryIsMappedAsFarAsItIsUsed) {
  constexpr int kRanks = 3;
  constexpr size_t kMiB = size_t{1} << 20;
  const auto outcomes = test::runProcesses(kRanks, [&](int rank, test::Board& board, std::string& report) {
    unmapInheritedHeaps();
    setenv("ECCL_TRANSPORT", "shm", 1);
    ecclComm_t comm = test::join(rank, kRanks, board, report);
    if (comm == nullptr) return 2;
    std::vector<void*> kept;
    for (const size_t bytes : {kMiB, 100 * kMiB, 40 * kMiB, 150 * kMiB}) {
      void* memory = nullptr;
      if (ecclMemAlloc(&memory, bytes) != ecclSuccess) return 3;
      kept.push_back(memory);
      constexpr size_t kCount = kMiB / sizeof(int);
      auto* data = static_cast<int*>(memory) + bytes / sizeof(int) - kCount;  // the last MiB
      for (int call = 0; call < 4; ++call) {
        for (size_t i = 0; i < kCount; ++i) data[i] = rank + static_cast<int>(i) * call;
        if (ecclAllReduce(data, data, kCount, ecclInt32, ecclSum, comm, nullptr) != ecclSuccess) {
          report += ecclGetLastError(comm);
          return 4;
        }
        for (size_t i = 0; i < kCount; ++i) {
          if (data[i] != kRanks * (kRanks - 1) / 2 + kRanks * static_cast<int>(i) * call) return 5;
        }
      }
    }
    const auto [sum, own] = mappedHeaps();
    if (sum - own < (kRanks - 1) * 256 * kMiB || sum - own > (kRanks - 1) * 1024 * kMiB) {
      report += std::to_string((sum - own) / kMiB) + " MiB of peers' heaps";
      return 6;
    }
    board.meet(0, kRanks);
    for (void* each : kept) ecclMemFree(each);
    return ecclCommDestroy(comm) == ecclSuccess ? 0 : 7;
  });
  for (const test::Outcome& outcome : outcomes) EXPECT_EQ(outcome.code, 0) << outcome.text;
}

TEST(AddressSpace, ALimitLeavesRoomForAllHeaps) {
  constexpr int kRanks = 3;
  const auto outcomes = test::runProcesses(kRanks, [&](int rank, test::Board& board, std::string& report) {
    if (kSanitized) return 0;  // which need more address space than any limit leaves
    unmapInheritedHeaps();
    const rlimit few{size_t{2} << 30, size_t{2} << 30};
    setrlimit(RLIMIT_AS, &few);
    setenv("ECCL_TRANSPORT", "shm", 1);
    ecclComm_t comm = test::join(rank, kRanks, board, report);
    void* memory = nullptr;
    if (comm == nullptr || ecclMemAlloc(&memory, 1 << 20) != ecclSuccess) return 2;
    auto* data = static_cast<int*>(memory);
    for (int i = 0; i < 1000; ++i) data[i] = i;
    if (ecclAllReduce(data, data, 1000, ecclInt32, ecclSum, comm, nullptr) != ecclSuccess) return 3;
    const auto [sum, own] = mappedHeaps();
    if (data[999] != kRanks * 999) return 4;
    board.meet(0, kRanks);
    return own <= size_t{512} << 20 && sum > own ? 0 : 5;
  });
  for (const test::Outcome& outcome : outcomes) EXPECT_EQ(outcome.code, 0) << outcome.text;
}

// A login shell's limit, hard: nothing can be raised.
TEST(Descriptors, SixteenRanksAsThreadsNeedNoThousand) {
  const auto outcomes = test::runProcesses(1, [](int, test::Board&, std::string& report) {
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
}  // namespace eccl::runtime
