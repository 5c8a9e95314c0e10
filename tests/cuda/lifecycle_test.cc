// Communicators on GPUs while they are made and ended: what a driver may refuse then, how soon an abort ends
// what runs on the GPU, and who is named when nothing goes on.
#include <chrono>

#include "cuda/ranks.h"

namespace eccl {
namespace {

using test::asStream;
using test::Cuda;
using test::DeviceBuffer;
using test::DeviceStream;
using test::Ranks;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr size_t kElements = 5000;
using Clock = std::chrono::steady_clock;

class CudaLifecycle : public test::CudaTest, public ::testing::WithParamInterface<const char*> {
 protected:
  /// Rank 0 makes a call to which rank 1 never comes.
  static void callAlone(Ranks& ranks, const DeviceBuffer<int>& data, const DeviceStream& stream) {
    EXPECT_EQ(ecclAllReduce(data.data(), data.data(), kElements, ecclInt32, ecclSum, ranks.comm(0),
                            asStream(stream.native())),
              ecclSuccess);
  }
};

// One call into the driver after the other fails, from init to the end of a communicator and one that is split
// off. What is told names the failure, nothing hangs, and the next communicators work.
TEST_P(CudaLifecycle, EachCallIntoTheDriverMayFail) {
  auto* const control = Cuda::get().control;
  if (control == nullptr) GTEST_SKIP() << "only the emulated driver can be told to fail";
  { const Ranks first(2, GetParam()); }  // what a process does once
  test::askFor(GetParam());
  std::atomic<int> failed{0};
  const auto worked = [&](ecclResult_t result, ecclComm_t comm, const char* what) {
    if (result == ecclSuccess) return true;
    ++failed;
    EXPECT_THAT(ecclGetLastError(comm), HasSubstr("CUDA_ERROR_ILLEGAL_ADDRESS")) << what;
    return false;
  };
  bool injected = true;
  for (int number = 0; injected && !HasFailure(); ++number) {
    SCOPED_TRACE(number);
    control->failAt = control->calls + number;
    ecclComm_t comms[2] = {};
    const int devices[2] = {0, 0};
    if (worked(ecclCommInitAll(comms, 2, devices), nullptr, "ecclCommInitAll")) {
      std::vector<std::thread> threads;
      for (int rank : {0, 1}) {
        threads.emplace_back([&, rank] {
          ecclComm_t part = nullptr;
          const bool all =
              worked(ecclCommSplit(comms[rank], 0, 1 - rank, &part, nullptr), comms[rank], "ecclCommSplit");
          const auto end = all ? ecclCommDestroy : ecclCommAbort;
          if (part != nullptr) end(part);
          end(comms[rank]);
        });
      }
      for (std::thread& each : threads) each.join();
    }
    injected = control->calls > control->failAt;
    control->failAt = cuda_emulation::Control::kNever;
  }
  test::askForNothing();
  EXPECT_GT(failed, 5);
  Ranks after(2, GetParam());
  after.each([&](int rank) {
    const DeviceStream stream;
    const DeviceBuffer<int> data(std::vector<int>(kElements, rank + 1));
    EXPECT_EQ(ecclAllReduce(data.data(), data.data(), kElements, ecclInt32, ecclSum, after.comm(rank),
                            asStream(stream.native())),
              ecclSuccess);
    stream.synchronize();
    EXPECT_EQ(data.read(), std::vector<int>(kElements, 3));
  });
}

// Nothing moves, and both the call and the rank that it waits for are named.
TEST_P(CudaLifecycle, AStallNamesTheRankThatIsMissing) {
  setenv("ECCL_DEBUG", "WARN", 1);
  Ranks ranks(2, GetParam());
  const DeviceStream stream;
  const DeviceBuffer<int> data(std::vector<int>(kElements, 1));
  std::string said;
  ::testing::internal::CaptureStderr();
  callAlone(ranks, data, stream);
  // It is told when 5 s are over and the time has doubled once more.
  for (int seconds = 0; seconds < 40 && said.find("has waited") == std::string::npos; ++seconds) {
    std::this_thread::sleep_for(std::chrono::seconds(1));
    said += ::testing::internal::GetCapturedStderr();
    ::testing::internal::CaptureStderr();
  }
  said += ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(said,
              AllOf(HasSubstr("rank 0"), HasSubstr(" s in AllReduce(count 5000"), HasSubstr("for rank 1")));
  EXPECT_EQ(ecclCommAbort(ranks.comm(0)), ecclSuccess);
  ranks.comm(0) = nullptr;
  stream.synchronize();
}

// The least of some times: a machine may be busy.
TEST_P(CudaLifecycle, AbortIsInTime) {
  auto least = Clock::duration::max();
  for (int i = 0; i < 5; ++i) {
    Ranks ranks(2, GetParam());
    const DeviceStream stream;
    const DeviceBuffer<int> data(std::vector<int>(kElements, 1));
    callAlone(ranks, data, stream);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_EQ(Cuda::get().cuStreamQuery(stream.native()), test::cu::kNotReady);
    const auto begun = Clock::now();
    std::thread aborts([&] { EXPECT_EQ(ecclCommAbort(ranks.comm(0)), ecclSuccess); });
    stream.synchronize();
    least = std::min(least, Clock::now() - begun);
    aborts.join();
    ranks.comm(0) = nullptr;
  }
  EXPECT_LT(least, std::chrono::milliseconds(100));
}

INSTANTIATE_TEST_SUITE_P(, CudaLifecycle, ::testing::Values("cuda", "lanes", "relayed"));

class CudaMemory : public test::CudaTest {};

// The host could not read it.
TEST_F(CudaMemory, AHostCommunicatorRefusesMemoryOfAGpu) {
  Ranks ranks(2, "host");
  const DeviceBuffer<int> gpu(std::vector<int>(8, 1));
  std::vector<int> values(8, 1);
  const auto refused = [&](const void* send, void* receive, const char* what) {
    EXPECT_EQ(ecclAllReduce(send, receive, 8, ecclInt32, ecclSum, ranks.comm(0), nullptr), ecclInvalidArgument);
    EXPECT_THAT(
        ecclGetLastError(ranks.comm(0)),
        AllOf(HasSubstr(what), HasSubstr("is memory of a GPU, and this communicator takes the host's only: set "
                                         "ECCL_DEVICE=cuda")));
  };
  const auto works = [&] {
    ranks.each([&](int rank) {
      std::vector<int> own(8, 1);
      for (int i = 0; i < 4; ++i)  // the later ones by the fast path
        EXPECT_EQ(ecclAllReduce(own.data(), own.data(), 8, ecclInt32, ecclSum, ranks.comm(rank), nullptr),
                  ecclSuccess);
      EXPECT_EQ(own[7], 16);
    });
  };
  for (int i = 0; i < 2; ++i) {  // where the fast path is not there yet, and where it is
    refused(gpu.data(), values.data(), "the send buffer");
    refused(values.data(), gpu.data(), "the receive buffer");
    works();
  }
  const auto send = [&](const void* from) {
    EXPECT_EQ(ecclGroupStart(), ecclSuccess);
    const ecclResult_t result = ecclSend(from, 8, ecclInt32, 1, ranks.comm(0), nullptr);
    const ecclResult_t end = ecclGroupEnd();
    return result != ecclSuccess ? result : end;
  };
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(send(gpu.data()), ecclInvalidArgument);
    ranks.each([&](int rank) {
      std::vector<int> own(8);
      if (rank == 0) {
        EXPECT_EQ(send(values.data()), ecclSuccess);
      } else {
        EXPECT_EQ(ecclRecv(own.data(), 8, ecclInt32, 0, ranks.comm(1), nullptr), ecclSuccess);
        EXPECT_EQ(own, values);
      }
    });
  }
  // The driver is not asked again for buffers that it knows.
  if (Cuda::get().emulated()) {
    constexpr int kCalls = 50;
    int64_t asked = 0;
    ranks.each([&](int rank) {
      std::vector<int> own(8, 1);
      const auto call = [&] {
        EXPECT_EQ(ecclAllReduce(own.data(), own.data(), 8, ecclInt32, ecclMax, ranks.comm(rank), nullptr),
                  ecclSuccess);
      };
      for (int i = 0; i < 4; ++i) call();
      ranks.meet();
      if (rank == 0) asked = -Cuda::get().control->calls;
      ranks.meet();
      for (int i = 0; i < kCalls; ++i) call();
      ranks.meet();
      if (rank == 0) asked += Cuda::get().control->calls;
      ranks.meet();
    });
    EXPECT_LT(asked, kCalls);  // of four times as many buffers
  }
  // Pinned memory is the host's as well.
  void* pinned = nullptr;
  Cuda::need(Cuda::get().cuMemHostAlloc(&pinned, 64, test::cu::kHostPortable), "cuMemHostAlloc");
  Ranks one(1, "host");
  EXPECT_EQ(ecclAllReduce(pinned, pinned, 8, ecclInt32, ecclSum, one.comm(0), nullptr), ecclSuccess);
  Cuda::need(Cuda::get().cuMemFreeHost(pinned), "cuMemFreeHost");
  works();
}

}  // namespace
}  // namespace eccl
