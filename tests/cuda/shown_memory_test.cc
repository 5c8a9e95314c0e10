// Memory of ecclMemAlloc between GPUs of two processes: messages refer to it, or are written to their place in
// it.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
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

/// By descriptor, as ECCL_CUMEM_ENABLE=1, and by handle, as 0.
class ShownMemory : public test::LaneProcesses, public ::testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    LaneProcesses::SetUp();
    setenv("ECCL_CUMEM_ENABLE", GetParam(), 1);
  }
  void TearDown() override { unsetenv("ECCL_CUMEM_ENABLE"); }
  static bool byDescriptor() { return *GetParam() == '1'; }
  static constexpr size_t kLong = 1 << 16;  // elements of 4 bytes: in strips that are worth it

  /// ecclMemAlloc gives memory of the GPU from now on. After Ranks have been made.
  static void allocateOnGpu() { setenv("ECCL_DEVICE", "cuda", 1); }
  /// Calls until kernels of a process have found messages by reference; `everywhere`: until those of both have,
  /// or such as were written to their place. Over a real driver more calls than it takes: what each rank has
  /// shown the others is open after three.
  static void untilOpened(Process& process, const std::function<void()>& call, bool everywhere = false) {
    const auto* const control = Cuda::get().control;
    const auto direct = [&] { return control->referred + (everywhere ? control->placed.load() : 0); };
    const int64_t before = control != nullptr ? direct() : 0;
    for (int time = 0; time < 1000; ++time) {
      call();
      std::this_thread::sleep_for(std::chrono::milliseconds(control != nullptr ? 1 : 20));
      const bool found = control != nullptr ? direct() > before : time == 5;
      if (process.count(found) >= (everywhere ? process.processes : 1)) return;
    }
    ADD_FAILURE() << "messages still go by slots";
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
  static void sendUntilOpened(Process& process, ecclComm_t comm, const DeviceBuffer<int>& data,
                              const DeviceStream& stream) {
    untilOpened(process, [&] {
      send(process, comm, data, stream);
      stream.synchronize();
    });
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
  constexpr uint64_t kPage = uint64_t{1} << Shown::kPageBits, kBegin = 7 * kPage, kOther = kBegin + 5 * kPage;
  const auto at = [](uint64_t address) { return reinterpret_cast<std::byte*>(address); };
  Shown shown{};
  End end{};
  end.shown = &shown;
  EXPECT_EQ(Messages::sayWhere(end, at(kBegin), 1), 0U);
  EXPECT_EQ(Messages::whereIs(end, Shown::at(0, 0), 1), nullptr) << "none has been given";
  shown.our[0] = Shown::block(kBegin, kPage), shown.our[2] = Shown::block(kOther, 2 * kPage), shown.ours = 3;
  shown.their[0] = Shown::block(kBegin, kPage), shown.their[2] = Shown::block(kOther, 2 * kPage),
  shown.theirs = 1;
  EXPECT_EQ(Messages::sayWhere(end, at(kOther + 100), 2 * kPage - 100), Shown::at(2, 100));
  EXPECT_EQ(Messages::whereIs(end, Shown::at(2, 100), 2 * kPage - 100), at(kOther + 100));
  EXPECT_EQ(Messages::sayWhere(end, at(kBegin + 100), kPage - 99), 0U) << "its end is outside";
  EXPECT_EQ(Messages::sayWhere(end, at(kBegin + kPage), 1), 0U) << "between the two";
  EXPECT_EQ(Messages::sayWhere(end, at(kBegin - 1), 1), 0U);
  EXPECT_EQ(Messages::sayWhere(end, at(100), 1), 0U) << "where nothing is";
  for (const uint64_t said : {uint64_t{0}, kPlaced, kBegin, Shown::at(1, 0), Shown::at(3, 0), Shown::at(32, 0),
                              Shown::at(2, 2 * kPage), ~uint64_t{0}})
    EXPECT_EQ(Messages::whereIs(end, said, 1), nullptr) << said;
  EXPECT_EQ(Messages::whereIs(end, Shown::at(0, 1), kPage), nullptr);
  EXPECT_EQ(Messages::whereIs(end, Shown::at(0, 1), ~uint64_t{0}), nullptr);
  shown.our[2] = shown.their[2] = 0;  // it was taken back
  EXPECT_EQ(Messages::sayWhere(end, at(kOther + 100), 1), 0U);
  EXPECT_EQ(Messages::whereIs(end, Shown::at(2, 100), 1), nullptr);
  EXPECT_EQ(Messages::whereIs(end, Shown::at(2, 0), 0), nullptr);
  end.shown = nullptr;
  EXPECT_EQ(Messages::sayWhere(end, at(kBegin), 1), 0U);
  EXPECT_EQ(Messages::whereIs(end, Shown::at(0, 0), 1), nullptr);
  end.near = true;
  EXPECT_EQ(Messages::sayWhere(end, at(kBegin + 7), 1), kBegin + 7);
  EXPECT_EQ(Messages::whereIs(end, kBegin + 7, 1), at(kBegin + 7));
}

// The most that a word holds.
TEST(ShownMemoryWords, ABlockMayBeAsLargeAndAsFarAsAnyGpusMemory) {
  using runtime::cuda::lanes::Shown;
  constexpr uint64_t kFar = (uint64_t{1} << 57) - (uint64_t{1} << Shown::kPageBits);
  const uint64_t block = Shown::block(kFar, Shown::kMostBytes);
  EXPECT_EQ(Shown::begin(block), kFar);
  EXPECT_EQ(Shown::bytes(block), Shown::kMostBytes);
  EXPECT_GE(Shown::kMostBytes, uint64_t{16} << 40);
}

// A Send by reference is over when the receiver has read: one by slots is over before there is a Recv.
TEST_P(ShownMemory, ASendRefersToIt) {
  for (const From memory : {From::library, From::driver}) {
    inProcesses(2, [&](Process& process) {
      Ranks ranks(&process, 2, "lanes");
      allocateOnGpu();
      const ecclComm_t comm = ranks.comm(process.number);
      const DeviceStream stream;
      const DeviceBuffer<int> data(std::vector<int>(kLong, process.number), memory);
      const auto call = [&] {
        send(process, comm, data, stream);
        stream.synchronize();
      };
      if (memory == From::library)
        untilOpened(process, call);
      else
        for (int time = 0; time < 6; ++time) call();
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

// A rank that lends by handles alone has others' memory by descriptor, and shows its own by handle.
TEST_P(ShownMemory, RanksMayLendInTwoWays) {
  inProcesses(2, [](Process& process) {
    setenv("ECCL_CUMEM_ENABLE", (process.number == 0) == byDescriptor() ? "1" : "0", 1);
    Ranks ranks(&process, 2, "lanes");
    allocateOnGpu();
    const DeviceStream stream;
    const DeviceBuffer<int> data(std::vector<int>(kLong, process.number), From::library);
    for (const int from : {0, 1}) {
      int calls = 0;
      const auto broadcast = [&] {
        if (process.number == from) data.write(std::vector<int>(kLong, ++calls));
        EXPECT_EQ(ecclBroadcast(data.data(), data.data(), kLong, ecclInt32, from, ranks.comm(process.number),
                                asStream(stream.native())),
                  ecclSuccess);
        stream.synchronize();
        const std::vector<int> got = data.read();
        EXPECT_EQ(got, std::vector<int>(kLong, got[0]));
      };
      untilOpened(process, broadcast);
    }
  });
}

// Where there is no memory with descriptors ecclMemAlloc has other memory; what cannot be given back is an
// error.
TEST_P(ShownMemory, EachCallForABlockMayFail) {
  inProcesses(1, [](Process&) {
    auto* const control = Cuda::get().control;
    if (control == nullptr) return;
    allocateOnGpu();
    const auto with = [&](int64_t fails, const auto& call) {
      control->failAt = control->calls + fails;
      const ecclResult_t result = call();
      const bool failed = control->calls > control->failAt;
      control->failAt = cuda_emulation::Control::kNever;
      return std::pair(result, failed);
    };
    void* first = nullptr;  // the driver is opened once
    ASSERT_EQ(ecclMemAlloc(&first, 4 << 20), ecclSuccess);
    int allocations = 0, frees = 0, errors = 0;
    for (bool failed = true; failed; ++allocations) {
      void* memory = nullptr;
      ecclResult_t result;
      std::tie(result, failed) = with(allocations, [&] { return ecclMemAlloc(&memory, 4 << 20); });
      if (result == ecclSuccess) {
        EXPECT_EQ(Cuda::get().cuMemcpy(reinterpret_cast<test::Address>(memory),
                                       reinterpret_cast<test::Address>(memory), 4 << 20),
                  test::cu::kSuccess);
        EXPECT_EQ(ecclMemFree(memory), ecclSuccess);
      }
    }
    for (bool failed = true; failed; ++frees) {
      void* memory = nullptr;
      ASSERT_EQ(ecclMemAlloc(&memory, 4 << 20), ecclSuccess);
      ecclResult_t result;
      std::tie(result, failed) = with(frees, [&] { return ecclMemFree(memory); });
      errors += result != ecclSuccess;
    }
    EXPECT_GT(allocations, byDescriptor() ? 5 : 2);
    EXPECT_GT(errors, 0);
    EXPECT_EQ(ecclMemFree(first), ecclSuccess);
  });
}

INSTANTIATE_TEST_SUITE_P(, ShownMemory, ::testing::Values("1", "0"));

struct Sharing {
  int processes, ranks, devices;
  const char* descriptors = "1";  // ECCL_CUMEM_ENABLE
};
void PrintTo(const Sharing& deal, std::ostream* out) {
  *out << deal.processes << " processes, " << deal.ranks << " ranks, " << deal.devices << " devices, "
       << deal.descriptors;
}

class ShownMemoryDeals : public test::LaneProcesses, public ::testing::WithParamInterface<Sharing> {};

TEST_P(ShownMemoryDeals, EveryCollectiveGivesTheBitsOfTheHost) {
  setenv("ECCL_CUMEM_ENABLE", GetParam().descriptors, 1);
  inProcesses(GetParam().processes, [](Process& process) {
    Ranks host(&process, GetParam().ranks, "host"),
        device(&process, GetParam().ranks, "lanes", GetParam().devices);
    setenv("ECCL_DEVICE", "cuda", 1);
    for (int round = 0; round < 3; ++round) {
      for (const What what : test::kAll) {
        for (const bool inPlace : {false, true}) {
          if (inPlace && !test::mayBeInPlace(what)) continue;
          test::compare(host, device,
                        {what, ecclFloat32, ecclSum, (3u << 16) / static_cast<size_t>(host.size()),
                         host.size() - 1, 0, From::kept},
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
  unsetenv("ECCL_CUMEM_ENABLE");
}

INSTANTIATE_TEST_SUITE_P(, ShownMemoryDeals,
                         ::testing::Values(Sharing{2, 2, 1}, Sharing{2, 2, 2}, Sharing{3, 3, 1},
                                           Sharing{2, 4, 2}, Sharing{3, 3, 1, "0"}, Sharing{2, 4, 2, "0"}));

// What a graph was captured with stays; what its kernels find in memory does not.
TEST_P(ShownMemory, AGraphThatWasCapturedBeforeRefersToIt) {
  inProcesses(2, [](Process& process) {
    Ranks ranks(&process, 2, "lanes");
    allocateOnGpu();
    const ecclComm_t comm = ranks.comm(process.number);
    const DeviceStream stream;
    const DeviceBuffer<int> data(std::vector<int>(kLong, process.number), From::library);
    test::DeviceGraph graph(stream, [&] { send(process, comm, data, stream); });
    const auto* const control = Cuda::get().control;
    sendUntilOpened(process, comm, data, stream);
    data.write(std::vector<int>(kLong, process.number == 0 ? 7 : -1));
    const int64_t before = control != nullptr ? control->referred.load() : 0;
    graph.launch(stream);
    stream.synchronize();
    EXPECT_EQ(data.read(), std::vector<int>(kLong, 7));
    if (control != nullptr && process.number == 1) { EXPECT_GT(control->referred, before); }
    process.meet();
  });
}

// By handle it stays the process's, for its next ecclMemAlloc: others have it open.
TEST_P(ShownMemory, WhatWasFreedIsAllocatedAgain) {
  if (byDescriptor()) return;
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
        for (int call = 0; call < 6; ++call) {
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

// More blocks, one after the other, than two ranks show each other at a time. They are given back by both
// sides, though the communicator goes on.
TEST_P(ShownMemory, WhatWasFreedIsGivenBack) {
  if (!byDescriptor() || !Cuda::get().emulated()) return;
  inProcesses(2, [](Process& process) {
    Ranks ranks(&process, 2, "lanes");
    allocateOnGpu();
    const ecclComm_t comm = ranks.comm(process.number);
    const DeviceStream stream;
    const cuda_emulation::Control& control = *Cuda::get().control;
    int64_t blocks = 0, bytes = 0;
    for (int time = 0; time < 40; ++time) {
      const DeviceBuffer<int> data(std::vector<int>(kLong, process.number), From::library);
      sendUntilOpened(process, comm, data, stream);
      if (time == 3) blocks = control.mappedBlocks, bytes = control.deviceBytes;
      if (time > 3) {
        EXPECT_LE(control.mappedBlocks, blocks + 4);
        EXPECT_LE(control.deviceBytes, bytes + (int64_t{16} << 20));
      }
      process.meet();
    }
  });
}

// The other rank is asked for a block that is gone by then.
TEST_P(ShownMemory, WhatIsFreedAtOnceIsNotMissed) {
  inProcesses(2, [](Process& process) {
    Ranks ranks(&process, 2, "lanes");
    allocateOnGpu();
    const ecclComm_t comm = ranks.comm(process.number);
    const DeviceStream stream;
    for (int time = 0; time < 100; ++time) {
      const DeviceBuffer<int> data(std::vector<int>(kLong, process.number == 0 ? time : -1), From::library);
      send(process, comm, data, stream);
      stream.synchronize();
      EXPECT_EQ(data.read(), std::vector<int>(kLong, time));
    }
    const DeviceBuffer<int> last(std::vector<int>(kLong, process.number), From::library);
    sendUntilOpened(process, comm, last, stream);
  });
}

// A child keeps none of its parent's descriptors: the memory would stay as long as it lives.
TEST_P(ShownMemory, AForkedChildDoesNotKeepIt) {
  if (!byDescriptor() || !Cuda::get().emulated()) return;
  inProcesses(2, [](Process& process) {
    Ranks ranks(&process, 2, "lanes");
    allocateOnGpu();
    const ecclComm_t comm = ranks.comm(process.number);
    const DeviceStream stream;
    const DeviceBuffer<int> data(std::vector<int>(kLong, process.number), From::library);
    sendUntilOpened(process, comm, data, stream);
    // What the emulation itself has of each block stays, as a driver's own would.
    const auto files = [] {
      int count = 0;
      for (const auto& each : std::filesystem::directory_iterator("/proc/self/fd")) {
        std::error_code none;
        count += std::filesystem::read_symlink(each, none).string().starts_with("/memfd:0");
      }
      return count;
    };
    const int before = files();
    const pid_t child = fork();
    if (child == 0) _exit(files());
    int status = 0;
    waitpid(child, &status, 0);
    const int exported = process.number == 0 ? 2 : 1;  // the door, and the block
    EXPECT_TRUE(WIFEXITED(status));
    EXPECT_LE(WEXITSTATUS(status), before - exported);
    EXPECT_EQ(files(), before);
    process.meet();
  });
}

// Two ranks show each other so many blocks at most. What is more goes by slots, as does what is allocated while
// there is nothing to show.
TEST_P(ShownMemory, OfManyBlocksSomeGoBySlots) {
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
TEST_P(ShownMemory, NothingIsWrittenAfterAnAbort) {
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
    const auto call = [&] {
      EXPECT_EQ(reduce(), ecclSuccess);
      stream.synchronize();
    };
    untilOpened(process, call, true);
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
TEST_P(ShownMemory, AProcessThatDiesIsNamed) {
  inProcesses(2,
              [](Process& process) {
                Ranks ranks(&process, 2, "lanes");
                allocateOnGpu();
                const ecclComm_t comm = ranks.comm(process.number);
                const DeviceStream stream;
                const DeviceBuffer<int> data(std::vector<int>(kLong, process.number), From::library);
                sendUntilOpened(process, comm, data, stream);
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
