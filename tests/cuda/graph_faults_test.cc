// Graphs that outlive what they use or are outlived by it, and runs that cannot go on.
#include "cuda/graphs.h"

namespace eccl {
namespace {

using test::asStream;
using test::Cuda;
using test::DeviceBuffer;
using test::DeviceGraph;
using test::DeviceStream;
using test::Ranks;
using ::testing::AnyOf;
using ::testing::HasSubstr;

using GraphFaults = test::Graphs;

// Memory that graphs need is there until they are gone, and is used again then: soon, as the engine looks at
// its captured calls ten times a second. So batches of graphs that are there at once, more than one page of
// words or reports is for, sooner or later find all that they need.
TEST_P(GraphFaults, MemoryComesBackWithTheGraph) {
  auto* const control = Cuda::get().control;
  if (control == nullptr) GTEST_SKIP() << "only the emulated driver counts";
  Ranks device(2, GetParam());
  const auto taken = [&] { return control->pinnedBytes + control->deviceBytes; };
  bool foundAll = false;
  for (int batch = 0; batch < 20 && !foundAll; ++batch) {
    std::this_thread::sleep_for(std::chrono::milliseconds(150));
    const int64_t before = taken();
    std::atomic<int64_t> most{0};
    device.each([&](int rank) {
      const DeviceStream stream;
      const DeviceBuffer<uint64_t> data(values(1));
      std::vector<std::unique_ptr<DeviceGraph>> graphs;
      for (int graph = 0; graph < 15; ++graph)
        graphs.push_back(std::make_unique<DeviceGraph>(stream, [&] {
          for (int call = 0; call < 40; ++call)
            EXPECT_EQ(sum(device.comm(rank), data, data, stream, 100), ecclSuccess);
        }));
      graphs[0]->launch(stream);
      stream.synchronize();
      device.meet();
      if (rank == 0) most = taken();
      device.meet();
    });
    // Without the buffers of the two ranks, which the first look did not see.
    foundAll = most - before == 2 * static_cast<int64_t>(kCount * sizeof(uint64_t));
  }
  EXPECT_TRUE(foundAll);
}

// What a long captured call had pinned serves a call, while the communicator lives. Each attempt is so much
// longer that nothing else will do for it.
TEST_P(GraphFaults, PinnedMemoryComesBackWithTheGraph) {
  auto* const control = Cuda::get().control;
  if (control == nullptr) GTEST_SKIP() << "only the emulated driver counts";
  if (lanes()) GTEST_SKIP() << "kernels need no pinned memory for buffers";
  Ranks device(2, GetParam());
  bool found = false;
  for (size_t attempt = 0; attempt < 4 && !found; ++attempt) {
    const size_t count = size_t{1} << (14 + 2 * attempt);
    const auto call = [&](int rank, const DeviceStream& stream, const DeviceBuffer<uint64_t>& data) {
      EXPECT_EQ(sum(device.comm(rank), data, data, stream, count), ecclSuccess);
    };
    device.each([&](int rank) {
      const DeviceStream stream;
      const DeviceBuffer<uint64_t> data(values(1, count));
      DeviceGraph graph(stream, [&] { call(rank, stream, data); });
      device.meet();
      graph.launch(stream);
      stream.synchronize();
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(300 << attempt));  // until the engine has seen it
    const int64_t pinned = control->pinnedBytes;
    device.each([&](int rank) {
      const DeviceStream stream;
      const DeviceBuffer<uint64_t> data(values(1, count));
      call(rank, stream, data);
      stream.synchronize();
    });
    found = control->pinnedBytes == pinned;
  }
  EXPECT_TRUE(found);
}

// Between two calls of a graph nothing is under way, so the communicator can be finalized; its service thread
// goes on until it is aborted.
TEST_P(GraphFaults, FinalizedAndAbortedWhileAGraphRuns) {
  for (int round = 0; round < 10; ++round) {
    Ranks device(2, GetParam());
    device.each([&](int rank) {
      const DeviceStream stream;
      const DeviceBuffer<uint64_t> data(values(1));
      DeviceGraph graph(stream, [&] {
        for (int call = 0; call < 20; ++call)
          EXPECT_EQ(sum(device.comm(rank), data, data, stream, 50), ecclSuccess);
      });
      device.meet();
      graph.launch(stream);
      stream.synchronize();
      device.meet();
      graph.launch(stream);
      if (round % 2 == 0) ecclCommFinalize(device.comm(rank));  // may find messages that are not taken yet
      EXPECT_EQ(ecclCommAbort(device.comm(rank)), ecclSuccess);
      device.comm(rank) = nullptr;
      graph.launch(stream);
      stream.synchronize();
      device.meet();
    });
  }
}

// Nothing is sent any more, and nobody waits.
TEST_P(GraphFaults, AGraphMayOutliveItsCommunicator) {
  const DeviceStream stream;
  const DeviceBuffer<uint64_t> a(values(1)), b(values(1)), results(values(0));
  std::optional<DeviceGraph> graph;
  {
    Ranks device(2, GetParam());
    graph.emplace(stream, [&] {
      ecclGroupStart();
      EXPECT_EQ(sum(device.comm(0), a, results, stream), ecclSuccess);
      EXPECT_EQ(sum(device.comm(1), b, b, stream), ecclSuccess);
      EXPECT_EQ(ecclGroupEnd(), ecclSuccess);
    });
    graph->launch(stream);
    stream.synchronize();
    EXPECT_EQ(results.read(), values(2));
  }
  results.write(values(7));
  graph->launch(stream);
  stream.synchronize();
  if (lanes()) { EXPECT_EQ(results.read(), values(7)); }  // else the pinned memory is still copied
  // The memory of the first one is not this one's.
  Ranks device(2, GetParam());
  device.each([&](int rank) {
    const DeviceStream its;
    const DeviceBuffer<uint64_t> data(values(1));
    for (int call = 0; call < 20; ++call) {
      EXPECT_EQ(sum(device.comm(rank), data, data, its), ecclSuccess);
      if (rank == 0) graph->launch(stream);
    }
    its.synchronize();
    EXPECT_EQ(data.read(), values(uint64_t{1} << 20));
    device.meet();
  });
  stream.synchronize();
  graph.reset();
}

TEST_P(GraphFaults, AbortEndsARun) {
  Ranks device(2, GetParam());
  device.each([&](int rank) {
    const DeviceStream stream;
    const DeviceBuffer<uint64_t> data(values(1));
    DeviceGraph graph(stream, [&] { EXPECT_EQ(sum(device.comm(rank), data, data, stream), ecclSuccess); });
    device.meet();
    if (rank == 0) {
      graph.launch(stream);  // rank 1 does not run its own
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      const auto start = Clock::now();
      EXPECT_EQ(ecclCommAbort(device.comm(0)), ecclSuccess);
      device.comm(0) = nullptr;
      stream.synchronize();
      EXPECT_LT(Clock::now() - start, std::chrono::seconds(1));
    } else {
      expectFailed(device.comm(1), HasSubstr("aborted the communicator"));
      graph.launch(stream);
      stream.synchronize();
    }
    device.meet();
  });
}

// Two ranks run graphs of different calls: in lines, and in slots.
TEST_P(GraphFaults, DifferentRunsAreNamed) {
  for (const size_t count : {size_t{10}, kCount}) {
    Ranks device(2, GetParam());
    device.each([&](int rank) {
      const DeviceStream stream;
      const DeviceBuffer<uint64_t> data(values(1));
      const auto reduces = [&] { EXPECT_EQ(sum(device.comm(rank), data, data, stream, count), ecclSuccess); };
      const auto broadcasts = [&] {
        EXPECT_EQ(ecclBroadcast(data.data(), data.data(), count, ecclUint64, 0, device.comm(rank),
                                asStream(stream.native())),
                  ecclSuccess);
      };
      DeviceGraph first(stream, reduces), second(stream, broadcasts);
      device.meet();
      (rank == 0 ? first : second).launch(stream);
      expectFailed(device.comm(rank), AnyOf(HasSubstr("Broadcast(count"), HasSubstr("AllReduce(count")));
      stream.synchronize();
      device.meet();
    });
  }
}

TEST_P(GraphFaults, APeerThatEndsIsNamedAndTheRunEnds) {
  Ranks device(2, GetParam());
  device.each([&](int rank) {
    const DeviceStream stream;
    const DeviceBuffer<uint64_t> data(values(1));
    DeviceGraph graph(stream, [&] { EXPECT_EQ(sum(device.comm(rank), data, data, stream), ecclSuccess); });
    device.meet();
    if (rank == 1) {
      ecclCommDestroy(device.comm(1));
      device.comm(1) = nullptr;
    } else {
      graph.launch(stream);
      expectFailed(device.comm(0), HasSubstr("rank 1"));
      stream.synchronize();
    }
    device.meet();
  });
}

TEST_P(GraphFaults, WhatCannotBeCapturedIsRefused) {
  const DeviceStream stream;
  const DeviceBuffer<uint64_t> data(values(1));
  Cuda& cuda = Cuda::get();
  const DeviceStream other;
  Ranks third(1, GetParam());
  DeviceGraph twice(stream, [&] {
    ecclGroupStart();
    ecclSend(data.data(), 10, ecclUint64, 0, third.comm(0), asStream(stream.native()));
    ecclRecv(data.data() + 10, 10, ecclUint64, 0, third.comm(0), asStream(other.native()));
    EXPECT_NE(ecclGroupEnd(), ecclSuccess);
    EXPECT_THAT(ecclGetLastError(third.comm(0)), HasSubstr("put both into one stream"));
  });
  // The refusal was of a call that has a number: the communicator has failed.
  Ranks another(1, GetParam());
  if (cuda.emulated()) {
    DeviceGraph spoilt(stream, [&] {
      EXPECT_NE(cuda.cuStreamQuery(stream.native()), test::cu::kSuccess);
      EXPECT_EQ(sum(another.comm(0), data, data, stream), ecclInvalidUsage);
      EXPECT_THAT(ecclGetLastError(another.comm(0)), HasSubstr("is no longer valid"));
    });
    EXPECT_EQ(spoilt.captured(), test::cu::kCaptureInvalidated);
    EXPECT_EQ(cuda.control->violations.exchange(0), 1);
  }
}

// Of the calls into the driver that a captured call makes, each fails once.
TEST_P(GraphFaults, EachCallIntoTheDriverMayFail) {
  auto* const control = Cuda::get().control;
  if (control == nullptr) GTEST_SKIP() << "only the emulated driver can be told to fail";
  int failed = 0;
  for (int number = 0;; ++number) {
    Ranks device(1, GetParam());
    const DeviceStream stream;
    const DeviceBuffer<uint64_t> data(values(1));
    ecclResult_t result = ecclSuccess;
    bool injected = false;
    DeviceGraph graph(stream, [&] {
      control->failAt = control->calls + number;
      result = sum(device.comm(0), data, data, stream);
      injected = control->calls > control->failAt;
      control->failAt = cuda_emulation::Control::kNever;
    });
    if (!injected) break;
    ++failed;
    EXPECT_EQ(result, ecclUnhandledCudaError);
    EXPECT_THAT(ecclGetLastError(device.comm(0)), HasSubstr("CUDA_ERROR_ILLEGAL_ADDRESS"));
    if (graph.captured() != test::cu::kSuccess) continue;
    graph.launch(stream);
    stream.synchronize();
  }
  EXPECT_GT(failed, 10);
}

INSTANTIATE_TEST_SUITE_P(, GraphFaults, ::testing::Values("cuda", "lanes", "relayed"));

}  // namespace
}  // namespace eccl
