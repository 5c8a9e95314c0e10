// Memory of ecclMemAlloc between GPUs of two processes: messages refer to it, or are written to their place in
// it.
#include <signal.h>
#include <unistd.h>

#include <fstream>

#include "cuda/cases.h"
#include "cuda/processes.h"
#include "runtime/cuda/lanes/block_messages.h"

namespace eccl {
namespace {

using test::asStream;
using test::Case;
using test::Cuda;
using test::DeviceBuffer;
using test::DeviceStream;
using test::From;
using test::inProcesses;
using test::Process;
using test::Ranks;
using test::What;

class ShownMemory : public test::LaneProcesses {
 protected:
  static constexpr size_t kLong = 1 << 16;  // elements of 4 bytes: in strips that are worth it

  /// ecclMemAlloc gives memory of the GPU from now on. After Ranks have been made.
  static void allocateOnGpu() { setenv("ECCL_DEVICE", "cuda", 1); }
  /// Three calls until what each rank has shown the others is open, and all know; a few more, and some time,
  /// for what they tell each other.
  static constexpr int kUntilOpened = 6;
  static void untilOpened(Process& process, const std::function<void()>& call) {
    for (int time = 0; time < kUntilOpened; ++time) {
      call();
      process.meet();
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  }
  static ecclResult_t trySend(Process& process, ecclComm_t comm, const DeviceBuffer<int>& data,
                              const DeviceStream& stream) {
    return process.number == 0 ? ecclSend(data.data(), kLong, ecclInt32, 1, comm, asStream(stream.native()))
                               : ecclRecv(data.data(), kLong, ecclInt32, 0, comm, asStream(stream.native()));
  }
  static void send(Process& process, ecclComm_t comm, const DeviceBuffer<int>& data,
                   const DeviceStream& stream) {
    EXPECT_EQ(trySend(process, comm, data, stream), ecclSuccess) << ecclGetLastError(comm);
  }
  static bool isStopped(pid_t process) {
    std::ifstream file("/proc/" + std::to_string(process) + "/stat");
    std::string text;
    std::getline(file, text);
    return text.find(") T ") != text.npos;
  }
  static bool isDone(const DeviceStream& stream) {
    return Cuda::get().cuStreamQuery(stream.native()) == runtime::cuda::kSuccess;
  }
};

// The kernels' side of what a peer says, which may be anything.
struct NoBlock {};
struct Messages : runtime::cuda::lanes::BlockMessages<NoBlock> {
  using BlockMessages::sayWhere, BlockMessages::whereIs;
};

TEST(ShownMemoryWords, NothingIsReachedBesideTheBlocks) {
  using runtime::cuda::lanes::End, runtime::cuda::lanes::kPlaced, runtime::cuda::lanes::Shown;
  std::vector<std::byte> memory(3000);
  const auto begin = reinterpret_cast<uint64_t>(memory.data());
  Shown shown{};
  End end{};
  end.shown = &shown;
  EXPECT_EQ(Messages::sayWhere(end, memory.data(), 1), 0U);
  EXPECT_EQ(Messages::whereIs(end, Shown::at(0, 0), 1), nullptr) << "none has been given";
  shown.our[0] = {begin, 1000}, shown.our[1] = {begin + 2000, 1000}, shown.ours = 2;
  shown.their[0] = {begin, 1000}, shown.their[1] = {begin + 2000, 1000}, shown.theirs = 2;
  EXPECT_EQ(Messages::sayWhere(end, memory.data() + 2100, 900), Shown::at(1, 100));
  EXPECT_EQ(Messages::whereIs(end, Shown::at(1, 100), 900), memory.data() + 2100);
  EXPECT_EQ(Messages::sayWhere(end, memory.data() + 100, 901), 0U) << "its end is outside";
  EXPECT_EQ(Messages::sayWhere(end, memory.data() + 1000, 1), 0U) << "between the two";
  EXPECT_EQ(Messages::sayWhere(end, memory.data() - 1, 1), 0U);
  for (const uint64_t said : {uint64_t{0}, kPlaced, begin, Shown::at(2, 0), Shown::at(1, 1001), ~uint64_t{0}})
    EXPECT_EQ(Messages::whereIs(end, said, 1), nullptr) << said;
  EXPECT_EQ(Messages::whereIs(end, Shown::at(0, 1), 1000), nullptr);
  EXPECT_EQ(Messages::whereIs(end, Shown::at(0, 1000), 1), nullptr);
  EXPECT_EQ(Messages::whereIs(end, Shown::at(0, 1), ~uint64_t{0}), nullptr);
  end.shown = nullptr;
  EXPECT_EQ(Messages::sayWhere(end, memory.data(), 1), 0U);
  EXPECT_EQ(Messages::whereIs(end, Shown::at(0, 0), 1), nullptr);
  end.near = true;
  EXPECT_EQ(Messages::sayWhere(end, memory.data() + 7, 1), begin + 7);
  EXPECT_EQ(Messages::whereIs(end, begin + 7, 1), memory.data() + 7);
}

// A Send by reference is over when the receiver has read: one by slots is over before there is a Recv.
TEST_F(ShownMemory, ASendRefersToIt) {
  for (const From memory : {From::library, From::driver}) {
    inProcesses(2, [&](Process& process) {
      Ranks ranks(&process, 2, "lanes");
      allocateOnGpu();
      const ecclComm_t comm = ranks.comm(process.number);
      const DeviceStream stream;
      const DeviceBuffer<int> data(std::vector<int>(kLong, process.number), memory);
      untilOpened(process, [&] {
        send(process, comm, data, stream);
        stream.synchronize();
      });
      data.write(std::vector<int>(kLong, process.number == 0 ? 5 : -1));
      if (process.number == 0) {
        send(process, comm, data, stream);
        const double limit = memory == From::driver ? 10 : 0.3;
        for (const double start = test::now(); !isDone(stream) && test::now() - start < limit;)
          std::this_thread::yield();
        EXPECT_EQ(isDone(stream), memory == From::driver);
        process.meet();
      } else {
        process.meet();
        send(process, comm, data, stream);
      }
      stream.synchronize();
      EXPECT_EQ(data.read(), std::vector<int>(kLong, 5));
    });
  }
}

struct Sharing {
  int processes, ranks, devices;
};
void PrintTo(const Sharing& deal, std::ostream* out) {
  *out << deal.processes << " processes, " << deal.ranks << " ranks, " << deal.devices << " devices";
}

class ShownMemoryDeals : public ShownMemory, public ::testing::WithParamInterface<Sharing> {};

TEST_P(ShownMemoryDeals, EveryCollectiveGivesTheBitsOfTheHost) {
  inProcesses(GetParam().processes, [](Process& process) {
    Ranks host(&process, GetParam().ranks, "host"),
        device(&process, GetParam().ranks, "lanes", GetParam().devices);
    allocateOnGpu();
    for (int round = 0; round < 3; ++round) {
      for (const What what : test::kAll) {
        for (const bool inPlace : {false, true}) {
          if (inPlace && !test::mayBeInPlace(what)) continue;
          test::compare(host, device,
                        {what, ecclFloat32, ecclSum, (3u << 16) / static_cast<size_t>(host.size()),
                         host.size() - 1, 0, From::library},
                        inPlace);
          if (::testing::Test::HasFailure()) return;
        }
      }
    }
    if (auto* const control = Cuda::get().control; control != nullptr) {
      EXPECT_GT(control->referred, 0);
      EXPECT_GT(control->placed, 0);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(, ShownMemoryDeals,
                         ::testing::Values(Sharing{2, 2, 1}, Sharing{2, 2, 2}, Sharing{3, 3, 1},
                                           Sharing{2, 4, 2}));

// What a graph was captured with stays; what its kernels find in memory does not.
TEST_F(ShownMemory, AGraphThatWasCapturedBeforeRefersToIt) {
  inProcesses(2, [](Process& process) {
    Ranks ranks(&process, 2, "lanes");
    allocateOnGpu();
    const ecclComm_t comm = ranks.comm(process.number);
    const DeviceStream stream;
    const DeviceBuffer<int> data(std::vector<int>(kLong, process.number), From::library);
    test::DeviceGraph graph(stream, [&] { send(process, comm, data, stream); });
    const auto* const control = Cuda::get().control;
    untilOpened(process, [&] {
      send(process, comm, data, stream);
      stream.synchronize();
    });
    data.write(std::vector<int>(kLong, process.number == 0 ? 7 : -1));
    const int64_t before = control != nullptr ? control->referred.load() : 0;
    graph.launch(stream);
    stream.synchronize();
    EXPECT_EQ(data.read(), std::vector<int>(kLong, 7));
    if (control != nullptr && process.number == 1) { EXPECT_GT(control->referred, before); }
    process.meet();
  });
}

// It stays the process's, for its next ecclMemAlloc: others have it open.
TEST_F(ShownMemory, WhatWasFreedIsAllocatedAgain) {
  inProcesses(2, [](Process& process) {
    const int* before = nullptr;
    for (int time = 0; time < 6; ++time) {
      Ranks ranks(&process, 2, "lanes");
      allocateOnGpu();
      const ecclComm_t comm = ranks.comm(process.number);
      const DeviceStream stream;
      auto* const control = Cuda::get().control;
      if (control != nullptr) control->referred = 0;
      {
        const DeviceBuffer<int> data(std::vector<int>(kLong, process.number), From::library);
        if (time > 0 && process.number == 0) { EXPECT_EQ(data.data(), before); }
        before = data.data();
        for (int call = 0; call < kUntilOpened; ++call) {
          std::this_thread::sleep_for(std::chrono::milliseconds(20));
          data.write(std::vector<int>(kLong, process.number == 0 ? call : -1));
          send(process, comm, data, stream);
          stream.synchronize();
          EXPECT_EQ(data.read(), std::vector<int>(kLong, call));
          process.meet();
        }
      }
      if (control == nullptr) continue;
      if (process.number == 1) { EXPECT_GT(control->referred, 0); }
    }
  });
}

// Two ranks show each other so many blocks at most. What is more goes by slots, as does what is allocated while
// there is nothing to show.
TEST_F(ShownMemory, OfManyBlocksSomeGoBySlots) {
  for (const char* disabled : {"0", "1"}) {
    inProcesses(2, [&](Process& process) {
      setenv("ECCL_P2P_DISABLE", process.number == 0 ? disabled : "0", 1);
      Ranks ranks(&process, 2, "lanes");
      allocateOnGpu();
      const ecclComm_t comm = ranks.comm(process.number);
      const DeviceStream stream;
      std::vector<std::unique_ptr<DeviceBuffer<int>>> blocks;
      for (int block = 0; block < 40; ++block)
        blocks.push_back(std::make_unique<DeviceBuffer<int>>(std::vector<int>(kLong, -1), From::library));
      auto* const control = Cuda::get().control;
      int referred = 0;
      for (int time = 0; time < 4; ++time) {
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        referred = 0;
        for (int block = 0; block < 40; ++block) {
          const int64_t before = control != nullptr ? control->referred.load() : 0;
          const DeviceBuffer<int>& data = *blocks[static_cast<size_t>(block)];
          data.write(std::vector<int>(kLong, process.number == 0 ? block + time : -1));
          send(process, comm, data, stream);
          stream.synchronize();
          EXPECT_EQ(data.read(), std::vector<int>(kLong, block + time));
          referred += control != nullptr && control->referred > before;
          process.meet();
        }
      }
      if (control != nullptr && process.number == 1) {
        EXPECT_EQ(referred, *disabled == '1' ? 0 : int{runtime::cuda::lanes::Shown::kMost});
      }
    });
  }
}

// Another process does not hear of an abort, and its kernel begins after that: it finds no place to write to.
TEST_F(ShownMemory, NothingIsWrittenAfterAnAbort) {
  auto* const stopped = static_cast<std::atomic<pid_t>*>(
      mmap(nullptr, sizeof(std::atomic<pid_t>), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  inProcesses(2, [&](Process& process) {
    Ranks ranks(&process, 2, "lanes");
    allocateOnGpu();
    const ecclComm_t comm = ranks.comm(process.number);
    const DeviceStream stream;
    const DeviceBuffer<int> data(std::vector<int>(kLong, 1), From::library);
    const auto reduce = [&] {
      return ecclAllReduce(data.data(), data.data(), kLong, ecclInt32, ecclSum, comm,
                           asStream(stream.native()));
    };
    untilOpened(process, [&] {
      EXPECT_EQ(reduce(), ecclSuccess);
      stream.synchronize();
    });
    if (process.number == 0) {
      EXPECT_EQ(reduce(), ecclSuccess);  // posts its places
      while (*stopped == 0 || !isStopped(*stopped)) std::this_thread::yield();
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      const double start = test::now();
      EXPECT_EQ(ecclCommAbort(comm), ecclSuccess);
      EXPECT_LT(test::now() - start, 1);
      ranks.comm(0) = nullptr;
      stream.synchronize();
      data.write(std::vector<int>(kLong, 77));
      kill(*stopped, SIGCONT);
      process.meet();
      EXPECT_EQ(data.read(), std::vector<int>(kLong, 77));
    } else {
      test::HostWord held;
      held.heldBackBy(stream.native());
      EXPECT_EQ(reduce(), ecclSuccess);
      *stopped = getpid();
      raise(SIGSTOP);
      held.release();
      stream.synchronize();
      process.meet();
    }
  });
  munmap(stopped, sizeof(std::atomic<pid_t>));
}

// As with slots: the communicator fails within a second, and nothing hangs.
TEST_F(ShownMemory, AProcessThatDiesIsNamed) {
  inProcesses(2,
              [](Process& process) {
                Ranks ranks(&process, 2, "lanes");
                allocateOnGpu();
                const ecclComm_t comm = ranks.comm(process.number);
                const DeviceStream stream;
                const DeviceBuffer<int> data(std::vector<int>(kLong, process.number), From::library);
                untilOpened(process, [&] {
                  send(process, comm, data, stream);
                  stream.synchronize();
                });
                if (process.number == 1) _exit(7);
                if (trySend(process, comm, data, stream) == ecclSuccess) expectFailed(comm, "rank 1");
                EXPECT_THAT(ecclGetLastError(comm), ::testing::HasSubstr("rank 1"));
                stream.synchronize();
                const double start = test::now();
                EXPECT_EQ(ecclCommAbort(ranks.comm(0)), ecclSuccess);
                ranks.comm(0) = nullptr;
                EXPECT_LT(test::now() - start, 1);
              },
              {0, 7});
}

}  // namespace
}  // namespace eccl
