// What a communicator does with an executor that is not the host's: chooses it by the buffers of the call, lets
// lanes run ahead of it, and when something fails ends all its work before memory is given back.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include "eccl/eccl.h"
#include "runtime/api/process.h"
#include "support/later_executor.h"

namespace eccl::runtime {
namespace {

using ::testing::HasSubstr;

constexpr size_t kCount = 50000;

/// Three ranks, threads of this process, with an executor of one device.
class OtherExecutor : public ::testing::Test {
 protected:
  static constexpr int kRanks = 3, kSum = 1 + 2 + 3;

  void SetUp() override {
    setenv("ECCL_DEBUG", "NONE", 1);
    setenv("ECCL_SLOT_BYTES", "4096", 1);
    setenv("ECCL_ALGO", "AllReduce:ring,ReduceScatter:recursive", 1);
    for (int rank = 0; rank < kRanks; ++rank) {
      in_[rank].assign(kCount, rank + 1);
      out_[rank].assign(kCount, 0);
    }
    device_->holds = [this](const void* address) { return isTheirs(address); };
    const test::LaterDevice::Offer offer(device_);
    ASSERT_EQ(ecclCommInitAll(comms_, kRanks, nullptr), ecclSuccess) << ecclGetLastError(nullptr);
  }
  void TearDown() override {
    unsetenv("ECCL_ALGO");
    each([this](int rank) { return ecclCommDestroy(comms_[rank]); });
    EXPECT_EQ(device_->inUse, 0);
  }
  bool isTheirs(const void* address) const {
    for (int rank = 0; rank < kRanks; ++rank) {
      for (const std::vector<int>* buffer : {&in_[rank], &out_[rank]}) {
        if (address >= buffer->data() && address < buffer->data() + buffer->size()) return true;
      }
    }
    return false;
  }
  /// `call` by all ranks at once, each in a thread of its own.
  std::vector<ecclResult_t> each(const std::function<ecclResult_t(int)>& call) {
    std::vector<ecclResult_t> results(kRanks);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < kRanks; ++rank)
      threads.emplace_back([&, rank] { results[static_cast<size_t>(rank)] = call(rank); });
    for (std::thread& thread : threads) thread.join();
    return results;
  }
  ecclResult_t allReduce(int rank) {
    return ecclAllReduce(in_[rank].data(), out_[rank].data(), kCount, ecclInt32, ecclSum, comms_[rank],
                         nullptr);
  }
  void expectTold(const std::vector<ecclResult_t>& results, const char* reason) {
    for (int rank = 0; rank < kRanks; ++rank) {
      EXPECT_NE(results[static_cast<size_t>(rank)], ecclSuccess);
      EXPECT_THAT(ecclGetLastError(comms_[rank]), HasSubstr(reason));
    }
  }
  /// Nothing writes to the buffers any more: they may be given back.
  void expectUntouched() {
    for (int rank = 0; rank < kRanks; ++rank) std::fill(out_[rank].begin(), out_[rank].end(), -7);
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    for (int rank = 0; rank < kRanks; ++rank) {
      EXPECT_EQ(std::count(out_[rank].begin(), out_[rank].end(), -7), static_cast<ptrdiff_t>(kCount))
          << "a move wrote to the memory of rank " << rank << " after its call had returned";
    }
  }

  std::shared_ptr<test::LaterDevice> device_ = std::make_shared<test::LaterDevice>(1);
  std::vector<int> in_[kRanks], out_[kRanks];
  ecclComm_t comms_[kRanks] = {};
};

using ExecutorChoice = OtherExecutor;
using ExecutorFailure = OtherExecutor;

TEST_F(ExecutorChoice, LanesRunAheadOfIt) {
  device_->slow = 1;
  for (ecclResult_t result : each([this](int rank) { return allReduce(rank); })) EXPECT_EQ(result, ecclSuccess);
  for (int rank = 0; rank < kRanks; ++rank) {
    EXPECT_EQ(std::count(out_[rank].begin(), out_[rank].end(), kSum), static_cast<ptrdiff_t>(kCount));
  }
  EXPECT_GT(device_->mostInFlight, 1u);
  EXPECT_LE(device_->mostInFlight, MovesInFlight::kMax);
}

// The same call in either memory, again and again: what was prepared for the host is not used for the other.
TEST_F(ExecutorChoice, ARunIsMadeWhereItsBuffersAre) {
  std::vector<int> host[kRanks];
  for (int rank = 0; rank < kRanks; ++rank) host[rank].resize(10);
  for (int time = 0; time < 6; ++time) {
    for (const bool theirs : {false, true}) {
      const int64_t before = device_->submitted;
      const auto results = each([&](int rank) {
        int* data = theirs ? out_[rank].data() : host[rank].data();
        for (int i = 0; i < 10; ++i) data[i] = rank + 1;
        return ecclAllReduce(data, data, 10, ecclInt32, ecclSum, comms_[rank], nullptr);
      });
      for (int rank = 0; rank < kRanks; ++rank) {
        EXPECT_EQ(results[static_cast<size_t>(rank)], ecclSuccess) << ecclGetLastError(comms_[rank]);
        EXPECT_EQ(theirs ? out_[rank][9] : host[rank][9], kSum);
      }
      EXPECT_EQ(device_->submitted > before, theirs);
    }
  }
}

TEST_F(ExecutorChoice, BuffersOfTwoKindsAreRefused) {
  int host[10] = {};
  EXPECT_EQ(ecclAllReduce(in_[0].data(), host, 10, ecclInt32, ecclSum, comms_[0], nullptr),
            ecclInvalidArgument);
  EXPECT_THAT(ecclGetLastError(comms_[0]), HasSubstr("is later memory and the receive buffer"));
  EXPECT_THAT(ecclGetLastError(comms_[0]), HasSubstr("is host memory"));
  // The call has no number: the others do not wait for it.
  for (ecclResult_t result : each([this](int rank) { return allReduce(rank); })) EXPECT_EQ(result, ecclSuccess);
}

TEST_F(ExecutorFailure, ARefusedMoveIsToldToAllRanks) {
  device_->refuseAt = 7;
  expectTold(each([this](int rank) { return allReduce(rank); }), "the later device has refused a move");
  expectUntouched();
}

TEST_F(ExecutorFailure, AMoveThatFailsLaterIsToldToAllRanks) {
  device_->slow = 1;
  device_->failAt = 9;
  expectTold(each([this](int rank) { return allReduce(rank); }), "a move of the later device has failed");
  expectUntouched();
}

// Moves that never end but by being cancelled.
TEST_F(ExecutorFailure, AbortEndsMovesThatNeverBegin) {
  device_->stuck = true;
  std::thread aborter([this] {
    while (device_->submitted == 0) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    EXPECT_EQ(ecclCommAbort(comms_[1]), ecclSuccess);
  });
  const auto results = each([this](int rank) { return allReduce(rank); });
  aborter.join();
  for (ecclResult_t result : results) EXPECT_EQ(result, ecclRemoteError);
  EXPECT_THAT(ecclGetLastError(comms_[0]), HasSubstr("aborted"));
  EXPECT_EQ(device_->done, 0);
  comms_[1] = nullptr;
  for (ecclComm_t& comm : comms_) ecclCommAbort(std::exchange(comm, nullptr));
}

// A rank aborts, and so ends the others' calls, while moves of all are under way that write a moment later.
TEST_F(ExecutorFailure, NoMoveTouchesMemoryAfterAnAbort) {
  device_->slow = 60;
  std::thread aborter([this] {
    while (device_->begun < 5) std::this_thread::yield();
    EXPECT_EQ(ecclCommAbort(comms_[1]), ecclSuccess);
  });
  const auto results = each([this](int rank) { return allReduce(rank); });
  const int64_t begun = device_->begun;
  aborter.join();
  expectUntouched();
  EXPECT_EQ(device_->begun, begun) << "a move began after the calls had returned";
  for (ecclResult_t result : results) EXPECT_EQ(result, ecclRemoteError);
  comms_[1] = nullptr;
  for (ecclComm_t& comm : comms_) ecclCommAbort(std::exchange(comm, nullptr));
}

TEST_F(ExecutorFailure, WithoutScratchMemoryTheCallFails) {
  device_->allocations = 0;
  expectTold(each([this](int rank) {
               return ecclReduceScatter(in_[rank].data(), out_[rank].data(), kCount / kRanks, ecclInt32,
                                        ecclSum, comms_[rank], nullptr);
             }),
             "the later device has no memory left");
}

// The caller's stream writes the input before the call and uses the output after it, and nobody waits in
// between.
TEST_F(ExecutorChoice, ACallHasItsPlaceInTheCallersStream) {
  device_->slow = 1;
  std::vector<int> seen[kRanks];
  {
    test::LaterStream native[kRanks];
    ecclStream_t streams[kRanks];
    for (int rank = 0; rank < kRanks; ++rank) {
      const auto stream = std::make_shared<Stream>(&native[rank]);
      streams[rank] = static_cast<ecclStream_t>(Process::get().streams.add(stream));
    }
    for (int time = 1; time <= 3; ++time) {
      for (int rank = 0; rank < kRanks; ++rank) {
        native[rank].put([&in = in_[rank], rank, time] {
          std::this_thread::sleep_for(std::chrono::milliseconds(20));
          std::fill(in.begin(), in.end(), time * (rank + 1));
        });
        EXPECT_EQ(ecclAllReduce(in_[rank].data(), out_[rank].data(), kCount, ecclInt32, ecclSum, comms_[rank],
                                streams[rank]),
                  ecclSuccess);
        native[rank].put(
            [&out = out_[rank], &its = seen[rank]] { its.insert(its.end(), out.begin(), out.end()); });
      }
    }
    for (ecclStream_t stream : streams) EXPECT_EQ(ecclStreamSynchronize(stream), ecclSuccess);
    for (ecclStream_t stream : streams) EXPECT_EQ(ecclStreamDestroy(stream), ecclSuccess);
  }
  for (const std::vector<int>& its : seen) {
    ASSERT_EQ(its.size(), 3 * kCount);
    for (size_t i = 0; i < its.size(); ++i) ASSERT_EQ(its[i], kSum * static_cast<int>(i / kCount + 1));
  }
}

// A handle that means another stream in each thread.
TEST(NativeStreams, AreOthersInEachThreadIfTheirHandleIs) {
  struct Handles : test::LaterExecutor {
    using LaterExecutor::LaterExecutor;
    const void* streamOf(const void* handle) const override {
      static thread_local char own;
      return handle == this ? &own : handle;
    }
  } executor(nullptr, {});
  int other = 0;
  const auto ofThread = nativeStream(executor, &executor), ofAll = nativeStream(executor, &other);
  EXPECT_EQ(nativeStream(executor, &executor), ofThread);
  std::thread([&] {
    EXPECT_NE(nativeStream(executor, &executor), ofThread);
    EXPECT_EQ(nativeStream(executor, &other), ofAll);
  }).join();
}

// A call that fails lets the stream go on.
TEST_F(ExecutorFailure, AFailedCallLetsTheCallersStreamGoOn) {
  device_->refuseAt = 3;
  std::atomic<int> after{0};
  {
    test::LaterStream native[kRanks];
    std::vector<ecclStream_t> streams;
    for (int rank = 0; rank < kRanks; ++rank) {
      const auto stream = std::make_shared<Stream>(&native[rank]);
      streams.push_back(static_cast<ecclStream_t>(Process::get().streams.add(stream)));
      EXPECT_EQ(ecclAllReduce(in_[rank].data(), out_[rank].data(), kCount, ecclInt32, ecclSum, comms_[rank],
                              streams.back()),
                ecclSuccess);
      native[rank].put([&] { ++after; });
    }
    for (ecclStream_t stream : streams) EXPECT_NE(ecclStreamDestroy(stream), ecclSuccess);
  }
  EXPECT_EQ(after, kRanks);
}

// One rank cannot have what it needs: all are told so at once, and none waits for it.
TEST(ExecutorOfOneRank, ThatCannotBeMadeIsToldToAll) {
  setenv("ECCL_DEBUG", "NONE", 1);
  std::atomic<int> asked{0};
  addExecutorKind({"broken",
                   [&](const ExecutorContext&) -> Result<std::shared_ptr<Executor>> {
                     if (asked++ == 1) return Status::error(Code::device, "the second device is broken");
                     return std::shared_ptr<Executor>();
                   },
                   nullptr});
  constexpr int kRanks = 4;
  ecclUniqueId id;
  ASSERT_EQ(ecclGetUniqueId(&id), ecclSuccess);
  const auto begun = std::chrono::steady_clock::now();
  std::atomic<int> own{0};
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      ecclComm_t comm = nullptr;
      const ecclResult_t result = ecclCommInitRank(&comm, kRanks, id, rank);
      EXPECT_NE(result, ecclSuccess) << rank;
      EXPECT_EQ(comm, nullptr);
      EXPECT_THAT(ecclGetLastError(nullptr), HasSubstr("the second device is broken")) << rank;
      own += std::string_view(ecclGetLastError(nullptr)).find("cannot take part") == std::string_view::npos;
    });
  }
  for (std::thread& each : threads) each.join();
  removeExecutorKind("broken");
  EXPECT_EQ(own, 1) << "all others name the rank";
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(30));
}

}  // namespace
}  // namespace eccl::runtime
