// Non-blocking CUDA communicators: a first call waits for those of the other ranks in the background.
#include "cuda/processes.h"

namespace eccl {
namespace {

using test::asStream;
using test::DeviceBuffer;
using test::DeviceStream;
using test::inProcesses;
using test::Process;
using test::Ranks;
using ::testing::AnyOf;
using ::testing::HasSubstr;

/// What comes of a call, or of making a communicator.
ecclResult_t settled(ecclComm_t comm) {
  ecclResult_t state = ecclInProgress;
  for (const double start = test::now(); state == ecclInProgress && test::now() - start < 20;)
    EXPECT_EQ(ecclCommGetAsyncError(comm, &state), ecclSuccess);
  return state;
}

/// A non-blocking one of the same ranks.
ecclComm_t split(ecclComm_t parent, int rank) {
  ecclConfig_t config = ECCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ecclComm_t child = nullptr;
  EXPECT_EQ(ecclCommSplit(parent, 0, rank, &child, &config), ecclInProgress);
  EXPECT_EQ(settled(child), ecclSuccess);
  return child;
}

using NonBlockingProcesses = test::LaneProcesses;

TEST_F(NonBlockingProcesses, AFirstCallReturnsAtOnce) {
  inProcesses(2, [](Process& process) {
    Ranks ranks(&process, 2, "lanes");
    const int rank = process.number, peer = 1 - rank;
    ecclComm_t comm = split(ranks.comm(rank), rank);
    const DeviceStream stream;
    const DeviceBuffer<int> data(numbers(1)), in({-1}), out({rank});
    if (rank == 1) process.meet();  // when the other has looked
    ecclResult_t result = sum(comm, data, stream);
    if (rank == 0) {
      EXPECT_EQ(result, ecclInProgress);
      EXPECT_EQ(sum(comm, data, stream), ecclInvalidUsage);
      EXPECT_THAT(ecclGetLastError(comm),
                  HasSubstr("ecclAllReduce of rank 0 still waits for those of other ranks; poll"));
      EXPECT_EQ(ecclCommFinalize(comm), ecclInvalidUsage);
      std::this_thread::sleep_for(std::chrono::milliseconds(400));
      EXPECT_EQ(ecclCommGetAsyncError(comm, &result), ecclSuccess);
      EXPECT_EQ(result, ecclInProgress) << "it does not wait for the other";
      process.meet();
    }
    EXPECT_EQ(settled(comm), ecclSuccess);
    stream.synchronize();
    EXPECT_EQ(data.read(), numbers(2));
    EXPECT_EQ(sum(comm, data, stream), ecclSuccess) << "not a first one";
    stream.synchronize();
    EXPECT_EQ(data.read(), numbers(4));

    if (rank == 0) process.meet();
    EXPECT_EQ(ecclGroupStart(), ecclSuccess);
    EXPECT_EQ(ecclSend(out.data(), 1, ecclInt32, peer, comm, asStream(stream.native())), ecclSuccess);
    EXPECT_EQ(ecclRecv(in.data(), 1, ecclInt32, peer, comm, asStream(stream.native())), ecclSuccess);
    result = ecclGroupEnd();
    if (rank == 1) {
      EXPECT_EQ(result, ecclInProgress);
      process.meet();
    }
    EXPECT_EQ(settled(comm), ecclSuccess);
    stream.synchronize();
    EXPECT_EQ(in.read(), std::vector<int>{peer});
    EXPECT_EQ(ecclCommDestroy(comm), ecclSuccess);
  });
}

TEST_F(NonBlockingProcesses, TheOrderOfFirstCallsDoesNotMatter) {
  inProcesses(2, [](Process& process) {
    Ranks ranks(&process, 2, "lanes");
    const int rank = process.number;
    ecclComm_t comms[] = {split(ranks.comm(rank), rank), split(ranks.comm(rank), rank)};
    const DeviceStream streams[2];
    const DeviceBuffer<int> data[] = {DeviceBuffer<int>(numbers(1)), DeviceBuffer<int>(numbers(10))};
    for (const int which : {rank, 1 - rank})
      EXPECT_THAT(sum(comms[which], data[which], streams[which]), AnyOf(ecclSuccess, ecclInProgress));
    for (const int which : {0, 1}) {
      EXPECT_EQ(settled(comms[which]), ecclSuccess);
      streams[which].synchronize();
      EXPECT_EQ(data[which].read(), numbers(which == 0 ? 2 : 20));
    }
    for (const ecclComm_t comm : comms) EXPECT_EQ(ecclCommDestroy(comm), ecclSuccess);
  });
}

TEST_F(NonBlockingProcesses, AbortAndDestroyEndAFirstCall) {
  inProcesses(2, [](Process& process) {
    Ranks ranks(&process, 2, "lanes");
    const int rank = process.number;
    const ecclComm_t aborted = split(ranks.comm(rank), rank), destroyed = split(ranks.comm(rank), rank);
    const DeviceStream stream;
    const DeviceBuffer<int> data(numbers(1));
    if (rank == 1) {
      expectFailed(aborted, "aborted the communicator");
    } else {
      EXPECT_EQ(sum(aborted, data, stream), ecclInProgress);
      const double start = test::now();
      EXPECT_EQ(ecclCommAbort(aborted), ecclSuccess);
      EXPECT_LT(test::now() - start, 1);
    }
    // What has begun is done first.
    if (rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(300));
    EXPECT_THAT(sum(destroyed, data, stream), AnyOf(ecclSuccess, ecclInProgress));
    if (rank == 1) { EXPECT_EQ(settled(destroyed), ecclSuccess); }
    EXPECT_EQ(ecclCommDestroy(destroyed), ecclSuccess);
    stream.synchronize();
    EXPECT_EQ(data.read(), numbers(2));
    if (rank == 1) ecclCommAbort(aborted);
  });
}

TEST_F(NonBlockingProcesses, AbortComesAtAnyTimeOfAFirstCall) {
  inProcesses(2, [](Process& process) {
    Ranks ranks(&process, 2, "lanes");
    const int rank = process.number;
    const DeviceStream stream;
    const DeviceBuffer<int> data(numbers(1));
    for (int round = 0; round < 12; ++round) {
      const ecclComm_t comm = split(ranks.comm(rank), rank);
      process.meet();  // an abort would be an error of the split
      std::thread caller([&] {
        test::Cuda::get().use(0);
        if (rank == 0) sum(comm, data, stream);
      });
      std::this_thread::sleep_for(std::chrono::microseconds(150 * round));
      EXPECT_EQ(ecclCommAbort(comm), ecclSuccess);
      caller.join();
      process.meet();
    }
    stream.synchronize();
  });
}

TEST_F(NonBlockingProcesses, DifferentFirstCallsAreNamed) {
  inProcesses(2, [](Process& process) {
    Ranks ranks(&process, 2, "lanes");
    const int rank = process.number;
    const ecclComm_t comm = split(ranks.comm(rank), rank);
    const DeviceStream stream;
    const DeviceBuffer<int> data(numbers(1));
    const ecclResult_t result =
        rank == 0 ? sum(comm, data, stream)
                  : ecclAllGather(data.data(), data.data(), 1, ecclInt32, comm, asStream(stream.native()));
    EXPECT_THAT(result, AnyOf(ecclSuccess, ecclInProgress));
    if (settled(comm) == ecclSuccess) expectFailed(comm, "AllGather(count 1");
    EXPECT_THAT(ecclGetLastError(comm), HasSubstr("AllReduce(count 5000"));
    EXPECT_EQ(ecclCommAbort(comm), ecclSuccess);
  });
}

class NonBlockingThreads : public test::CudaTest {};

TEST_F(NonBlockingThreads, MakeTheirFirstCallsInEveryOrder) {
  Ranks ranks(2, "lanes", 2);
  ranks.each([&](int rank) {
    ecclComm_t comms[] = {split(ranks.comm(rank), rank), split(ranks.comm(rank), rank)};
    const DeviceStream streams[2];
    const DeviceBuffer<int> data[] = {DeviceBuffer<int>({1}), DeviceBuffer<int>({10})};
    for (const int which : {rank, 1 - rank})
      EXPECT_THAT(ecclAllReduce(data[which].data(), data[which].data(), 1, ecclInt32, ecclSum, comms[which],
                                asStream(streams[which].native())),
                  AnyOf(ecclSuccess, ecclInProgress));
    for (const int which : {0, 1}) {
      EXPECT_EQ(settled(comms[which]), ecclSuccess);
      streams[which].synchronize();
      EXPECT_EQ(data[which].read(), std::vector<int>{which == 0 ? 2 : 20});
    }
    for (const ecclComm_t comm : comms) EXPECT_EQ(ecclCommDestroy(comm), ecclSuccess);
  });
}

}  // namespace
}  // namespace eccl
