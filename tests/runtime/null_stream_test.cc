// What a NULL stream means, and in which order the calls of a group go.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <functional>
#include <thread>
#include <vector>

#include "eccl/eccl.h"
#include "support/processes.h"

namespace eccl::runtime {
namespace {

using ::testing::HasSubstr;

/// Ranks of one communicator in this process.
class InOneProcess : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { setenv("ECCL_DEBUG", "NONE", 1); }
  void make(int ranks, bool blocking = true) {
    comms_.assign(static_cast<size_t>(ranks), nullptr);
    if (blocking) {
      ASSERT_EQ(ecclCommInitAll(comms_.data(), ranks, nullptr), ecclSuccess) << ecclGetLastError(nullptr);
      return;
    }
    ecclUniqueId id;
    ASSERT_EQ(ecclGetUniqueId(&id), ecclSuccess);
    ecclConfig_t config = ECCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    for (int rank = 0; rank < ranks; ++rank)
      ASSERT_EQ(ecclCommInitRankConfig(&comms_[static_cast<size_t>(rank)], ranks, id, rank, &config),
                ecclInProgress);
    for (ecclComm_t comm : comms_) {
      ecclResult_t state = ecclInProgress;
      while (state == ecclInProgress) {
        usleep(500);
        ASSERT_EQ(ecclCommGetAsyncError(comm, &state), ecclSuccess);
      }
      ASSERT_EQ(state, ecclSuccess) << ecclGetLastError(comm);
    }
  }
  /// body(rank, comm) for each rank, in threads of their own.
  void each(const std::function<void(int, ecclComm_t)>& body) {
    std::vector<std::thread> threads;
    for (size_t rank = 0; rank < comms_.size(); ++rank)
      threads.emplace_back([&, rank] { body(static_cast<int>(rank), comms_[rank]); });
    for (auto& thread : threads) thread.join();
  }
  void TearDown() override {
    each([](int, ecclComm_t comm) {
      EXPECT_EQ(ecclCommDestroy(comm), ecclSuccess) << ecclGetLastError(nullptr);
    });
  }
  std::vector<ecclComm_t> comms_;
};

using GroupOrder = InOneProcess;

// Rank 0 spreads its calls over two streams, rank 1 does not: they meet in the order in which they were made.
TEST_F(GroupOrder, IsThatOfTheCallsWhateverTheirStreams) {
  make(2);
  each([](int rank, ecclComm_t comm) {
    ecclStream_t one, two;
    ASSERT_EQ(ecclStreamCreate(&one), ecclSuccess);
    ASSERT_EQ(ecclStreamCreate(&two), ecclSuccess);
    for (int round = 0; round < 20; ++round) {
      int values[3] = {1, 10, 100};
      ASSERT_EQ(ecclGroupStart(), ecclSuccess);
      for (int i = 0; i < 3; ++i) {
        ASSERT_EQ(
            ecclAllReduce(&values[i], &values[i], 1, ecclInt32, ecclSum, comm, rank == 0 && i == 1 ? two : one),
            ecclSuccess);
      }
      ASSERT_EQ(ecclGroupEnd(), ecclSuccess) << ecclGetLastError(nullptr);
      ASSERT_EQ(ecclStreamSynchronize(one), ecclSuccess) << ecclGetLastError(nullptr);
      ASSERT_EQ(ecclStreamSynchronize(two), ecclSuccess) << ecclGetLastError(nullptr);
      EXPECT_EQ(values[0], 2);
      EXPECT_EQ(values[1], 20);
      EXPECT_EQ(values[2], 200);
    }
    ecclStreamDestroy(one);
    ecclStreamDestroy(two);
  });
}

// Unlike calls, long ones among them, and streams that have work from before: nothing is taken for a mismatch.
TEST_F(GroupOrder, HoldsForUnlikeCallsBehindOthers) {
  make(2);
  each([](int rank, ecclComm_t comm) {
    ecclStream_t streams[2];
    for (auto& stream : streams) ASSERT_EQ(ecclStreamCreate(&stream), ecclSuccess);
    const size_t count = 200'000;
    std::vector<float> before(count, 1), reduced(count, 1), sent(count, 2);
    for (int round = 0; round < 10; ++round) {
      std::fill(before.begin(), before.end(), 1.f);
      std::fill(reduced.begin(), reduced.end(), 1.f);
      std::fill(sent.begin(), sent.end(), 3.f + static_cast<float>(rank));
      ASSERT_EQ(ecclAllReduce(before.data(), before.data(), count, ecclFloat, ecclSum, comm, streams[rank]),
                ecclSuccess);
      int small = 4;
      ecclGroupStart();
      ecclAllReduce(&small, &small, 1, ecclInt32, ecclMax, comm, streams[1 - rank]);
      ecclBroadcast(sent.data(), sent.data(), count, ecclFloat, 1, comm, streams[rank]);
      ecclAllReduce(reduced.data(), reduced.data(), count, ecclFloat, ecclSum, comm, streams[1 - rank]);
      ASSERT_EQ(ecclGroupEnd(), ecclSuccess) << ecclGetLastError(nullptr);
      for (auto& stream : streams)
        ASSERT_EQ(ecclStreamSynchronize(stream), ecclSuccess) << ecclGetLastError(nullptr);
      ASSERT_EQ(small, 4);
      ASSERT_EQ(before[count - 1], 2);
      ASSERT_EQ(reduced[count - 1], 2);
      ASSERT_EQ(sent[count - 1], 4);
    }
    for (auto& stream : streams) ecclStreamDestroy(stream);
  });
}

// The copy waits for what is before it in the stream of the Send and in that of the Recv.
TEST_F(GroupOrder, ASendToOneselfMayHaveItsRecvOnAnotherStream) {
  make(2);
  each([](int, ecclComm_t comm) {
    ecclStream_t streams[2];
    for (auto& stream : streams) ASSERT_EQ(ecclStreamCreate(&stream), ecclSuccess);
    const size_t count = 100'000;
    std::vector<float> from(count, 1), to(count, 1);
    ecclAllReduce(from.data(), from.data(), count, ecclFloat, ecclSum, comm, streams[0]);
    ecclAllReduce(to.data(), to.data(), count, ecclFloat, ecclSum, comm, streams[1]);
    int rank;
    ecclCommUserRank(comm, &rank);
    ecclGroupStart();
    ecclSend(from.data(), count, ecclFloat, rank, comm, streams[0]);
    ecclRecv(to.data(), count, ecclFloat, rank, comm, streams[1]);
    ASSERT_EQ(ecclGroupEnd(), ecclSuccess) << ecclGetLastError(nullptr);
    ecclAllReduce(to.data(), to.data(), count, ecclFloat, ecclSum, comm, streams[1]);
    for (auto& stream : streams) ASSERT_EQ(ecclStreamSynchronize(stream), ecclSuccess);
    EXPECT_EQ(from[count - 1], 2);
    EXPECT_EQ(to[count - 1], 4);
    for (auto& stream : streams) ecclStreamDestroy(stream);
  });
}

// The group of rank 0 has a call that cannot be made: none is, and its communicators go on.
TEST_F(GroupOrder, AGroupThatIsRefusedLeavesItsCommunicatorsAsTheyWere) {
  make(2);
  ecclComm_t others[2];
  ASSERT_EQ(ecclCommInitAll(others, 2, nullptr), ecclSuccess);
  each([&](int rank, ecclComm_t comm) {
    int value = 1, lonely = 0;
    if (rank == 0) {
      ecclGroupStart();
      EXPECT_EQ(ecclAllReduce(&value, &value, 1, ecclInt32, ecclSum, comm, nullptr), ecclSuccess);
      EXPECT_EQ(ecclSend(&lonely, 1, ecclInt32, rank, others[rank], nullptr), ecclSuccess);
      EXPECT_EQ(ecclGroupEnd(), ecclInvalidUsage);
      EXPECT_THAT(ecclGetLastError(nullptr), HasSubstr("1 ecclSend and 0 ecclRecv to itself"));
    }
    for (ecclComm_t each : {comm, others[rank]}) {
      value = 1;
      EXPECT_EQ(ecclAllReduce(&value, &value, 1, ecclInt32, ecclSum, each, nullptr), ecclSuccess)
          << ecclGetLastError(nullptr);
      EXPECT_EQ(value, 2);
    }
    EXPECT_EQ(ecclCommDestroy(others[rank]), ecclSuccess);
  });
}

using GroupEnd = InOneProcess;

// Nothing is left to be done when it returns: buffers may be read, and freed.
TEST_F(GroupEnd, ReturnsWhenCallsWithTheNullStreamAreComplete) {
  make(2);
  each([](int rank, ecclComm_t comm) {
    for (int round = 0; round < 5; ++round) {
      std::vector<float> data(300'000, 1), in(1000, -1), out(1000, static_cast<float>(rank));
      if (rank == 1) usleep(50'000);
      ecclGroupStart();
      ecclAllReduce(data.data(), data.data(), data.size(), ecclFloat, ecclSum, comm, nullptr);
      ecclSend(out.data(), out.size(), ecclFloat, 1 - rank, comm, nullptr);
      ecclRecv(in.data(), in.size(), ecclFloat, 1 - rank, comm, nullptr);
      ASSERT_EQ(ecclGroupEnd(), ecclSuccess) << ecclGetLastError(nullptr);
      EXPECT_EQ(data[data.size() - 1], 2);
      EXPECT_EQ(in[999], static_cast<float>(1 - rank));
    }
  });
}

TEST_F(GroupEnd, ServesSeveralRanksOfOneThread) {
  make(3);
  for (int round = 0; round < 20; ++round) {
    std::vector<int> data(3, 5);
    ecclGroupStart();
    for (size_t rank = 0; rank < 3; ++rank)
      ecclAllReduce(&data[rank], &data[rank], 1, ecclInt32, ecclSum, comms_[rank], nullptr);
    ASSERT_EQ(ecclGroupEnd(), ecclSuccess);
    EXPECT_THAT(data, ::testing::Each(15));
  }
}

TEST_F(GroupEnd, LeavesCallsOnStreamsQueued) {
  make(2);
  each([](int rank, ecclComm_t comm) {
    ecclStream_t stream;
    ASSERT_EQ(ecclStreamCreate(&stream), ecclSuccess);
    float x = 1;
    if (rank == 1) usleep(300'000);
    const double began = test::now();
    ecclGroupStart();
    ecclAllReduce(&x, &x, 1, ecclFloat, ecclSum, comm, stream);
    ASSERT_EQ(ecclGroupEnd(), ecclSuccess);
    EXPECT_LT(test::now() - began, 0.2);
    ASSERT_EQ(ecclStreamSynchronize(stream), ecclSuccess);
    EXPECT_EQ(x, 2);
    ecclStreamDestroy(stream);
  });
}

using NullStream = InOneProcess;

// Each thread waits for its own calls. Rank 1 has none when it first waits; if it waited for rank 0's, both
// would for ever.
TEST_F(NullStream, StandsForTheThreadsOwnCalls) {
  make(2, false);
  std::atomic<int> called{0};
  each([&](int rank, ecclComm_t comm) {
    float x = 1;
    if (rank == 1) {
      while (called == 0) usleep(1000);
      EXPECT_EQ(ecclStreamQuery(nullptr), ecclSuccess);
      ASSERT_EQ(ecclStreamSynchronize(nullptr), ecclSuccess);
    }
    ASSERT_EQ(ecclAllReduce(&x, &x, 1, ecclFloat, ecclSum, comm, nullptr), ecclSuccess);
    called = 1;
    if (rank == 0) { EXPECT_EQ(ecclStreamQuery(nullptr), ecclInProgress); }
    ASSERT_EQ(ecclStreamSynchronize(nullptr), ecclSuccess);
    EXPECT_EQ(x, 2);
    EXPECT_EQ(ecclStreamQuery(nullptr), ecclSuccess);
  });
}

TEST_F(NullStream, OfOneCommunicatorCanBeWaitedForByAnyThread) {
  make(2, false);
  float x[2] = {1, 1};
  std::thread([&] {
    ASSERT_EQ(ecclAllReduce(&x[0], &x[0], 1, ecclFloat, ecclSum, comms_[0], nullptr), ecclSuccess);
  }).join();
  std::thread late([&] {
    usleep(100'000);
    ASSERT_EQ(ecclAllReduce(&x[1], &x[1], 1, ecclFloat, ecclSum, comms_[1], nullptr), ecclSuccess);
    ASSERT_EQ(ecclCommSynchronize(comms_[1]), ecclSuccess);
  });
  ASSERT_EQ(ecclCommSynchronize(comms_[0]), ecclSuccess);
  EXPECT_EQ(x[0], 2);
  late.join();
  EXPECT_EQ(ecclCommSynchronize(nullptr), ecclInvalidArgument);
}

// An error is told to the thread whose call it was, not to whoever asks first.
TEST_F(NullStream, KeepsTheErrorsOfOtherThreads) {
  make(2, false);
  float x = 1;
  std::vector<float> longer(2);
  std::thread other([&] {
    ASSERT_EQ(ecclAllReduce(longer.data(), longer.data(), 2, ecclFloat, ecclSum, comms_[1], nullptr),
              ecclSuccess);
    EXPECT_EQ(ecclStreamSynchronize(nullptr), ecclInvalidUsage);
    EXPECT_THAT(ecclGetLastError(nullptr), HasSubstr("calls differ"));
    EXPECT_EQ(ecclStreamSynchronize(nullptr), ecclSuccess);  // told once
  });
  std::thread third([] { EXPECT_EQ(ecclStreamSynchronize(nullptr), ecclSuccess); });
  ASSERT_EQ(ecclAllReduce(&x, &x, 1, ecclFloat, ecclSum, comms_[0], nullptr), ecclSuccess);
  EXPECT_EQ(ecclStreamSynchronize(nullptr), ecclInvalidUsage);
  other.join();
  third.join();
  for (auto& comm : comms_) EXPECT_EQ(ecclCommAbort(comm), ecclSuccess);
  comms_.clear();
}

}  // namespace
}  // namespace eccl::runtime
