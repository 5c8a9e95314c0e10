// Calls of several threads on one communicator, and communicators that use one stream.
#include "cuda/graphs.h"

namespace eccl {
namespace {

using test::asStream;
using test::DeviceBuffer;
using test::DeviceGraph;
using test::DeviceStream;
using test::Ranks;

class ThreadsOfARank : public test::CudaTest, public ::testing::WithParamInterface<const char*> {};

// Two threads send to one peer, each by a stream of its own. Whichever is first, the peer gets what each has
// sent, in order. The calls are few enough that no stream is full, and memory is freed when all are made: else
// the driver keeps the other threads out.
TEST_P(ThreadsOfARank, SendToOnePeer) {
  constexpr int kThreads = 2, kCalls = 20, kAll = kThreads * kCalls;
  Ranks ranks(2, GetParam());
  ranks.each([&](int rank) {
    const ecclComm_t comm = ranks.comm(rank);
    std::vector<int> values(kAll);
    for (int i = 0; i < kAll; ++i) values[static_cast<size_t>(i)] = rank == 0 ? i : -1;
    const DeviceBuffer<int> data(values);
    const DeviceStream streams[kThreads];
    std::vector<std::thread> threads;
    for (int thread = 0; rank == 0 && thread < kThreads; ++thread)
      threads.emplace_back([&, thread] {
        test::Cuda::get().use(0);
        for (int call = thread * kCalls; call < (thread + 1) * kCalls; ++call)
          EXPECT_EQ(ecclSend(data.data() + call, 1, ecclInt32, 1, comm, asStream(streams[thread].native())),
                    ecclSuccess);
      });
    for (std::thread& thread : threads) thread.join();
    for (int call = 0; rank == 1 && call < kAll; ++call)
      EXPECT_EQ(ecclRecv(data.data() + call, 1, ecclInt32, 0, comm, asStream(streams[0].native())),
                ecclSuccess);
    ranks.meet();
    for (const DeviceStream& stream : streams) stream.synchronize();
    ecclResult_t error = ecclSuccess;
    EXPECT_EQ(ecclCommGetAsyncError(comm, &error), ecclSuccess);
    EXPECT_EQ(error, ecclSuccess) << ecclGetLastError(comm);
    if (rank == 0) return;
    int next[kThreads] = {0, kCalls};
    for (const int value : data.read()) EXPECT_EQ(value, next[value >= kCalls]++);
  });
}
INSTANTIATE_TEST_SUITE_P(, ThreadsOfARank, ::testing::Values("cuda", "lanes", "relayed"));

using StreamsOfTwo = test::Graphs;

// The communicator that used the stream first is gone while a call of another one is still there. So are its
// graphs then: a run of them waits for nobody.
TEST_P(StreamsOfTwo, DoNotKeepTheFirst) {
  auto first = std::make_unique<Ranks>(1, GetParam());
  Ranks second(1, GetParam());
  const DeviceStream stream, other;
  const DeviceBuffer<uint64_t> a(values(1)), b(values(1));
  DeviceGraph graph(other, [&] { EXPECT_EQ(sum(first->comm(0), a, a, other), ecclSuccess); });
  test::HostWord before, between;
  before.heldBackBy(stream.native());
  EXPECT_EQ(sum(first->comm(0), a, a, stream), ecclSuccess);
  between.heldBackBy(stream.native());
  EXPECT_EQ(sum(second.comm(0), b, b, stream), ecclSuccess);
  before.release();
  first.reset();
  graph.launch(other);
  other.synchronize();
  between.release();
  stream.synchronize();
  EXPECT_EQ(b.read(), values(1));
}
INSTANTIATE_TEST_SUITE_P(, StreamsOfTwo, ::testing::Values("cuda", "lanes", "relayed"));

}  // namespace
}  // namespace eccl
