// Memory of processes: what is plain is read by the kernel instead of copied twice, or written into slots past
// the caches; what both see is read, or written in place. Whether plain memory was read is seen by what the
// rings touched: the data of slots lies there.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "support/mapped_memory.h"
#include "support/processes.h"

namespace eccl {
namespace {

constexpr int kMiB = 1 << 20;

void set(const char* singleCopy, const char* streaming = "-1") {
  setenv("ECCL_TRANSPORT", "shm", 1);
  setenv("ECCL_SLOT_SPREAD", "0", 1);
  setenv("ECCL_SINGLE_COPY", singleCopy, 1);
  setenv("ECCL_SLOT_STREAMING", streaming, 1);
}

/// Of rank `of`, for the i-th element of call `call`.
float valueOf(int of, int call, size_t i) {
  return static_cast<float>((i * 7 + static_cast<size_t>(of) * 31 + static_cast<size_t>(call) * 3) % 1021);
}

/// All collectives and Send/Recv with `count` elements a rank, twice with other data. "" or what is wrong. `in`
/// and `out` have room for those of all ranks.
std::string runAll(int rank, int ranks, size_t count, std::span<float> in, std::span<float> out,
                   ecclComm_t comm) {
  const auto n = static_cast<size_t>(ranks);
  const auto fail = [&](const char* what, size_t i) {
    return std::string(what) + " of " + std::to_string(count) + ": element " + std::to_string(i);
  };
  const auto sumAt = [&](int call, size_t i) {
    float sum = 0;
    for (int r = 0; r < ranks; ++r) sum += valueOf(r, call, i);
    return sum;
  };
  for (int call = 0; call < 2; ++call) {
    for (size_t i = 0; i < in.size(); ++i) in[i] = valueOf(rank, call, i);
    const auto begin = [&] { std::fill(out.begin(), out.end(), -1.0f); };
    begin();
    if (ecclAllReduce(in.data(), out.data(), count * n, ecclFloat, ecclSum, comm, nullptr) != ecclSuccess)
      return "AllReduce";
    for (size_t i = 0; i < count * n; ++i)
      if (out[i] != sumAt(call, i)) return fail("AllReduce", i);
    begin();
    if (ecclAllReduce(in.data(), out.data(), count * n, ecclFloat, ecclAvg, comm, nullptr) != ecclSuccess)
      return "AllReduce avg";
    for (size_t i = 0; i < count * n; ++i)
      if (std::abs(out[i] * static_cast<float>(ranks) - sumAt(call, i)) > 1) return fail("AllReduce avg", i);
    begin();
    if (ecclReduceScatter(in.data(), out.data(), count, ecclFloat, ecclSum, comm, nullptr) != ecclSuccess)
      return "ReduceScatter";
    for (size_t i = 0; i < count; ++i)
      if (out[i] != sumAt(call, static_cast<size_t>(rank) * count + i)) return fail("ReduceScatter", i);
    begin();
    if (ecclAllGather(in.data(), out.data(), count, ecclFloat, comm, nullptr) != ecclSuccess)
      return "AllGather";
    for (size_t i = 0; i < count * n; ++i)
      if (out[i] != valueOf(static_cast<int>(i / count), call, i % count)) return fail("AllGather", i);
    begin();
    if (ecclAlltoAll(in.data(), out.data(), count, ecclFloat, comm, nullptr) != ecclSuccess) return "AlltoAll";
    for (size_t i = 0; i < count * n; ++i) {
      const size_t at = static_cast<size_t>(rank) * count + i % count;
      if (out[i] != valueOf(static_cast<int>(i / count), call, at)) return fail("AlltoAll", i);
    }
    for (int root = 0; root < ranks; ++root) {
      begin();
      if (ecclBroadcast(in.data(), out.data(), count, ecclFloat, root, comm, nullptr) != ecclSuccess)
        return "Broadcast";
      for (size_t i = 0; i < count; ++i)
        if (out[i] != valueOf(root, call, i)) return fail("Broadcast", i);
      if (ecclReduce(in.data(), out.data(), count, ecclFloat, ecclMax, root, comm, nullptr) != ecclSuccess)
        return "Reduce";
      for (size_t i = 0; rank == root && i < count; ++i) {
        float most = 0;
        for (int r = 0; r < ranks; ++r) most = std::max(most, valueOf(r, call, i));
        if (out[i] != most) return fail("Reduce", i);
      }
    }
    begin();
    const int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;
    ecclGroupStart();
    for (size_t part = 0; part < 4; ++part) {
      ecclSend(in.data() + part * (count / 4), count / 4, ecclFloat, next, comm, nullptr);
      ecclRecv(out.data() + part * (count / 4), count / 4, ecclFloat, previous, comm, nullptr);
    }
    if (ecclGroupEnd() != ecclSuccess) return "Send and Recv";
    for (size_t i = 0; i < count / 4 * 4; ++i)
      if (out[i] != valueOf(previous, call, i)) return fail("Send and Recv", i);
  }
  return "";
}

constexpr size_t kCounts[] = {300, 4'097, 20'000, 100'003};

class SingleCopy : public ::testing::TestWithParam<std::tuple<int, const char*, const char*>> {};

TEST_P(SingleCopy, GivesTheSameResults) {
  const auto [ranks, readFrom, streamFrom] = GetParam();
  auto outcomes = test::runProcesses(ranks, [&, ranks = ranks, readFrom = readFrom, streamFrom = streamFrom](
                                                int rank, test::Board& board, std::string& report) {
    set(readFrom, streamFrom);
    ecclComm_t comm = test::join(rank, ranks, board, report);
    if (comm == nullptr) return 1;
    for (size_t count : kCounts) {
      std::vector<float> in(count * static_cast<size_t>(ranks)), out(in.size());
      report = runAll(rank, ranks, count, in, out, comm);
      if (!report.empty()) return 2;
    }
    return ecclCommDestroy(comm) == ecclSuccess ? 0 : 3;
  });
  for (const auto& outcome : outcomes) EXPECT_EQ(outcome.code, 0) << outcome.text;
}

INSTANTIATE_TEST_SUITE_P(All, SingleCopy,
                         ::testing::Combine(::testing::Values(2, 3, 5),
                                            ::testing::Values("1024", "16384", "0", "-1"),
                                            ::testing::Values("1024", "0", "-1")));

class InPlace : public ::testing::TestWithParam<std::tuple<int, const char*>> {};

// Which way each message goes depends on the clock.
TEST_P(InPlace, GivesTheSameResults) {
  const auto [ranks, streamFrom] = GetParam();
  auto outcomes = test::runProcesses(
      ranks, [&, ranks = ranks, streamFrom = streamFrom](int rank, test::Board& board, std::string& report) {
        set("0", streamFrom);
        ecclComm_t comm = test::join(rank, ranks, board, report);
        if (comm == nullptr) return 1;
        for (size_t count : kCounts) {
          void* memory[2];
          std::span<float> both[2];
          for (int i = 0; i < 2; ++i) {
            const size_t elements = count * static_cast<size_t>(ranks);
            if (ecclMemAlloc(&memory[i], elements * sizeof(float)) != ecclSuccess) return 4;
            both[i] = {static_cast<float*>(memory[i]), elements};
          }
          for (int times = 0; times < 2; ++times) {
            report = runAll(rank, ranks, count, both[0], both[1], comm);
            if (!report.empty()) return 2;
          }
          for (void* each : memory)
            if (ecclMemFree(each) != ecclSuccess) return 5;
        }
        return ecclCommDestroy(comm) == ecclSuccess ? 0 : 3;
      });
  for (const auto& outcome : outcomes) EXPECT_EQ(outcome.code, 0) << outcome.text;
}

INSTANTIATE_TEST_SUITE_P(All, InPlace,
                         ::testing::Combine(::testing::Values(2, 3, 5), ::testing::Values("4096", "0", "-1")));

/// KiB of rings that a rank has touched after a Broadcast of 1 MiB.
int touchedBy(const char* singleCopy) {
  auto outcomes = test::runProcesses(2, [&](int rank, test::Board& board, std::string& report) {
    set(singleCopy);
    ecclComm_t comm = test::join(rank, 2, board, report);
    if (comm == nullptr) return 1;
    std::vector<char> from(kMiB, 'y'), to(kMiB, 'x');
    if (ecclBroadcast(from.data(), to.data(), kMiB, ecclInt8, 0, comm, nullptr) != ecclSuccess) return 2;
    if (to != from) return 3;
    report = std::to_string(test::touchedKiB("eccl-ring"));
    return ecclCommDestroy(comm) == ecclSuccess ? 0 : 4;
  });
  for (const auto& outcome : outcomes) EXPECT_EQ(outcome.code, 0) << outcome.text;
  return std::atoi(outcomes[1].text.c_str());
}

/// Whether the kernel lets processes of one parent read each other.
bool siblingsAreReadable() {
  const auto outcomes = test::runProcesses(2, [](int rank, test::Board& board, std::string&) {
    static int here = 1;  // at the same address in both
    int there = 0;
    if (rank == 0) board.counter[2] = getpid();
    board.meet(0, 2);
    const iovec to{&there, sizeof there}, from{&here, sizeof here};
    const bool reads = rank == 0 || process_vm_readv(board.counter[2], &to, 1, &from, 1, 0) == sizeof there;
    board.meet(1, 2);
    return reads ? 0 : 1;
  });
  return outcomes[1].code == 0;
}

// A receiver that keeps up with the sender gets all messages in the memory of one, 128 KiB or 256. The headers
// of the two rings, with what lies beside them, take 80.
TEST(SingleCopy, UsesNoSlots) {
  if (!siblingsAreReadable()) GTEST_SKIP() << "processes here may not read each other (Yama, seccomp)";
  EXPECT_LT(touchedBy("65536"), 100);
  EXPECT_GE(touchedBy("0"), 180);
}

/// The same after groups of short messages both ways, which are made again and again.
int touchedByShortOnes(const char* singleCopy) {
  constexpr size_t kBytes = 15'000;
  constexpr int kEach = 4;
  auto outcomes = test::runProcesses(2, [&](int rank, test::Board& board, std::string& report) {
    set(singleCopy);
    ecclComm_t comm = test::join(rank, 2, board, report);
    if (comm == nullptr) return 1;
    std::vector<char> from(kBytes, 'y'), to(kBytes * kEach);
    for (int i = 0; i < 20; ++i) {
      std::fill(to.begin(), to.end(), 'x');
      ecclGroupStart();
      for (size_t m = 0; m < kEach; ++m) {
        ecclSend(from.data(), kBytes, ecclInt8, 1 - rank, comm, nullptr);
        ecclRecv(to.data() + m * kBytes, kBytes, ecclInt8, 1 - rank, comm, nullptr);
      }
      if (ecclGroupEnd() != ecclSuccess) return 2;
      if (std::count(to.begin(), to.end(), 'y') != static_cast<ptrdiff_t>(to.size())) return 3;
    }
    report = std::to_string(test::touchedKiB("eccl-ring"));
    return ecclCommDestroy(comm) == ecclSuccess ? 0 : 4;
  });
  for (const auto& outcome : outcomes) EXPECT_EQ(outcome.code, 0) << outcome.text;
  return std::atoi(outcomes[1].text.c_str());
}

// No measurement has what is short read by the kernel, but a setting does.
TEST(SingleCopy, IsOfShortMessagesWhereThatIsWanted) {
  if (!siblingsAreReadable()) GTEST_SKIP() << "processes here may not read each other (Yama, seccomp)";
  EXPECT_LT(touchedByShortOnes("4096"), 100);
  EXPECT_GE(touchedByShortOnes("-1"), 180);
}

// What no process can read by the kernel, such as memory of devices: here the page of the kernel's clock.
TEST(SingleCopy, WhatCannotBeReadGoesThroughSlots) {
  auto outcomes = test::runProcesses(2, [&](int rank, test::Board& board, std::string& report) {
    set("4096");
    ecclComm_t comm = test::join(rank, 2, board, report);
    if (comm == nullptr) return 1;
    std::vector<char> to(4096, 'x');
    for (int i = 0; i < 100; ++i) {
      const ecclResult_t result =
          rank == 0 ? ecclSend(test::beginOfMapping("[vvar]"), to.size(), ecclInt8, 1, comm, nullptr)
                    : ecclRecv(to.data(), to.size(), ecclInt8, 0, comm, nullptr);
      if (result != ecclSuccess) {
        report = ecclGetLastError(comm);
        return 2;
      }
    }
    if (rank == 1 && to == std::vector<char>(4096, 'x')) return 3;
    return ecclCommDestroy(comm) == ecclSuccess ? 0 : 4;
  });
  for (const auto& outcome : outcomes) EXPECT_EQ(outcome.code, 0) << outcome.text;
}

// Rank 1 is killed in the middle of reads and of being read.
TEST(SingleCopy, AKilledPeerIsNamed) {
  for (int wait : {0, 500, 1000, 5000}) {
    auto outcomes = test::runProcesses(2, [&](int rank, test::Board& board, std::string& report) {
      set("4096");
      setenv("ECCL_DEBUG", "NONE", 1);
      ecclComm_t comm = test::join(rank, 2, board, report);
      if (comm == nullptr) return 1;
      std::vector<float> data(kMiB, 1), out(2 * kMiB);
      std::thread killer;
      for (int i = 0;; ++i) {
        if (rank == 1 && i == 5) {
          killer = std::thread([&] {
            std::this_thread::sleep_for(std::chrono::microseconds(wait));
            raise(SIGKILL);
          });
        }
        if (ecclAllGather(data.data(), out.data(), data.size(), ecclFloat, comm, nullptr) == ecclSuccess)
          continue;
        report = ecclGetLastError(comm);
        ecclCommAbort(comm);
        return report.find("rank 1") != std::string::npos ? 0 : 2;
      }
    });
    EXPECT_EQ(outcomes[0].code, 0) << outcomes[0].text;
    EXPECT_EQ(outcomes[1].signal, SIGKILL);
  }
}

// Rank 1 aborts, and gives its memory back, while rank 0 reads it. Rank 0 fails, and reads nothing afterwards.
TEST(SingleCopy, AfterAbortMemoryMayGo) {
  auto outcomes = test::runProcesses(2, [&](int rank, test::Board& board, std::string& report) {
    set("4096");
    setenv("ECCL_DEBUG", "NONE", 1);
    ecclComm_t comm = test::join(rank, 2, board, report);
    if (comm == nullptr) return 1;
    const size_t count = kMiB;
    std::vector<float> out(2 * count);
    auto* data = static_cast<float*>(
        mmap(nullptr, count * 4, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    std::thread aborter;
    if (rank == 1) {
      aborter = std::thread([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(30));
        ecclCommAbort(comm);
      });
    }
    while (ecclAllGather(data, out.data(), count, ecclFloat, comm, nullptr) == ecclSuccess) continue;
    if (rank == 1) {
      aborter.join();
      munmap(data, count * 4);
      board.meet(1, 2);
      return 0;
    }
    report = ecclGetLastError(comm);
    board.meet(1, 2);
    ecclCommAbort(comm);
    return report.find("rank 1") != std::string::npos ? 0 : 2;
  });
  for (const auto& outcome : outcomes) EXPECT_EQ(outcome.code, 0) << outcome.text;
}

// A process that nobody may look into (as where Yama or seccomp forbid it): all goes through slots.
TEST(SingleCopy, ProcessesThatCannotBeReadUseSlots) {
  auto outcomes = test::runProcesses(2, [&](int rank, test::Board& board, std::string& report) {
    if (geteuid() == 0 && (setegid(65534) != 0 || seteuid(65534) != 0)) return 8;
    if (prctl(PR_SET_DUMPABLE, 0) != 0) return 9;
    set("4096");
    setenv("ECCL_DEBUG", "INFO", 1);
    ecclComm_t comm = test::join(rank, 2, board, report);
    if (comm == nullptr) return 1;
    std::vector<float> in(2 * 20'000), out(in.size());
    report = runAll(rank, 2, 20'000, in, out, comm);
    if (!report.empty()) return 2;
    if (test::touchedKiB("eccl-ring") < 64) return 3;
    return ecclCommDestroy(comm) == ecclSuccess ? 0 : 4;
  });
  for (const auto& outcome : outcomes) EXPECT_EQ(outcome.code, 0) << outcome.text;
}

}  // namespace
}  // namespace eccl
