// Calls that are captured into graphs: each run of the graph makes them again, and the library is not asked.
#include "cuda/graphs.h"

namespace eccl {
namespace {

using test::asStream;
using test::Cuda;
using test::DeviceBuffer;
using test::DeviceGraph;
using test::DeviceStream;
using test::Ranks;
using ::testing::AllOf;
using ::testing::HasSubstr;

using CudaGraphs = test::Graphs;

TEST_P(CudaGraphs, RunsGiveTheBitsOfTheHost) {
  for (const int ranks : {1, 2, 3}) {
    Ranks host(ranks, "host"), device(ranks, GetParam(), ranks == 3 ? 2 : 1);
    test::sweep(host, device, test::Way::replayed);
  }
}

// Copies to and fro go on beside the host's lanes, in groups of tiles.
TEST_P(CudaGraphs, RunsOfLongMessages) {
  Ranks host(2, "host"), device(2, GetParam());
  const size_t least = kSanitized && lanes() ? 1 : 16;
  for (const test::What what : test::kAll)
    test::compare(host, device, {what, ecclFloat32, ecclSum, least * (3u << 15) + 13, 1}, false,
                  test::Way::replayed);
}

// Calls with a length for each rank are staged in every communicator: between them are some that are not.
TEST_P(CudaGraphs, CallsOfDifferentLengths) {
  Ranks device(2, GetParam());
  device.each([&](int rank) {
    const size_t counts[] = {3000, 500}, places[] = {700, 10};
    const uint64_t mine = static_cast<uint64_t>(rank) + 1;
    const DeviceStream stream;
    const DeviceBuffer<uint64_t> send(values(mine, counts[rank])), all(values(9, 4000)), sums(values(1));
    const auto gather = [&] {
      EXPECT_EQ(ecclAllGatherv(send.data(), counts[rank], all.data(), counts, places, ecclUint64,
                               device.comm(rank), asStream(stream.native())),
                ecclSuccess)
          << ecclGetLastError(device.comm(rank));
      EXPECT_EQ(sum(device.comm(rank), sums, sums, stream), ecclSuccess);
    };
    DeviceGraph graph(stream, gather);
    device.meet();
    for (int run = 0; run < 10; ++run) {
      graph.launch(stream);
      if (run % 3 == 0) gather();
    }
    stream.synchronize();
    Values expected(4000, 9);
    for (size_t block : {0u, 1u})
      std::fill_n(expected.begin() + static_cast<long>(places[block]), counts[block], block + 1);
    EXPECT_EQ(all.read(), expected);
    EXPECT_EQ(sums.read(), values(1 << 14));
    device.meet();
  });
}

// Of three ranks each sum is three times what was there: an odd number, so that each call counts. Calls and
// runs in two streams use the same connections, as they were started.
TEST_P(CudaGraphs, ManyRunsBesideCalls) {
  const int runs = kSanitized ? 100 : 1000, ranks = 3;
  const auto streamOf = [](int run) { return static_cast<size_t>(run % 7 < 4); };
  Ranks device(ranks, GetParam());
  uint64_t expected[2] = {1, 1};
  for (int run = 0; run < runs; ++run) expected[streamOf(run)] *= run % 3 == 0 ? 81 : 27;
  device.each([&](int rank) {
    const DeviceStream streams[2];
    const DeviceBuffer<uint64_t> data[2] = {DeviceBuffer(values(1)), DeviceBuffer(values(1))};
    const auto triple = [&](size_t which) {
      EXPECT_EQ(sum(device.comm(rank), data[which], data[which], streams[which], which == 0 ? kCount : 100),
                ecclSuccess)
          << ecclGetLastError(device.comm(rank));
    };
    const auto thrice = [&](size_t which) {
      for (int call = 0; call < 3; ++call) triple(which);
    };
    DeviceGraph graphs[2] = {{streams[0], [&] { thrice(0); }}, {streams[1], [&] { thrice(1); }}};
    device.meet();
    for (int run = 0; run < runs; ++run) {
      const size_t which = streamOf(run);
      graphs[which].launch(streams[which]);
      if (run % 3 == 0) triple(which);
      if (run % 20 == 0) streams[0].synchronize();
    }
    for (const size_t which : {0, 1}) {
      streams[which].synchronize();
      EXPECT_EQ(data[which].read()[0], expected[which]);
      EXPECT_EQ(data[which].read()[99], expected[which]);
    }
  });
}

// One capture of two streams, of two communicators, whose calls are also in a second graph.
TEST_P(CudaGraphs, SeveralStreamsCommunicatorsAndGraphs) {
  Ranks one(2, GetParam()), two(2, GetParam());
  one.each([&](int rank) {
    Cuda& cuda = Cuda::get();
    const DeviceStream stream, side, free;
    const DeviceBuffer<uint64_t> a(values(1)), b(values(1));
    test::cu::Event forks = nullptr, joins = nullptr;
    for (test::cu::Event* event : {&forks, &joins})
      Cuda::need(cuda.cuEventCreate(event, test::cu::kEventWithoutTiming), "cuEventCreate");
    const auto call = [&](Ranks& ranks, const DeviceBuffer<uint64_t>& data, const DeviceStream& in) {
      EXPECT_EQ(sum(ranks.comm(rank), data, data, in), ecclSuccess) << ecclGetLastError(ranks.comm(rank));
    };
    DeviceGraph forked(stream, [&] {
      call(one, a, stream);
      cuda.cuEventRecord(forks, stream.native());
      cuda.cuStreamWaitEvent(side.native(), forks, 0);
      call(two, b, side);
      call(one, a, stream);
      call(one, b, side);  // behind the one before
      cuda.cuEventRecord(joins, side.native());
      cuda.cuStreamWaitEvent(stream.native(), joins, 0);
    });
    ASSERT_EQ(forked.captured(), test::cu::kSuccess);
    DeviceGraph grouped(side, [&] {
      ecclGroupStart();
      call(one, a, side);
      call(two, b, side);
      EXPECT_EQ(ecclGroupEnd(), ecclSuccess);
    });
    one.meet();
    for (int run = 0; run < 10; ++run) {
      forked.launch(stream);
      stream.synchronize();
      grouped.launch(free);
      free.synchronize();
      one.meet();
    }
    EXPECT_EQ(a.read(), values(uint64_t{1} << 30));
    EXPECT_EQ(b.read(), values(uint64_t{1} << 30));
    for (test::cu::Event event : {forks, joins}) Cuda::need(cuda.cuEventDestroy(event), "cuEventDestroy");
  });
}

// One thread captures the calls of both ranks in groups, into one stream.
TEST_P(CudaGraphs, RanksOfOneThreadInGroups) {
  Ranks device(2, GetParam());
  const DeviceStream stream;
  const DeviceBuffer<uint64_t> a(values(1)), b(values(2));
  const auto inGroup = [&] {
    ecclGroupStart();
    EXPECT_EQ(sum(device.comm(0), a, a, stream), ecclSuccess);
    EXPECT_EQ(sum(device.comm(1), b, b, stream), ecclSuccess);
    EXPECT_EQ(ecclGroupEnd(), ecclSuccess) << ecclGetLastError(nullptr);
  };
  DeviceGraph graph(stream, inGroup);
  graph.launch(stream);
  inGroup();
  graph.launch(stream);
  stream.synchronize();
  EXPECT_EQ(a.read(), values(12));
  EXPECT_EQ(b.read(), values(12));
}

// Each rank sends in one stream and receives in another, and copies to itself.
TEST_P(CudaGraphs, SendsAndRecvsInTwoStreams) {
  Ranks device(3, GetParam());
  device.each([&](int rank) {
    Cuda& cuda = Cuda::get();
    const auto at = static_cast<uint64_t>(rank);
    const ecclComm_t comm = device.comm(rank);
    const DeviceStream stream, side;
    const DeviceBuffer<uint64_t> from(values(at)), to(values(9)), own(values(9));
    test::cu::Event forks = nullptr, joins = nullptr;
    for (test::cu::Event* event : {&forks, &joins})
      Cuda::need(cuda.cuEventCreate(event, test::cu::kEventWithoutTiming), "cuEventCreate");
    DeviceGraph graph(stream, [&] {
      cuda.cuEventRecord(forks, stream.native());
      cuda.cuStreamWaitEvent(side.native(), forks, 0);
      ecclGroupStart();
      EXPECT_EQ(ecclSend(from.data(), kCount, ecclUint64, (rank + 1) % 3, comm, asStream(stream.native())),
                ecclSuccess);
      EXPECT_EQ(ecclRecv(to.data(), kCount, ecclUint64, (rank + 2) % 3, comm, asStream(side.native())),
                ecclSuccess);
      EXPECT_EQ(ecclSend(from.data(), kCount, ecclUint64, rank, comm, asStream(stream.native())), ecclSuccess);
      EXPECT_EQ(ecclRecv(own.data(), kCount, ecclUint64, rank, comm, asStream(stream.native())), ecclSuccess);
      EXPECT_EQ(ecclGroupEnd(), ecclSuccess) << ecclGetLastError(comm);
      cuda.cuEventRecord(joins, side.native());
      cuda.cuStreamWaitEvent(stream.native(), joins, 0);
    });
    ASSERT_EQ(graph.captured(), test::cu::kSuccess);
    for (uint64_t run = 0; run < 10; ++run) {
      device.meet();
      from.write(values(10 * run + at));
      graph.launch(stream);
      stream.synchronize();
      EXPECT_EQ(to.read(), values(10 * run + (at + 2) % 3));
      EXPECT_EQ(own.read(), values(10 * run + at));
    }
    for (test::cu::Event event : {forks, joins}) Cuda::need(cuda.cuEventDestroy(event), "cuEventDestroy");
  });
}

// The first call of a shape needs memory, which a capture does not forgive a thread unless that says so; nor
// does one of another thread.
TEST_P(CudaGraphs, FirstCallsBesideCaptures) {
  Ranks device(2, GetParam());
  device.each([&](int rank) {
    const DeviceStream stream, eager;
    const DeviceBuffer<uint64_t> a(values(1)), b(values(1));
    device.meet();
    DeviceGraph graph(
        stream,
        [&] {
          device.meet();
          EXPECT_EQ(sum(device.comm(rank), a, a, stream), ecclSuccess);
          EXPECT_EQ(ecclBroadcast(b.data(), b.data(), kCount, ecclUint64, 0, device.comm(rank),
                                  asStream(eager.native())),
                    ecclSuccess)
              << ecclGetLastError(device.comm(rank));
          device.meet();
        },
        rank == 0 ? DeviceGraph::kGlobal : DeviceGraph::kThread, true);
    EXPECT_EQ(graph.captured(), test::cu::kSuccess);
    device.meet();  // this thread is not relaxed
    graph.instantiate(stream);
    device.meet();
    graph.launch(stream);
    stream.synchronize();
    EXPECT_EQ(a.read(), values(2));
    device.meet();
  });
}

// The thread that makes a call need not be the one that captures, nor be relaxed about captures.
TEST_P(CudaGraphs, CallsOfAnotherThreadThanTheOneThatCaptures) {
  for (const int mode : {DeviceGraph::kGlobal, DeviceGraph::kThread}) {
    Ranks device(2, GetParam());
    device.each([&](int rank) {
      const DeviceStream stream;
      const DeviceBuffer<uint64_t> data(values(1));
      device.meet();
      DeviceGraph graph(
          stream,
          [&] {
            std::thread([&] {
              EXPECT_EQ(sum(device.comm(rank), data, data, stream), ecclSuccess)
                  << ecclGetLastError(device.comm(rank));
            }).join();
          },
          mode, true);
      EXPECT_EQ(graph.captured(), test::cu::kSuccess) << mode;
      device.meet();
      graph.instantiate(stream);
      device.meet();
      for (int run = 0; run < 3; ++run) graph.launch(stream);
      stream.synchronize();
      EXPECT_EQ(data.read(), values(8));
      device.meet();
    });
  }
}

// Two instances of one graph, in two streams, whose runs use the same connections.
TEST_P(CudaGraphs, InstancesOfOneGraphFollowOneAnother) {
  Ranks device(2, GetParam());
  device.each([&](int rank) {
    const DeviceStream stream, other;
    const DeviceBuffer<uint64_t> from(values(static_cast<uint64_t>(rank) + 1)), to(values(0)),
        beside(values(0));
    DeviceGraph graph(stream, [&] {
      for (int call = 0; call < 3; ++call) EXPECT_EQ(sum(device.comm(rank), from, to, stream), ecclSuccess);
    });
    DeviceGraph again(graph, other);
    device.meet();
    for (int run = 0; run < 30; ++run) {
      graph.launch(stream);
      again.launch(other);
      if (run % 5 == 0) { EXPECT_EQ(sum(device.comm(rank), from, beside, other), ecclSuccess); }
    }
    stream.synchronize();
    other.synchronize();
    EXPECT_EQ(to.read(), values(3));
  });
}

// A kernel reads an operator's scalar in each run; the host cannot. Without another rank nothing is relayed.
TEST_P(CudaGraphs, AScalarInDeviceMemory) {
  const bool lanes = std::string_view(GetParam()) != "cuda";
  Ranks device(1, GetParam());
  const ecclComm_t comm = device.comm(0);
  const DeviceStream stream;
  const DeviceBuffer<double> from(std::vector<double>(10, 3)), to(std::vector<double>(10)), scalar({0.5});
  ecclRedOp_t op;
  ASSERT_EQ(ecclRedOpCreatePreMulSum(&op, scalar.data(), ecclFloat64, ecclScalarDevice, comm), ecclSuccess);
  DeviceGraph graph(stream, [&] {
    EXPECT_EQ(ecclAllReduce(from.data(), to.data(), 10, ecclFloat64, op, comm, asStream(stream.native())),
              lanes ? ecclSuccess : ecclInvalidUsage);
  });
  EXPECT_EQ(graph.captured(), test::cu::kSuccess);
  if (!lanes) {
    EXPECT_THAT(ecclGetLastError(comm), AllOf(HasSubstr("is being captured into a graph"),
                                              HasSubstr("whose scalar is in device memory")));
    EXPECT_EQ(ecclAllReduce(from.data(), to.data(), 10, ecclFloat64, op, comm, asStream(stream.native())),
              ecclSuccess);  // nothing has happened by the call
    stream.synchronize();
    EXPECT_EQ(to.read(), std::vector<double>(10, 1.5));
    return;
  }
  for (const double factor : {0.5, 4., -1.}) {
    scalar.write({factor});
    graph.launch(stream);
    stream.synchronize();
    EXPECT_EQ(to.read(), std::vector<double>(10, 3 * factor));
  }
}

INSTANTIATE_TEST_SUITE_P(, CudaGraphs, ::testing::Values("cuda", "lanes", "relayed"));

}  // namespace
}  // namespace eccl
