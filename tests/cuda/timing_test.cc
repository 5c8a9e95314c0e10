// How long AllReduces take, staged and by lanes, on a machine with a GPU: two ranks that share it, as threads
// and as processes. perf/gpu_check runs it; perf/results/gpu.md has figures.
#include <algorithm>
#include <chrono>
#include <cstdio>

#include "cuda/ranks.h"
#include "support/processes.h"

namespace eccl {
namespace {

using test::asStream;
using test::Cuda;
using test::DeviceBuffer;
using test::DeviceStream;
using test::From;

struct Figures {
  double waited = 0, queued = 0;  // microseconds for a call: each waited for; one behind the other
  double made = 0;                // until it returns, of those that are queued
  double replayed = 0;            // in a graph, one behind the other, median of nine; 0: not measured
};

/// `mostInGraph`: a launch of more than CUDA takes at once holds its lock until the rest has been made, and
/// other ranks of the process need that to launch theirs. 0: no graph.
Figures measure(ecclComm_t comm, size_t bytes, int mostInGraph = 100, From memory = From::driver) {
  const size_t count = bytes / sizeof(float);
  const DeviceBuffer<float> data(std::vector<float>(count, 0), memory);
  const DeviceStream stream;
  double made = 0;
  const auto time = [&](int times, bool waits) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < times; ++i) {
      EXPECT_EQ(
          ecclAllReduce(data.data(), data.data(), count, ecclFloat32, ecclSum, comm, asStream(stream.native())),
          ecclSuccess);
      if (waits) stream.synchronize();
    }
    made = std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count() / times;
    stream.synchronize();
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count() / times;
  };
  const int times = bytes < (1 << 20) ? 500 : bytes < (32 << 20) ? 40 : 10;
  time(3, true);
  time(times, false);  // takes the pinned memory that so many calls need at once
  Figures figures{time(times, true), time(times, false)};
  figures.made = made;
  const int inGraph = std::min(times, mostInGraph);
  if (inGraph == 0) return figures;
  test::DeviceGraph graph(stream, [&] {
    for (int i = 0; i < inGraph; ++i) {
      EXPECT_EQ(
          ecclAllReduce(data.data(), data.data(), count, ecclFloat32, ecclSum, comm, asStream(stream.native())),
          ecclSuccess);
    }
  });
  graph.launch(stream);
  stream.synchronize();
  // How long the ranks take to launch differs by more than kernels take.
  std::vector<double> replayed;
  for (int round = 0; round < 9; ++round) {
    const auto start = std::chrono::steady_clock::now();
    for (int run = 0; run < 3; ++run) graph.launch(stream);
    stream.synchronize();
    replayed.push_back(
        std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count() / inGraph /
        3);
  }
  std::nth_element(replayed.begin(), replayed.begin() + 4, replayed.end());
  figures.replayed = replayed[4];
  return figures;
}

std::string rowOf(const char* ranks, size_t bytes, const Figures& its) {
  char text[200], graph[40] = "";
  if (its.replayed > 0) std::snprintf(graph, sizeof graph, " %9.1f us in a graph,", its.replayed);
  std::snprintf(text, sizeof text,
                "2 %-18s %10zu bytes: %9.1f us each, %9.1f us queued (%.1f to make),%s %6.2f GB/s\n", ranks,
                bytes, its.waited, its.queued, its.made, graph, static_cast<double>(bytes) / its.queued / 1e3);
  return text;
}

constexpr size_t kBytes[] = {8, 4096, 65536, 1 << 20, 4 << 20, 16 << 20, 64 << 20, 256 << 20};

void measureThreads(const char* kind, const char* name) {
  if (Cuda::get().emulated()) GTEST_SKIP() << "there is nothing to measure over the emulated driver";
  test::Ranks ranks(2, kind);
  const bool lanes = std::strcmp(kind, "lanes") == 0;
  for (const size_t bytes : kBytes) {
    ranks.each([&](int rank) {
      // Of staged calls, ten of 4 MiB in a graph were too many (H200, driver 580), ten of 1 MiB were not.
      const Figures its = measure(ranks.comm(rank), bytes, lanes ? 100 : bytes > (1 << 20) ? 0 : 10);
      if (rank == 0) std::fputs(rowOf(name, bytes, its).c_str(), stdout), std::fflush(stdout);
    });
  }
}

TEST(CudaTiming, AllReduceOfTwoThreads) {
  measureThreads("cuda", "threads");
}

TEST(CudaTiming, AllReduceOfTwoThreadsByLanes) {
  measureThreads("lanes", "threads by lanes");
}

void measureProcesses(const char* kind, const char* name, From memory = From::driver) {
  const char* const driver = std::getenv("ECCL_TESTS_CUDA");  // not asked here: a process with CUDA cannot fork
  if (driver == nullptr || std::strcmp(driver, "real") != 0)
    GTEST_SKIP() << "there is nothing to measure over the emulated driver";
  const auto outcomes = test::runProcesses(2, [&](int rank, test::Board& board, std::string& report) {
    test::askFor(kind);
    Cuda::get().use(0);
    if (rank == 0) {
      if (ecclGetUniqueId(&board.id) != ecclSuccess) return 1;
      board.idReady = 1;
    }
    while (board.idReady == 0) std::this_thread::yield();
    ecclComm_t comm = nullptr;
    if (ecclCommInitRank(&comm, 2, board.id, rank) != ecclSuccess) return 2;
    for (const size_t bytes : kBytes) {
      const Figures its = measure(comm, bytes, 100, memory);
      if (rank == 0) report += rowOf(name, bytes, its);
    }
    return ecclCommDestroy(comm) == ecclSuccess ? 0 : 3;
  });
  for (const test::Outcome& outcome : outcomes) EXPECT_EQ(outcome.code, 0) << outcome.text;
  std::fputs(outcomes[0].text.c_str(), stdout);
}

TEST(CudaTiming, AllReduceOfTwoProcesses) {
  measureProcesses("cuda", "processes");
}

TEST(CudaTiming, AllReduceOfTwoProcessesByLanes) {
  measureProcesses("lanes", "processes by lanes");
}

TEST(CudaTiming, AllReduceOfTwoProcessesByLanesInMemoryThatBothReach) {
  measureProcesses("lanes", "processes by lanes, ecclMemAlloc", From::library);
}

// Over shared memory: what passing through the host costs besides the network.
TEST(CudaTiming, AllReduceOfTwoProcessesByRelays) {
  measureProcesses("relayed", "processes by relays");
}

}  // namespace
}  // namespace eccl
