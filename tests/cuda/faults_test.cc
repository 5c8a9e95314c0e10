// What a CUDA communicator does with streams, and when something is wrong: nothing waits in the caller, and
// every stream goes on.
#include <chrono>

#include "cuda/ranks.h"

namespace eccl {
namespace {

using test::asStream;
using test::Cuda;
using test::DeviceBuffer;
using test::DeviceStream;
using test::HostWord;
using test::NativeStream;
using test::Ranks;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr size_t kCount = 5000;
using Clock = std::chrono::steady_clock;
/// It has two handles: NULL and cudaStreamLegacy.
const NativeStream kNullStreams[] = {nullptr, reinterpret_cast<NativeStream>(uintptr_t{1})};

std::vector<int> numbers(int value, size_t count = kCount) {
  return std::vector<int>(count, value);
}

/// Of communicators of each kind: askFor().
class CudaStreams : public test::CudaTest, public ::testing::WithParamInterface<const char*> {
 protected:
  static bool lanes() { return std::string_view(GetParam()) != "cuda"; }

  ecclResult_t sum(int rank, const DeviceBuffer<int>& from, const DeviceBuffer<int>& to, NativeStream stream,
                   size_t count = kCount) {
    return ecclAllReduce(from.data(), to.data(), count, ecclInt32, ecclSum, ranks_.comm(rank),
                         asStream(stream));
  }
  Ranks ranks_{2, GetParam()};
};

TEST_P(CudaStreams, ACallReturnsBeforeItsStreamHasComeToIt) {
  std::vector<HostWord> held(2);
  std::atomic<int> called{0};
  ranks_.each([&](int rank) {
    const DeviceStream stream;
    const DeviceBuffer<int> in(numbers(0)), out(numbers(-1)), later(numbers(rank + 1));
    held[static_cast<size_t>(rank)].heldBackBy(stream.native());
    // What the stream holds before the call is the call's input.
    const size_t bytes = kCount * sizeof(int);
    Cuda::need(Cuda::get().cuMemcpyAsync(reinterpret_cast<test::Address>(in.data()),
                                         reinterpret_cast<test::Address>(later.data()), bytes, stream.native()),
               "cuMemcpyAsync");
    EXPECT_EQ(sum(rank, in, out, stream.native()), ecclSuccess);
    EXPECT_EQ(sum(rank, out, out, stream.native()), ecclSuccess);
    for (++called; called < 2;) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(150));  // longer than the stall time
    EXPECT_EQ(Cuda::get().cuStreamQuery(stream.native()), test::cu::kNotReady);
    held[static_cast<size_t>(rank)].release();
    stream.synchronize();
    EXPECT_EQ(out.read(), numbers(6));
  });
}

TEST_P(CudaStreams, CallsInTwoStreamsBesideWorkOfTheHost) {
  ranks_.each([&](int rank) {
    const DeviceStream streams[2];
    const DeviceBuffer<int> data[2] = {DeviceBuffer<int>(numbers(1)), DeviceBuffer<int>(numbers(1))};
    for (int i = 0; i < 40; ++i) {
      EXPECT_EQ(sum(rank, data[i % 2], data[i % 2], streams[i % 2].native(), 10), ecclSuccess);
      if (i % 7 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
      if (i % 10 == 0) streams[i % 2].synchronize();
    }
    for (int i : {0, 1}) {
      streams[i].synchronize();
      EXPECT_EQ(data[i].read()[9], 1 << 20);
    }
  });
}

// One thread drives both ranks, whose calls share the NULL stream: in a group they have one place there.
TEST_P(CudaStreams, RanksShareTheNullStreamInAGroup) {
  const DeviceBuffer<int> data[2] = {DeviceBuffer<int>(numbers(1)), DeviceBuffer<int>(numbers(2))};
  const DeviceStream blocking(true);
  HostWord held;
  held.heldBackBy(blocking.native());  // the NULL stream waits for it
  for (int time = 0; time < 3; ++time) {
    ecclGroupStart();
    for (int rank : {0, 1}) EXPECT_EQ(sum(rank, data[rank], data[rank], kNullStreams[rank]), ecclSuccess);
    ASSERT_EQ(ecclGroupEnd(), ecclSuccess) << ecclGetLastError(nullptr);
    ecclGroupStart();
    for (int rank : {0, 1}) EXPECT_EQ(ecclBarrier(ranks_.comm(rank), nullptr), ecclSuccess);
    ASSERT_EQ(ecclGroupEnd(), ecclSuccess);
  }
  held.release();
  Cuda::need(Cuda::get().cuStreamSynchronize(nullptr), "cuStreamSynchronize");
  for (int rank : {0, 1}) EXPECT_EQ(data[rank].read(), numbers(12));
}

// A group's Send and Recv in two streams go on side by side, and a copy to oneself begins when both have come
// to it.
TEST_P(CudaStreams, AGroupMayUseSeveralStreams) {
  constexpr size_t kMany = 300000;
  ranks_.each([&](int rank) {
    const DeviceStream streams[2];
    const DeviceBuffer<int> out(numbers(rank, kMany)), in(numbers(-1, kMany)), late(numbers(7)),
        self(numbers(0)), copy(numbers(-1));
    ecclComm_t comm = ranks_.comm(rank);
    const auto at = [&](int i) { return asStream(streams[i].native()); };
    HostWord held;
    held.heldBackBy(streams[0].native());
    Cuda::need(Cuda::get().cuMemcpyAsync(reinterpret_cast<test::Address>(self.data()),
                                         reinterpret_cast<test::Address>(late.data()), kCount * sizeof(int),
                                         streams[0].native()),
               "cuMemcpyAsync");
    ecclGroupStart();
    ecclSend(out.data(), kMany, ecclInt32, 1 - rank, comm, at(0));
    ecclRecv(in.data(), kMany, ecclInt32, 1 - rank, comm, at(1));
    ecclSend(self.data(), kCount, ecclInt32, rank, comm, at(0));
    ecclRecv(copy.data(), kCount, ecclInt32, rank, comm, at(1));
    EXPECT_EQ(ecclGroupEnd(), ecclSuccess) << ecclGetLastError(comm);
    held.release();
    for (const DeviceStream& each : streams) each.synchronize();
    EXPECT_EQ(in.read(), numbers(1 - rank, kMany));
    EXPECT_EQ(copy.read(), numbers(7));
  });
}

// What runs on the GPU may be of one kernel, or in streams that do not hold each other up.
TEST_P(CudaStreams, RanksThatHoldEachOtherUpAreRefused) {
  if (!lanes()) GTEST_SKIP() << "the host's lanes wait in no stream";
  const DeviceBuffer<int> data[2] = {DeviceBuffer<int>(numbers(1)), DeviceBuffer<int>(numbers(2))};
  const DeviceStream blocking(true);
  const auto [null, legacy] = kNullStreams;
  const std::pair<NativeStream, NativeStream> all[] = {
      {null, blocking.native()}, {blocking.native(), legacy}, {null, null}, {null, legacy}, {legacy, null}};
  for (const auto& [first, second] : all) {
    Ranks ranks(2, GetParam());
    const auto call = [&](int rank, NativeStream stream) {
      return ecclAllReduce(data[rank].data(), data[rank].data(), kCount, ecclInt32, ecclSum, ranks.comm(rank),
                           asStream(stream));
    };
    EXPECT_EQ(call(0, first), ecclSuccess);
    EXPECT_EQ(call(1, second), ecclInvalidUsage);
    EXPECT_THAT(
        ecclGetLastError(ranks.comm(1)),
        AllOf(HasSubstr(
                  "rank 1 makes its collective number 1 behind the collective of rank 0, which waits for it"),
              HasSubstr("in one group")));
    Cuda::need(Cuda::get().cuStreamSynchronize(nullptr), "cuStreamSynchronize");  // the kernel has ended
  }
}

// In one stream, outside a group: a Recv waits for the Send, and a Send of much for the Recv.
TEST_P(CudaStreams, ASendAndItsRecvThatHoldEachOtherUpAreRefused) {
  if (!lanes()) GTEST_SKIP() << "the host's lanes wait in no stream";
  constexpr size_t kMost = 1 << 18;
  const DeviceBuffer<int> from(numbers(1, kMost)), to(numbers(2, kMost));
  const bool relayed = std::string_view(GetParam()) == "relayed";
  for (const bool sendsFirst : {true, false}) {
    for (const size_t count : {size_t{1}, size_t{4095}, size_t{4096}, size_t{131072}, kMost}) {
      const size_t bytes = count * sizeof(int);
      const bool waits = !sendsFirst || bytes >= (relayed ? (512 << 10) + 1 : 16 << 10);
      Ranks ranks(2, GetParam());
      const auto call = [&](bool sends) {
        return sends ? ecclSend(from.data(), count, ecclInt32, 1, ranks.comm(0), nullptr)
                     : ecclRecv(to.data(), count, ecclInt32, 0, ranks.comm(1), nullptr);
      };
      EXPECT_EQ(call(sendsFirst), ecclSuccess);
      EXPECT_EQ(call(!sendsFirst), waits ? ecclInvalidUsage : ecclSuccess) << sendsFirst << count;
      if (waits) {
        EXPECT_THAT(ecclGetLastError(ranks.comm(sendsFirst)),
                    HasSubstr(sendsFirst ? "rank 1 makes its Recv number 1 behind the Send of rank 0"
                                         : "rank 0 makes its Send number 1 behind the Recv of rank 1"));
      }
      Cuda::need(Cuda::get().cuStreamSynchronize(nullptr), "cuStreamSynchronize");  // kernels have ended
    }
  }
  // Of several the earlier ones do not count.
  ranks_.each([&](int rank) {
    const DeviceStream stream;
    for (int i = 0; i < 3; ++i)
      EXPECT_EQ(rank == 0
                    ? ecclSend(from.data(), kMost, ecclInt32, 1, ranks_.comm(0), asStream(stream.native()))
                    : ecclRecv(to.data(), kMost, ecclInt32, 0, ranks_.comm(1), asStream(stream.native())),
                ecclSuccess);
    stream.synchronize();
  });
}

TEST_P(CudaStreams, PinnedMemoryIsTakenFromTheHostOnce) {
  if (!Cuda::get().emulated()) GTEST_SKIP() << "only the emulated driver counts";
  std::atomic<int64_t> first{0};  // by the calls that connect the ranks, and one more
  ranks_.each([&](int rank) {
    const DeviceStream stream;
    const DeviceBuffer<int> data(numbers(1));
    for (int i = 0; i < 52; ++i) {
      if (i == 2) first = Cuda::get().control->pinnedBytes.load();
      EXPECT_EQ(sum(rank, data, data, stream.native()), ecclSuccess);
      stream.synchronize();
    }
  });
  constexpr int64_t kLeast = 1 << 16;  // that is pinned for a call
  EXPECT_LT(Cuda::get().control->pinnedBytes - first, 2 * 50 * kLeast / 2) << "it is not used again";
}

// The engine gets on while threads of the application are kept in the driver: one frees memory, which waits for
// all streams, and others give a stream more than it holds.
TEST_P(CudaStreams, NoCallOfTheApplicationHoldsTheEngineUp) {
  HostWord held;
  std::atomic<int> called{0};
  ranks_.each([&](int rank) {
    const DeviceStream stream;
    const DeviceBuffer<int> data(numbers(1));
    auto spare = std::make_unique<DeviceBuffer<int>>(numbers(1));
    if (rank == 0) held.heldBackBy(stream.native());
    EXPECT_EQ(sum(rank, data, data, stream.native()), ecclSuccess);
    for (++called; called < 2;) std::this_thread::yield();
    std::thread later([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      if (rank == 0) held.release();
    });
    spare.reset();
    later.join();
    stream.synchronize();
    EXPECT_EQ(data.read(), numbers(2));
  });
  std::atomic<int> made{0};
  ranks_.each([&](int rank) {
    const DeviceStream stream;
    const DeviceBuffer<int> data(numbers(0));
    for (int i = 0; i < 400; ++i) {
      EXPECT_EQ(sum(rank, data, data, stream.native(), 2), ecclSuccess);
      // Neither is so far ahead that its stream is full of calls which the other cannot make then.
      for (++made; made < 2 * (i + 1 - 5);) std::this_thread::yield();
    }
    stream.synchronize();
  });
}

class CudaArguments : public CudaStreams {};

TEST_P(CudaArguments, MemoryThatIsNotTheDevicesIsNamed) {
  const DeviceBuffer<int> own(numbers(1));
  std::vector<int> host = numbers(1);
  const auto refused = [&](const void* send, void* receive, const char* what) {
    EXPECT_EQ(ecclAllReduce(send, receive, kCount, ecclInt32, ecclSum, ranks_.comm(1), nullptr),
              ecclInvalidArgument);
    EXPECT_THAT(ecclGetLastError(ranks_.comm(1)),
                AllOf(HasSubstr("AllReduce on rank 1: the "), HasSubstr(what)));
  };
  refused(own.data(), host.data(), "is host memory that CUDA does not know");
  refused(host.data(), own.data(), "ECCL_DEVICE=host");
  void* freed = nullptr;
  {
    const DeviceBuffer<int> gone(numbers(1));
    freed = gone.data();
  }
  if (Cuda::get().emulated()) {  // a real driver may have given the addresses out again
    refused(freed, own.data(), "or was freed");
    Cuda::get().use(1);
    const DeviceBuffer<int> other(numbers(1));
    refused(other.data(), own.data(), "is memory of CUDA device 1, and the communicator is for CUDA device 0");
    Cuda::get().use(0);
  }
  // The refused calls have no numbers: these meet.
  ranks_.each([&](int rank) {
    const DeviceStream stream;
    const DeviceBuffer<int> data(numbers(1));
    EXPECT_EQ(sum(rank, data, data, stream.native()), ecclSuccess);
    stream.synchronize();
    EXPECT_EQ(data.read(), numbers(2));
  });
}

TEST_P(CudaArguments, StreamsOfTheOtherKindAreRefused) {
  const DeviceBuffer<int> data(numbers(1));
  ecclStream_t stream;
  ASSERT_EQ(ecclStreamCreate(&stream), ecclSuccess);
  EXPECT_EQ(sum(0, data, data, reinterpret_cast<NativeStream>(stream)), ecclInvalidArgument);
  EXPECT_THAT(ecclGetLastError(ranks_.comm(0)),
              HasSubstr("is a host stream and rank 0 is of a CUDA communicator"));
  ecclStreamDestroy(stream);
  EXPECT_EQ(ecclCommSynchronize(ranks_.comm(0)), ecclInvalidUsage);
  Ranks host(1, "host");
  const DeviceStream native;
  int x = 1;
  EXPECT_EQ(ecclAllReduce(&x, &x, 1, ecclInt32, ecclSum, host.comm(0), asStream(native.native())),
            ecclInvalidArgument);
  EXPECT_THAT(ecclGetLastError(host.comm(0)), HasSubstr("this handle is not a host stream"));
}

TEST_P(CudaArguments, AStreamThatIsNoMoreIsNamed) {
  auto* const control = Cuda::get().control;
  if (control == nullptr) GTEST_SKIP() << "a real driver may take it for another stream";
  NativeStream gone;
  { gone = DeviceStream().native(); }
  const DeviceBuffer<int> data(numbers(1));
  EXPECT_NE(ecclAllReduce(data.data(), data.data(), kCount, ecclInt32, ecclSum, ranks_.comm(0), asStream(gone)),
            ecclSuccess);
  EXPECT_THAT(ecclGetLastError(ranks_.comm(0)), HasSubstr("of the call's stream 0x"));
  EXPECT_GE(control->violations.exchange(0), 1);
}

// As programs for NCCL expect of ncclMemAlloc().
TEST_P(CudaArguments, MemoryOfTheLibraryIsTheDevices) {
  void *memory[2], *host = nullptr;
  ASSERT_EQ(ecclMemAlloc(&host, 100), ecclSuccess);
  setenv("ECCL_DEVICE", "cuda", 1);
  for (void*& each : memory) ASSERT_EQ(ecclMemAlloc(&each, kCount * sizeof(int)), ecclSuccess);
  void* much = nullptr;
  if (Cuda::get().emulated()) {
    Cuda::get().control->failAt = Cuda::get().control->calls + 3;  // behind the context's
    EXPECT_EQ(ecclMemAlloc(&much, 100), ecclUnhandledCudaError);
    EXPECT_THAT(ecclGetLastError(nullptr), HasSubstr("cuMemAlloc of 100 bytes on CUDA device 0"));
    Cuda::get().control->failAt = cuda_emulation::Control::kNever;
  }
  unsetenv("ECCL_DEVICE");
  EXPECT_EQ(much, nullptr);
  ranks_.each([&](int rank) {
    const DeviceStream stream;
    const DeviceBuffer<int> in(numbers(rank + 1));
    EXPECT_EQ(ecclAllReduce(in.data(), memory[rank], kCount, ecclInt32, ecclSum, ranks_.comm(rank),
                            asStream(stream.native())),
              ecclSuccess)
        << ecclGetLastError(ranks_.comm(rank));
    stream.synchronize();
    std::vector<int> found(kCount);
    Cuda::need(Cuda::get().cuMemcpy(reinterpret_cast<test::Address>(found.data()),
                                    reinterpret_cast<test::Address>(memory[rank]), kCount * sizeof(int)),
               "cuMemcpy");
    EXPECT_EQ(found, numbers(3));
  });
  for (void* each : memory) EXPECT_EQ(ecclMemFree(each), ecclSuccess);
  EXPECT_EQ(ecclMemFree(memory[0]), ecclInvalidArgument);
  EXPECT_EQ(ecclMemFree(host), ecclSuccess);
}

TEST_P(CudaArguments, ACommunicatorSaysItsDevice) {
  for (int rank = 0; rank < ranks_.size(); ++rank) {
    int device = -2;
    EXPECT_EQ(ecclCommCuDevice(ranks_.comm(rank), &device), ecclSuccess);
    EXPECT_EQ(device, ranks_.deviceOf(rank));
  }
}

TEST_P(CudaArguments, ADeviceThatIsNotThereIsAnError) {
  setenv("ECCL_DEVICE", "cuda", 1);
  ecclComm_t comm = nullptr;
  const int device = 99;
  EXPECT_EQ(ecclCommInitAll(&comm, 1, &device), ecclInvalidArgument);
  EXPECT_THAT(ecclGetLastError(nullptr),
              HasSubstr("ECCL_DEVICE=cuda: there is no CUDA device 99; this process sees"));
  unsetenv("ECCL_DEVICE");
}

class CudaFailure : public CudaStreams {
 protected:
  void expectFailed(int rank, const char* why) { expectFailed(ranks_.comm(rank), why); }
  static void expectFailed(ecclComm_t comm, const char* why) {
    ecclResult_t error = ecclSuccess;
    for (const auto start = Clock::now();
         error == ecclSuccess && Clock::now() - start < std::chrono::seconds(10);)
      ecclCommGetAsyncError(comm, &error);
    EXPECT_NE(error, ecclSuccess);
    EXPECT_THAT(ecclGetLastError(comm), HasSubstr(why));
  }
};

TEST_P(CudaFailure, AbortLetsStreamsGoOn) {
  const DeviceStream stream, busy;
  const DeviceBuffer<int> data(numbers(1)), more(numbers(1));
  HostWord held;
  EXPECT_EQ(sum(0, data, data, stream.native()), ecclSuccess);  // rank 1 never comes
  held.heldBackBy(busy.native());
  EXPECT_EQ(sum(0, more, more, busy.native()), ecclSuccess);  // nor does this stream
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  const auto start = Clock::now();
  EXPECT_EQ(ecclCommAbort(ranks_.comm(0)), ecclSuccess);
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(1));
  stream.synchronize();
  held.release();
  busy.synchronize();
  ranks_.comm(0) = nullptr;
  expectFailed(1, "aborted the communicator");
}

// What has been sent to it is lost, which is no cause.
TEST_P(CudaFailure, AnAbortIsTheCauseOfWhatIsLost) {
  for (int time = 0; time < 10; ++time) {
    Ranks ranks(2, GetParam());
    const DeviceStream stream;
    const DeviceBuffer<int> data(numbers(1));
    EXPECT_EQ(ecclAllReduce(data.data(), data.data(), kCount, ecclInt32, ecclSum, ranks.comm(1),
                            asStream(stream.native())),
              ecclSuccess);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    EXPECT_EQ(ecclCommAbort(std::exchange(ranks.comm(0), nullptr)), ecclSuccess);
    expectFailed(ranks.comm(1), "aborted the communicator");
    stream.synchronize();
  }
}

TEST_P(CudaFailure, DifferentCallsAreNamedAndStreamsGoOn) {
  ranks_.each([&](int rank) {
    const DeviceStream stream;
    const DeviceBuffer<int> data(numbers(1));
    const ecclResult_t made = rank == 0 ? sum(rank, data, data, stream.native())
                                        : ecclBroadcast(data.data(), data.data(), kCount, ecclInt32, 0,
                                                        ranks_.comm(rank), asStream(stream.native()));
    if (made == ecclSuccess) expectFailed(rank, "Broadcast(count 5000");
    stream.synchronize();
  });
}

// A kernel tells whom it waits for, in slots and in lines; that rank says that it makes no more calls.
TEST_P(CudaFailure, APeerThatEndsIsNamedAndTheStreamGoesOn) {
  for (const size_t count : {size_t{10}, kCount}) {
    Ranks ranks(2, GetParam());
    const DeviceStream stream;
    const DeviceBuffer<int> data(numbers(1));
    EXPECT_EQ(ecclAllReduce(data.data(), data.data(), count, ecclInt32, ecclSum, ranks.comm(0),
                            asStream(stream.native())),
              ecclSuccess);
    std::thread ends([&] { ecclCommDestroy(ranks.comm(1)); });
    expectFailed(ranks.comm(0), "rank 1");
    stream.synchronize();
    ends.join();
    ranks.comm(1) = nullptr;
  }
}

// Of the calls that a collective makes into the driver, each fails once. The error names it, and no stream
// waits for ever.
TEST_P(CudaStreams, EachCallIntoTheDriverMayFail) {
  auto* const control = Cuda::get().control;
  if (control == nullptr) GTEST_SKIP() << "only the emulated driver can be told to fail";
  std::atomic<int> failed{0};
  int number = 0;
  for (bool injected = true; injected; ++number) {
    Ranks ranks(2, GetParam());
    injected = false;
    std::atomic<int> ready{0}, over{0};
    ranks.each([&](int rank) {
      const DeviceStream stream;
      const DeviceBuffer<int> data(numbers(1));
      for (++ready; ready < 2;) std::this_thread::yield();
      if (rank == 0) control->failAt = control->calls + number;
      ecclResult_t result = ecclAllReduce(data.data(), data.data(), kCount, ecclInt32, ecclSum,
                                          ranks.comm(rank), asStream(stream.native()));
      while (Cuda::get().cuStreamSynchronize(stream.native()) != test::cu::kSuccess) {}
      if (result == ecclSuccess) ecclCommGetAsyncError(ranks.comm(rank), &result);
      if (rank == 0) {
        while (over < 1) std::this_thread::yield();
        injected = control->calls > control->failAt;
        control->failAt = cuda_emulation::Control::kNever;
      }
      for (++over; over < 2;) std::this_thread::yield();
      if (result == ecclSuccess) return;
      ++failed;
      EXPECT_THAT(ecclGetLastError(ranks.comm(rank)), HasSubstr("CUDA_ERROR_ILLEGAL_ADDRESS"));
    });
    if (HasFailure()) break;
  }
  EXPECT_GT(failed, 10);
}

INSTANTIATE_TEST_SUITE_P(, CudaStreams, ::testing::Values("cuda", "lanes", "relayed"));
INSTANTIATE_TEST_SUITE_P(, CudaArguments, ::testing::Values("cuda", "lanes", "relayed"));
INSTANTIATE_TEST_SUITE_P(, CudaFailure, ::testing::Values("cuda", "lanes", "relayed"));

// In a process that has not loaded the emulated driver.
TEST(CudaAbsent, IsAnErrorWhereItIsAskedForAndHostWhereItIsNot) {
  if (dlopen("libcuda.so.1", RTLD_NOW) != nullptr) GTEST_SKIP() << "there is a CUDA driver in this process";
  setenv("ECCL_DEBUG", "NONE", 1);
  setenv("ECCL_DEVICE", "cuda", 1);
  ecclComm_t comm = nullptr;
  EXPECT_EQ(ecclCommInitAll(&comm, 1, nullptr), ecclSystemError);
  EXPECT_THAT(ecclGetLastError(nullptr), HasSubstr("ECCL_DEVICE=cuda: there is no CUDA driver here"));
  setenv("ECCL_DEVICE", "auto", 1);
  ASSERT_EQ(ecclCommInitAll(&comm, 1, nullptr), ecclSuccess);
  int x = 5;
  EXPECT_EQ(ecclAllReduce(&x, &x, 1, ecclInt32, ecclSum, comm, nullptr), ecclSuccess);
  EXPECT_EQ(x, 5);
  EXPECT_EQ(ecclCommDestroy(comm), ecclSuccess);
}

TEST(CudaAbsent, AnOldDriverIsAsNone) {
  if (!Cuda::get().emulated()) GTEST_SKIP() << "the driver here is as old as it is";
  Cuda::get().control->version = 11080;
  setenv("ECCL_DEVICE", "cuda", 1);
  testing::internal::CaptureStderr();
  ecclComm_t comms[2] = {};
  EXPECT_EQ(ecclCommInitAll(comms, 2, nullptr), ecclSystemError);
  EXPECT_THAT(ecclGetLastError(nullptr),
              HasSubstr("ECCL_DEVICE=cuda: the CUDA driver here is older than ECCL needs (CUDA 12.0)"));
  setenv("ECCL_DEVICE", "auto", 1);
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(ecclCommInitAll(comms, 2, nullptr), ecclSuccess);
    for (ecclComm_t comm : comms) EXPECT_EQ(ecclCommDestroy(comm), ecclSuccess);
  }
  const std::string said = testing::internal::GetCapturedStderr();
  const size_t at = said.find("communicators are for host memory. the CUDA driver here is older");
  EXPECT_NE(at, said.npos) << said;
  EXPECT_EQ(said.find("for host memory", at + 30), said.npos) << said;
}

}  // namespace
}  // namespace eccl
