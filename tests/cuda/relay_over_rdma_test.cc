// Relayed messages over RDMA: devices read and write slots of rings where they lie, in GPUs if they get at
// their memory (src/runtime/cuda/relay_slots.h).
#include <cstdlib>

#include "cuda/cases.h"
#include "cuda/over_rdma.h"

#ifdef ECCL_VERBS_EMULATION

namespace eccl {
namespace {

namespace cu = test::cu;
using test::asStream;
using test::Cuda;
using test::DeviceBuffer;
using test::DeviceStream;
using test::Ranks;

/// What does not get at what, and what follows from that.
struct Reach {
  const char* name;
  const char *setting = nullptr, *value = nullptr;
  int dmabufs = 1, ordering = cu::kOrderedForOwner;
  bool refuses = false;  // the RDMA device, dma-bufs
  bool late = false;     // bytes come in no order, with the completion
  bool fromGpu = true, toGpu = true;
  bool granted = true;  // they come to slots apart, at least in pinned memory
};
void PrintTo(const Reach& reach, std::ostream* out) {
  *out << reach.name;
}

constexpr size_t kLong = 1 << 20;  // elements of 4 bytes

class RelayOverRdma : public test::OverRdma, public ::testing::WithParamInterface<Reach> {
 protected:
  void SetUp() override {
    test::OverRdma::SetUp();
    if (!Cuda::get().emulated()) GTEST_SKIP() << "the emulated RDMA devices do not get at a GPU's memory";
    ECCL_EMULATED(verbsEmulationReset)();
  }
  void TearDown() override {
    test::OverRdma::TearDown();
    if (!Cuda::get().emulated()) return;
    Cuda::get().control->dmabufs = 1;
    Cuda::get().control->rdmaOrdering = cu::kOrderedForOwner;
    ECCL_EMULATED(verbsEmulationReset)();
  }
  /// Bytes that come from a GPU's memory, and that go to one.
  using Way = std::pair<uint64_t, uint64_t>;
  /// Of a long message of one rank to another. The first ones pass through the hosts, until each rank has found
  /// out that they need not: it is sent again until it goes as expected.
  Way wayOf(Ranks& ranks, int from, int to, const Way& expected) {
    Way way;
    for (int i = 0; i < 50; ++i) {
      const VerbsEmulationCounters before = counters();
      send(ranks, kLong, 1, from, to);
      const VerbsEmulationCounters after = counters();
      way = {after.deviceBytesSent - before.deviceBytesSent,
             after.deviceBytesWritten - before.deviceBytesWritten};
      if (i > 5 && way == expected) break;
    }
    return way;
  }
  /// A message of one rank to another, `times`.
  static void send(Ranks& ranks, size_t elements, int times, int from = 0, int to = 1) {
    ranks.each([&](int rank) {
      if (rank != from && rank != to) return;
      const DeviceStream stream;
      const DeviceBuffer<int> data(std::vector<int>(elements, rank == from ? 7 : 0));
      const ecclComm_t comm = ranks.comm(rank);
      for (int i = 0; i < times; ++i) {
        EXPECT_EQ(rank == from
                      ? ecclSend(data.data(), elements, ecclInt32, to, comm, asStream(stream.native()))
                      : ecclRecv(data.data(), elements, ecclInt32, from, comm, asStream(stream.native())),
                  ecclSuccess);
        stream.synchronize();
      }
      EXPECT_EQ(data.read(), std::vector<int>(elements, 7));
    });
  }
};

TEST_P(RelayOverRdma, MessagesGoByTheShortestWay) {
  const Reach& reach = GetParam();
  Cuda::get().control->dmabufs = reach.dmabufs;
  Cuda::get().control->rdmaOrdering = reach.ordering;
  ECCL_EMULATED(verbsEmulationRefuseDmabufs)(reach.refuses);
  ECCL_EMULATED(verbsEmulationSetOrder)
  (reach.late ? VERBS_EMULATION_SHUFFLED : VERBS_EMULATION_FORWARD, reach.late);
  if (reach.setting != nullptr) setenv(reach.setting, reach.value, 1);
  Ranks host(2, "host"), device(2, "relayed");
  if (reach.setting != nullptr) unsetenv(reach.setting);
  send(device, kLong, 2);  // all strips of the ring are made at once, and all slots apart
  test::compareSome(host, device);
  const uint64_t bytes = kLong * sizeof(int);
  const Way shortest(reach.fromGpu ? bytes : 0, reach.toGpu ? bytes : 0);
  EXPECT_EQ(wayOf(device, 0, 1, shortest), shortest) << "bytes from a GPU, and to one";
  constexpr uint64_t kOfRings = 9 << 17;  // that messages land in which are not granted
  EXPECT_EQ(counters().largestRegionWritten > kOfRings, reach.granted);
  test::compareSome(host, device);
}

INSTANTIATE_TEST_SUITE_P(
    , RelayOverRdma,
    ::testing::Values(Reach{"GpuToGpu"}, Reach{.name = "BytesComeLate", .late = true},
                      Reach{"SeveralQueuePairs", "ECCL_IB_QPS_PER_CONNECTION", "4"},
                      Reach{.name = "TheGpuDoesNotOrderWrites", .ordering = 0, .toGpu = false},
                      Reach{.name = "TheGpuHasNoDmabufs", .dmabufs = 0, .fromGpu = false, .toGpu = false},
                      Reach{
                          .name = "TheDeviceTakesNoDmabufs", .refuses = true, .fromGpu = false, .toGpu = false},
                      Reach{.name = "NotWanted",
                            .setting = "ECCL_DMABUF_ENABLE",
                            .value = "0",
                            .fromGpu = false,
                            .toGpu = false},
                      Reach{.name = "InParts",
                            .setting = "ECCL_SLOT_BYTES",
                            .value = "65536",
                            .fromGpu = false,
                            .toGpu = false,
                            .granted = false},
                      Reach{.name = "LittleIsRegistered",
                            .setting = "ECCL_IB_CACHE_BYTES",
                            .value = "1000000",
                            .fromGpu = false,
                            .toGpu = false,
                            .granted = false},
                      Reach{.name = "NothingIsRegistered",
                            .setting = "ECCL_IB_CACHE_BYTES",
                            .value = "0",
                            .fromGpu = false,
                            .toGpu = false,
                            .granted = false}),
    [](const auto& info) { return std::string(info.param.name); });

// Pairs of three ranks come to slots apart one after the other.
TEST_F(RelayOverRdma, RanksFindEachOtherOneByOne) {
  for (const int ordering : {cu::kOrderedForOwner, 0}) {
    Cuda::get().control->rdmaOrdering = ordering;
    Ranks ranks(3, "relayed");
    const uint64_t bytes = kLong * sizeof(int), written = ordering != 0 ? bytes : 0;
    for (const auto& [from, to] : {std::pair(0, 1), std::pair(2, 1), std::pair(0, 1), std::pair(1, 0)}) {
      SCOPED_TRACE(from);
      EXPECT_EQ(wayOf(ranks, from, to, {bytes, written}), Way(bytes, written));
    }
    ranks.each([&](int rank) {
      const DeviceStream stream;
      const DeviceBuffer<int> data(std::vector<int>(kLong, rank + 1));
      for (int i = 0; i < 3; ++i)
        EXPECT_EQ(ecclAllReduce(data.data(), data.data(), kLong, ecclInt32, i == 0 ? ecclSum : ecclMax,
                                ranks.comm(rank), asStream(stream.native())),
                  ecclSuccess);
      stream.synchronize();
      EXPECT_EQ(data.read(), std::vector<int>(kLong, 6));
    });
  }
}

// Of the calls that rank 0 makes into the driver once the connections are there, each fails once: slots lie
// elsewhere then, or the call fails.
TEST_F(RelayOverRdma, EachCallIntoTheDriverMayFail) {
  constexpr size_t kElements = kSanitized ? 1 << 16 : kLong;
  auto& control = *Cuda::get().control;
  int number = 0, made = 0;
  int64_t blocks = 0;  // made by the last call
  for (bool injected = true; injected && !HasFailure(); ++number) {
    Ranks ranks(2, "relayed");
    send(ranks, kElements, 1);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // drivers have looked at the connections
    injected = false;
    ranks.each([&](int rank) {
      const DeviceStream stream;
      const DeviceBuffer<int> data(std::vector<int>(kElements, 1));
      ranks.meet();
      ecclResult_t result = ecclSuccess;
      const auto call = [&] {
        return ecclAllReduce(data.data(), data.data(), kElements, ecclInt32, ecclMax, ranks.comm(rank),
                             asStream(stream.native()));
      };
      if (rank == 0) {
        blocks = control.mappedBlocks;
        control.failAt = control.calls + number;
        result = call();
        blocks = control.mappedBlocks - blocks;
        injected = control.calls > control.failAt;
        control.failAt = cuda_emulation::Control::kNever;
      }
      ranks.meet();
      if (rank == 1) result = call();
      while (Cuda::get().cuStreamSynchronize(stream.native()) != cu::kSuccess) {}
      ranks.meet();
      if (result == ecclSuccess) ecclCommGetAsyncError(ranks.comm(rank), &result);
      if (result != ecclSuccess) return;
      if (rank == 0) made += injected;
      EXPECT_EQ(data.read(), std::vector<int>(kElements, 1));
    });
  }
  EXPECT_GT(made, 2) << "no failure was got over";
  EXPECT_GT(blocks, 0) << "the call makes no slots in the GPU";
}

// Neither memory of the GPU nor what devices know of it.
TEST_F(RelayOverRdma, NothingIsLeft) {
  const auto used = [] {
    const auto& control = *Cuda::get().control;
    return std::pair(control.mappedBlocks.load(), control.deviceBytes.load());
  };
  const auto run = [] {
    Ranks ranks(2, "relayed");
    send(ranks, kLong, 3);
  };
  run();
  const auto before = used();
  for (int i = 0; i < 3; ++i) run();
  EXPECT_EQ(used(), before);
  EXPECT_EQ(ECCL_EMULATED(verbsEmulationReset)(), 0) << "objects of the RDMA devices are left";
}

// While messages are on their way. Later ones, of another communicator, come where they belong.
TEST_F(RelayOverRdma, AnAbortEndsMessagesUnderWay) {
  Ranks after(2, "relayed");
  {
    Ranks ranks(2, "relayed");
    send(ranks, kLong, 3);
    ECCL_EMULATED(verbsEmulationHold)(1);
    ranks.each([&](int rank) {
      const DeviceStream stream;
      const DeviceBuffer<int> data(std::vector<int>(kLong, 1));
      EXPECT_EQ(ecclAllReduce(data.data(), data.data(), kLong, ecclInt32, ecclSum, ranks.comm(rank),
                              asStream(stream.native())),
                ecclSuccess);
      ranks.meet();  // a call that comes after the other rank's abort is refused
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      EXPECT_EQ(ecclCommAbort(ranks.comm(rank)), ecclSuccess);
      ranks.comm(rank) = nullptr;
      stream.synchronize();
    });
    ECCL_EMULATED(verbsEmulationHold)(0);
  }
  send(after, kLong, 3);
}

// The first of its data, or of what is told; and the last.
TEST_F(RelayOverRdma, ABrokenQueuePairEndsTheCommunicator) {
  for (const bool last : {false, true}) {
    Ranks ranks(2, "relayed");
    send(ranks, kLong, 3);
    uint32_t numbers[64];
    const int count = ECCL_EMULATED(verbsEmulationQueuePairs)(numbers, 64);
    ASSERT_GT(count, 0);
    ASSERT_LE(count, 64);
    EXPECT_EQ(ECCL_EMULATED(verbsEmulationBreakQueuePair)(numbers[last ? count - 1 : 0]), 0);
    ranks.each([&](int rank) {
      const DeviceStream stream;
      const DeviceBuffer<int> data(std::vector<int>(kLong, 1));
      for (int i = 0; i < 2; ++i) {
        if (ecclAllReduce(data.data(), data.data(), kLong, ecclInt32, ecclSum, ranks.comm(rank),
                          asStream(stream.native())) != ecclSuccess)
          break;
      }
      test::expectFailed(ranks.comm(rank), ::testing::HasSubstr("the verbs connection from rank"), 15);
      stream.synchronize();
      ranks.meet();
    });
  }
}

}  // namespace
}  // namespace eccl
#endif
