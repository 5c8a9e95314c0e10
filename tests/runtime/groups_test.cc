// Groups, streams, splits, non-blocking communicators: the ways in which calls are made.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <thread>
#include <vector>

#include "eccl/eccl.h"
#include "support/processes.h"
#include "support/sanitizers.h"

namespace eccl::runtime {
namespace {

constexpr int kGroupRanks = 4;

/// testing::Each, fast.
template <class T>
bool all(const std::vector<T>& values, T value) {
  return std::all_of(values.begin(), values.end(), [=](T each) { return each == value; });
}

class Groups : public ::testing::Test {
 protected:
  void SetUp() override {
    setenv("ECCL_DEBUG", "NONE", 1);
    ASSERT_EQ(ecclCommInitAll(comms_, kGroupRanks, nullptr), ecclSuccess) << ecclGetLastError(nullptr);
    for (auto& stream : streams_) ASSERT_EQ(ecclStreamCreate(&stream), ecclSuccess);
  }
  void TearDown() override {
    for (auto& stream : streams_) EXPECT_EQ(ecclStreamDestroy(stream), ecclSuccess);
    // One thread destroys all ranks, one after the other, as programs with several ranks per thread do.
    for (auto& comm : comms_) EXPECT_EQ(ecclCommDestroy(comm), ecclSuccess);
  }
  void synchronize() {
    for (auto& stream : streams_)
      ASSERT_EQ(ecclStreamSynchronize(stream), ecclSuccess) << ecclGetLastError(nullptr);
  }
  ecclComm_t comms_[kGroupRanks] = {};
  ecclStream_t streams_[kGroupRanks] = {};
};

// One thread drives all ranks: without the group the first call would wait for the second for ever.
TEST_F(Groups, OneThreadManyRanks) {
  std::vector<std::vector<int>> data(kGroupRanks, std::vector<int>(10000));
  for (int rank = 0; rank < kGroupRanks; ++rank) std::fill(data[rank].begin(), data[rank].end(), rank + 1);
  ASSERT_EQ(ecclGroupStart(), ecclSuccess);
  for (int rank = 0; rank < kGroupRanks; ++rank) {
    ASSERT_EQ(ecclAllReduce(data[rank].data(), data[rank].data(), 10000, ecclInt32, ecclSum, comms_[rank],
                            streams_[rank]),
              ecclSuccess);
  }
  ASSERT_EQ(ecclGroupEnd(), ecclSuccess) << ecclGetLastError(nullptr);
  synchronize();
  for (auto& each : data) EXPECT_TRUE(all(each, 10));
}

TEST_F(Groups, TheNullStreamInAGroupIsTheDefaultStream) {
  std::vector<int> data(kGroupRanks, 5);
  ASSERT_EQ(ecclGroupStart(), ecclSuccess);
  for (int rank = 0; rank < kGroupRanks; ++rank) {
    ASSERT_EQ(ecclAllReduce(&data[rank], &data[rank], 1, ecclInt32, ecclSum, comms_[rank], nullptr),
              ecclSuccess);
  }
  ASSERT_EQ(ecclGroupEnd(), ecclSuccess);
  ASSERT_EQ(ecclStreamSynchronize(nullptr), ecclSuccess);
  EXPECT_TRUE(all(data, 20));
}

// Every rank sends to and receives from everybody, itself included, several messages per pair, in order.
TEST_F(Groups, SendsAndReceivesGoOnTogether) {
  constexpr int kEach = 3, kCount = 50000;
  std::vector<int> out(kGroupRanks * kGroupRanks * kEach * kCount), in(out.size(), -1);
  auto at = [&](std::vector<int>& v, int rank, int peer, int k) {
    return &v[static_cast<size_t>(((rank * kGroupRanks + peer) * kEach + k) * kCount)];
  };
  ASSERT_EQ(ecclGroupStart(), ecclSuccess);
  for (int rank = 0; rank < kGroupRanks; ++rank) {
    for (int k = 0; k < kEach; ++k) {
      for (int peer = 0; peer < kGroupRanks; ++peer) {
        std::fill_n(at(out, rank, peer, k), kCount, rank * 100 + peer * 10 + k);
        ASSERT_EQ(ecclSend(at(out, rank, peer, k), kCount, ecclInt32, peer, comms_[rank], streams_[rank]),
                  ecclSuccess);
        ASSERT_EQ(ecclRecv(at(in, rank, peer, k), kCount, ecclInt32, peer, comms_[rank], streams_[rank]),
                  ecclSuccess);
      }
    }
  }
  ASSERT_EQ(ecclGroupEnd(), ecclSuccess) << ecclGetLastError(nullptr);
  synchronize();
  for (int rank = 0; rank < kGroupRanks; ++rank) {
    for (int peer = 0; peer < kGroupRanks; ++peer) {
      for (int k = 0; k < kEach; ++k) {
        EXPECT_EQ(*at(in, rank, peer, k), peer * 100 + rank * 10 + k);
        EXPECT_EQ(at(in, rank, peer, k)[kCount - 1], peer * 100 + rank * 10 + k);
      }
    }
  }
}

// Several collectives in one group, of different kinds and sizes, some sharing connections.
// Of a call on the communicator and stream of the call before little is looked up. It is checked like the
// first.
TEST_F(Groups, AnotherCallIsCheckedLikeTheFirst) {
  float out[8] = {}, in[8] = {};
  ecclStream_t ended = nullptr;
  ASSERT_EQ(ecclStreamCreate(&ended), ecclSuccess);
  const auto send = [&](int type, const void* from, size_t count, int peer, ecclStream_t stream) {
    return ecclSend(from, count, static_cast<ecclDataType_t>(type), peer, comms_[0], stream);
  };
  const auto refused = [&](const char* what, const auto& call) {
    SCOPED_TRACE(what);
    ASSERT_EQ(ecclGroupStart(), ecclSuccess);
    EXPECT_EQ(send(ecclFloat, out, 1, 1, ended), ecclSuccess);
    EXPECT_EQ(send(ecclFloat, out, 1, 1, ended), ecclSuccess);
    EXPECT_EQ(call(), ecclInvalidArgument);
    EXPECT_EQ(ecclGroupEnd(), ecclInvalidArgument);
  };
  refused("datatype", [&] { return send(99, out, 1, 1, ended); });
  refused("peer", [&] { return send(ecclFloat, out, 1, kGroupRanks, ended); });
  refused("negative peer", [&] { return send(ecclFloat, out, 1, -1, ended); });
  refused("buffer", [&] { return send(ecclFloat, nullptr, 1, 1, ended); });
  refused("count", [&] { return send(ecclFloat, out, SIZE_MAX / 2, 1, ended); });
  refused("communicator", [&] { return ecclSend(out, 1, ecclFloat, 1, nullptr, ended); });
  refused("stream", [&] {
    EXPECT_EQ(ecclStreamDestroy(ended), ecclSuccess);
    return send(ecclFloat, out, 1, 1, ended);
  });
  // None was made. Those of a good group are, whatever the streams and communicators are in turn; nothing is
  // also sent by a NULL buffer.
  ASSERT_EQ(ecclGroupStart(), ecclSuccess);
  for (int i = 0; i < 8; ++i) {
    out[i] = static_cast<float>(i);
    EXPECT_EQ(ecclSend(out + i, 1, ecclFloat, 1, comms_[0], streams_[i % 2]), ecclSuccess);
    EXPECT_EQ(ecclSend(nullptr, 0, ecclFloat, 1, comms_[0], streams_[i % 2]), ecclSuccess);
    if (i % 3 != 0) continue;
    EXPECT_EQ(ecclSend(out + i, 1, ecclFloat, 2, comms_[0], streams_[0]), ecclSuccess);
  }
  ASSERT_EQ(ecclGroupEnd(), ecclSuccess) << ecclGetLastError(nullptr);
  float others[3] = {};
  ASSERT_EQ(ecclGroupStart(), ecclSuccess);
  for (int i = 0; i < 8; ++i) {
    EXPECT_EQ(ecclRecv(in + i, 1, ecclFloat, 0, comms_[1], streams_[2]), ecclSuccess);
    EXPECT_EQ(ecclRecv(nullptr, 0, ecclFloat, 0, comms_[1], streams_[2]), ecclSuccess);
  }
  for (float& other : others) EXPECT_EQ(ecclRecv(&other, 1, ecclFloat, 0, comms_[2], streams_[3]), ecclSuccess);
  ASSERT_EQ(ecclGroupEnd(), ecclSuccess) << ecclGetLastError(nullptr);
  synchronize();
  for (int i = 0; i < 8; ++i) EXPECT_EQ(in[i], static_cast<float>(i));
  EXPECT_EQ(std::vector<float>(others, others + 3), (std::vector<float>{0, 3, 6}));
}

// A communicator that ends while a group is open is found out when the group ends, if not before.
TEST_F(Groups, ACommunicatorMayEndInAnOpenGroup) {
  float data = 0;
  for (const bool another : {false, true}) {
    SCOPED_TRACE(another);
    ecclComm_t comms[2];
    ASSERT_EQ(ecclCommInitAll(comms, 2, nullptr), ecclSuccess);
    const auto send = [&] { return ecclSend(&data, 1, ecclFloat, 1, comms[0], streams_[0]); };
    ASSERT_EQ(ecclGroupStart(), ecclSuccess);
    ASSERT_EQ(send(), ecclSuccess);
    std::thread([&] { EXPECT_EQ(ecclCommAbort(comms[0]), ecclSuccess); }).join();
    if (another) { EXPECT_EQ(send(), ecclInvalidArgument); }
    EXPECT_EQ(ecclGroupEnd(), ecclInvalidArgument);
    EXPECT_EQ(ecclCommAbort(comms[1]), ecclSuccess);
  }
}

TEST_F(Groups, CollectivesOfOneGroup) {
  constexpr int kCalls = 6;
  std::vector<std::vector<std::vector<int>>> data(kGroupRanks, std::vector<std::vector<int>>(kCalls));
  ASSERT_EQ(ecclGroupStart(), ecclSuccess);
  for (int rank = 0; rank < kGroupRanks; ++rank) {
    for (int call = 0; call < kCalls; ++call) {
      size_t count = call % 2 == 0 ? 7 : 300000;
      auto& buffer = data[rank][call];
      buffer.assign(count, rank + call);
      if (call == 3) {
        ASSERT_EQ(
            ecclBroadcast(buffer.data(), buffer.data(), count, ecclInt32, 2, comms_[rank], streams_[rank]),
            ecclSuccess);
      } else {
        ASSERT_EQ(ecclAllReduce(buffer.data(), buffer.data(), count, ecclInt32, ecclSum, comms_[rank],
                                streams_[rank]),
                  ecclSuccess);
      }
    }
  }
  ASSERT_EQ(ecclGroupEnd(), ecclSuccess);
  synchronize();
  for (int rank = 0; rank < kGroupRanks; ++rank) {
    for (int call = 0; call < kCalls; ++call) {
      EXPECT_TRUE(all(data[rank][call], call == 3 ? 5 : 6 + 4 * call)) << rank << " " << call;
    }
  }
}

// A stream is a queue: each operation sees what the one before it has left, across communicators as well.
// Far more than can be under way: what is queued costs nothing until its turn comes, and every turn does come,
// although it may be another thread that finds the stream free while a call is being added to it.
TEST_F(Groups, ThousandsOfQueuedCallsComeToAnEnd) {
  constexpr int kCalls = 5000;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kGroupRanks; ++rank) {
    threads.emplace_back([&, rank] {
      std::vector<int> sent(kCalls), received(kCalls, -1);
      for (int i = 0; i < kCalls; ++i) {
        sent[i] = 10 * i + rank;
        ASSERT_EQ(ecclGroupStart(), ecclSuccess);
        ASSERT_EQ(ecclSend(&sent[i], 1, ecclInt32, (rank + 1) % kGroupRanks, comms_[rank], streams_[rank]),
                  ecclSuccess);
        ASSERT_EQ(ecclRecv(&received[i], 1, ecclInt32, (rank + kGroupRanks - 1) % kGroupRanks, comms_[rank],
                           streams_[rank]),
                  ecclSuccess);
        ASSERT_EQ(ecclGroupEnd(), ecclSuccess);
      }
      ASSERT_EQ(ecclStreamSynchronize(streams_[rank]), ecclSuccess) << ecclGetLastError(comms_[rank]);
      for (int i = 0; i < kCalls; ++i) ASSERT_EQ(received[i], 10 * i + (rank + kGroupRanks - 1) % kGroupRanks);
    });
  }
  for (auto& thread : threads) thread.join();
}

TEST_F(Groups, StreamsKeepOrder) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kGroupRanks; ++rank) {
    threads.emplace_back([&, rank] {
      std::vector<int64_t> data(20000, 1);
      for (int i = 0; i < 10; ++i) {
        ASSERT_EQ(ecclAllReduce(data.data(), data.data(), data.size(), ecclInt64, ecclSum, comms_[rank],
                                streams_[rank]),
                  ecclSuccess);
      }
      ASSERT_EQ(ecclStreamSynchronize(streams_[rank]), ecclSuccess);
      EXPECT_EQ(ecclStreamQuery(streams_[rank]), ecclSuccess);
      EXPECT_TRUE(all(data, int64_t{1} << 20));  // 4^10
    });
  }
  for (auto& thread : threads) thread.join();
}

// Asynchronous calls complete although nobody waits: the service thread drives.
TEST_F(Groups, CallsCompleteInTheBackground) {
  std::vector<std::vector<int>> data(kGroupRanks, std::vector<int>(100000, 1));
  for (int rank = 0; rank < kGroupRanks; ++rank) {
    ASSERT_EQ(ecclAllReduce(data[rank].data(), data[rank].data(), 100000, ecclInt32, ecclSum, comms_[rank],
                            streams_[rank]),
              ecclSuccess);
  }
  for (int rank = 0; rank < kGroupRanks; ++rank) {
    double limit = test::now() + 30;
    while (ecclStreamQuery(streams_[rank]) == ecclInProgress && test::now() < limit) usleep(1000);
    EXPECT_EQ(ecclStreamQuery(streams_[rank]), ecclSuccess);
  }
  for (auto& each : data) EXPECT_TRUE(all(each, kGroupRanks));
}

TEST_F(Groups, SplitByColorAndKey) {
  ecclComm_t children[kGroupRanks] = {};
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kGroupRanks; ++rank) {
    threads.emplace_back([&, rank] {
      // Ranks 0, 2 and 3 in reverse order; rank 1 stays out.
      int color = rank == 1 ? ECCL_SPLIT_NOCOLOR : 5;
      ASSERT_EQ(ecclCommSplit(comms_[rank], color, -rank, &children[rank], nullptr), ecclSuccess)
          << ecclGetLastError(comms_[rank]);
      if (rank == 1) {
        EXPECT_EQ(children[rank], nullptr);
        return;
      }
      int count = 0, newRank = -1;
      ASSERT_EQ(ecclCommCount(children[rank], &count), ecclSuccess);
      ASSERT_EQ(ecclCommUserRank(children[rank], &newRank), ecclSuccess);
      EXPECT_EQ(count, 3);
      EXPECT_EQ(newRank, rank == 3 ? 0 : rank == 2 ? 1 : 2);
      int value = rank;
      ASSERT_EQ(ecclAllReduce(&value, &value, 1, ecclInt32, ecclSum, children[rank], nullptr), ecclSuccess);
      EXPECT_EQ(value, 5);
      // The parent goes on as before.
      EXPECT_EQ(ecclCommDestroy(children[rank]), ecclSuccess);
    });
  }
  for (auto& thread : threads) thread.join();
}

TEST_F(Groups, SplitInsideAGroup) {
  ecclComm_t children[kGroupRanks] = {};
  ASSERT_EQ(ecclGroupStart(), ecclSuccess);
  for (int rank = 0; rank < kGroupRanks; ++rank) {
    ASSERT_EQ(ecclCommSplit(comms_[rank], rank % 2, rank, &children[rank], nullptr), ecclSuccess);
  }
  ASSERT_EQ(ecclGroupEnd(), ecclSuccess) << ecclGetLastError(nullptr);
  for (auto& child : children) {
    int count = 0;
    ASSERT_EQ(ecclCommCount(child, &count), ecclSuccess);
    EXPECT_EQ(count, 2);
    EXPECT_EQ(ecclCommDestroy(child), ecclSuccess);
  }
}

// Any thread may make any call: which Send of two threads comes first is theirs to settle, not for the peer to
// doubt.
TEST(SeveralThreads, SendToOnePeer) {
  setenv("ECCL_DEBUG", "NONE", 1);
  constexpr int kSends = kSanitized ? 1000 : 20000;
  ecclComm_t comms[2];
  ASSERT_EQ(ecclCommInitAll(comms, 2, nullptr), ecclSuccess);
  std::atomic<bool> failed{false};
  const auto times = [&](int number, const std::function<ecclResult_t()>& call) {
    for (int i = 0; i < number && !failed; ++i) {
      if (call() == ecclSuccess) continue;
      if (!failed.exchange(true)) ADD_FAILURE() << ecclGetLastError(nullptr);
      for (ecclComm_t comm : comms) ecclCommAbort(comm);
    }
  };
  const auto send = [&](int64_t& x, ecclStream_t stream) {
    return ecclSend(&x, 1, ecclInt64, 1, comms[0], stream);
  };
  std::thread blocking([&] {
    int64_t x = 1;
    times(kSends, [&] { return send(x, nullptr); });
  });
  std::thread queueing([&] {
    int64_t x = 2;
    ecclStream_t stream;
    ecclStreamCreate(&stream);
    times(kSends, [&] { return send(x, stream); });
    ecclStreamDestroy(stream);
  });
  std::thread grouping([&] {
    int64_t x = 3, y = 3;
    times(kSends, [&] {
      ecclGroupStart();
      send(x, nullptr);
      send(y, nullptr);
      return ecclGroupEnd();
    });
  });
  int64_t sum = 0;
  std::thread receiving([&] {
    int64_t x = 0;
    times(4 * kSends, [&] {
      const ecclResult_t result = ecclRecv(&x, 1, ecclInt64, 0, comms[1], nullptr);
      sum += x;
      return result;
    });
  });
  for (std::thread* each : {&blocking, &queueing, &grouping, &receiving}) each->join();
  if (failed) return;
  EXPECT_EQ(sum, int64_t{kSends} * (1 + 2 + 3 + 3));
  for (ecclComm_t comm : comms) EXPECT_EQ(ecclCommDestroy(comm), ecclSuccess);
}

// The group waits for one of them after the other: to abort one does not wait for the rest.
TEST(GroupsOfTwo, EachCommunicatorCanBeAborted) {
  setenv("ECCL_DEBUG", "NONE", 1);
  for (const bool reversed : {false, true}) {
    ecclComm_t first[2], second[2];
    ASSERT_EQ(ecclCommInitAll(first, 2, nullptr), ecclSuccess);
    ASSERT_EQ(ecclCommInitAll(second, 2, nullptr), ecclSuccess);
    std::thread caller([&] {
      float x = 1;
      ecclGroupStart();
      EXPECT_EQ(ecclAllReduce(&x, &x, 1, ecclFloat, ecclSum, first[0], nullptr), ecclSuccess);
      EXPECT_EQ(ecclAllReduce(&x, &x, 1, ecclFloat, ecclSum, second[0], nullptr), ecclSuccess);
      EXPECT_NE(ecclGroupEnd(), ecclSuccess);
    });
    usleep(200'000);
    const double began = test::now();
    EXPECT_EQ(ecclCommAbort(reversed ? second[0] : first[0]), ecclSuccess);
    EXPECT_EQ(ecclCommAbort(reversed ? first[0] : second[0]), ecclSuccess);
    EXPECT_LT(test::now() - began, 5);
    caller.join();
    for (ecclComm_t comm : {first[1], second[1]}) EXPECT_EQ(ecclCommAbort(comm), ecclSuccess);
  }
}

TEST(NonBlocking, InitReturnsAtOnceAndIsPolled) {
  auto outcomes = test::runProcesses(2, [](int rank, test::Board& board, std::string& report) {
    ecclConfig_t config = ECCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    if (rank == 0) {
      if (ecclGetUniqueId(&board.id) != ecclSuccess) return 2;
      board.idReady = 1;
    }
    while (board.idReady == 0) usleep(1000);
    if (rank == 1) usleep(300000);
    ecclComm_t comm = nullptr;
    double began = test::now();
    if (ecclCommInitRankConfig(&comm, 2, board.id, rank, &config) != ecclInProgress) return 3;
    if (test::now() - began > 0.2) return 4;
    float x = 1;
    if (rank == 0 && ecclAllReduce(&x, &x, 1, ecclFloat, ecclSum, comm, nullptr) != ecclInvalidUsage) return 5;
    ecclResult_t state = ecclInProgress;
    for (int i = 0; i < 20000 && state == ecclInProgress; ++i) {
      usleep(1000);
      if (ecclCommGetAsyncError(comm, &state) != ecclSuccess) return 6;
    }
    if (state != ecclSuccess) {
      report += ecclGetLastError(comm);
      return 7;
    }
    if (ecclAllReduce(&x, &x, 1, ecclFloat, ecclSum, comm, nullptr) != ecclSuccess) return 8;
    if (ecclStreamSynchronize(nullptr) != ecclSuccess || x != 2) return 9;
    if (ecclCommFinalize(comm) != ecclInProgress) return 10;
    do {
      usleep(1000);
      ecclCommGetAsyncError(comm, &state);
    } while (state == ecclInProgress);
    if (state != ecclSuccess) return 11;
    return ecclCommDestroy(comm) == ecclSuccess ? 0 : 12;
  });
  for (const test::Outcome& outcome : outcomes) {
    EXPECT_TRUE(outcome.ended);
    EXPECT_EQ(outcome.code, 0) << outcome.text;
  }
}

// A forked child has the calls of its parent's default stream in memory, and may neither wait for them nor make
// them.
TEST(NonBlocking, AForkedChildLeavesTheDefaultStreamAlone) {
  auto outcomes = test::runProcesses(2, [](int rank, test::Board& board, std::string& report) {
    setenv("ECCL_DEBUG", "NONE", 1);
    ecclConfig_t config = ECCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    if (rank == 0) board.idReady = ecclGetUniqueId(&board.id) == ecclSuccess ? 1 : -1;
    while (board.idReady == 0) usleep(1000);
    ecclComm_t comm = nullptr;
    ecclResult_t state = ecclCommInitRankConfig(&comm, 2, board.id, rank, &config);
    for (; state == ecclInProgress; usleep(1000)) ecclCommGetAsyncError(comm, &state);
    if (state != ecclSuccess) return 2;
    float x = static_cast<float>(rank);
    if (rank == 1) {
      if (ecclRecv(&x, 1, ecclFloat, 0, comm, nullptr) != ecclSuccess) return 3;
      const pid_t child = fork();
      if (child == 0) {
        alarm(20);
        const bool refused = ecclStreamSynchronize(nullptr) == ecclInvalidUsage;
        _exit(refused ? 0 : 1);
      }
      int status = -1;
      if (waitpid(child, &status, 0) != child || status != 0) {
        report += "the child ended with status " + std::to_string(status);
        board.meet(0, 2);
        return 4;
      }
    }
    board.meet(0, 2);
    if (rank == 0 && ecclSend(&x, 1, ecclFloat, 1, comm, nullptr) != ecclSuccess) return 5;
    if (ecclStreamSynchronize(nullptr) != ecclSuccess || x != 0) return 6;
    return ecclCommDestroy(comm) == ecclSuccess ? 0 : 7;
  });
  for (const test::Outcome& outcome : outcomes) {
    EXPECT_TRUE(outcome.ended);
    EXPECT_EQ(outcome.code, 0) << outcome.text;
  }
}

TEST(ByAddress, HostAndPortWithASecret) {
  // Below those that the kernel gives to whoever asks for any.
  std::string port = std::to_string(10000 + getpid() % 20000);
  auto outcomes = test::runProcesses(3, [=](int rank, test::Board&, std::string& report) {
    setenv("ECCL_COMM_ID", ("127.0.0.1:" + port).c_str(), 1);
    setenv("ECCL_COMM_SECRET", "00112233445566778899aabbccddeeff", 1);
    setenv("ECCL_DEBUG", "NONE", 1);
    ecclUniqueId id;
    ecclComm_t comm;
    if (ecclGetUniqueId(&id) != ecclSuccess || ecclCommInitRank(&comm, 3, id, rank) != ecclSuccess) {
      report += ecclGetLastError(nullptr);
      return 2;
    }
    int value = 1;
    if (ecclAllReduce(&value, &value, 1, ecclInt32, ecclSum, comm, nullptr) != ecclSuccess || value != 3)
      return 3;
    return ecclCommDestroy(comm) == ecclSuccess ? 0 : 4;
  });
  for (const test::Outcome& outcome : outcomes) EXPECT_EQ(outcome.code, 0) << outcome.text;
}

}  // namespace
}  // namespace eccl::runtime
