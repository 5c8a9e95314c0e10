// Handles of every kind, in every state, from many threads at once.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <random>
#include <thread>
#include <vector>

#include "eccl/eccl.h"
#include "runtime/api/handle_table.h"
#include "support/processes.h"
#include "support/sanitizers.h"

namespace eccl::runtime {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

// Tables are static: they give nothing back.
TEST(HandleTable, FindsWhatLivesAndTellsWhatEndedFromWhatNeverWas) {
  static std::mutex mutex;
  static HandleTable<int> table(HandleKind::stream, mutex);
  std::vector<void*> handles;
  for (int i = 0; i < 1000; ++i) handles.push_back(table.add(std::make_shared<int>(i)));
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(*table.find(handles[static_cast<size_t>(i)]), i);
  void* const gone = handles[500];
  EXPECT_TRUE(table.take(gone));
  EXPECT_FALSE(table.find(gone));
  EXPECT_FALSE(table.take(gone));
  EXPECT_TRUE(table.existed(gone));
  void* const next = table.add(std::make_shared<int>(7));  // in the same place
  EXPECT_NE(next, gone);
  EXPECT_EQ(*table.find(next), 7);
  EXPECT_FALSE(table.find(gone));
  EXPECT_TRUE(table.existed(gone));
  int local = 0;
  static HandleTable<int> others(HandleKind::communicator, mutex);
  void* const another = others.add(std::make_shared<int>(1));
  for (const void* stranger :
       {static_cast<const void*>(nullptr), reinterpret_cast<const void*>(1), reinterpret_cast<const void*>(2),
        static_cast<const void*>(&local), reinterpret_cast<const void*>(~uintptr_t{0}),
        static_cast<const void*>(another)}) {
    EXPECT_FALSE(table.find(stranger)) << stranger;
    EXPECT_FALSE(table.existed(stranger)) << stranger;
  }
}

TEST(HandleTable, TheObjectEndsWithItsLastUser) {
  static std::mutex mutex;
  static HandleTable<int> table(HandleKind::stream, mutex);
  auto object = std::make_shared<int>(1);
  const std::weak_ptr<int> watch = object;
  void* const handle = table.add(std::move(object));
  auto user = table.find(handle);
  auto more = user.again();
  std::atomic<bool> alone{false};
  std::thread taker([&] {
    auto mine = table.take(handle);
    mine.awaitOthers();
    alone = true;
  });
  while (table.find(handle)) usleep(100);
  user = {};
  usleep(20'000);
  EXPECT_FALSE(alone);
  EXPECT_FALSE(watch.expired());
  more = {};
  taker.join();
  EXPECT_TRUE(watch.expired());
}

class Handles : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { setenv("ECCL_DEBUG", "NONE", 1); }
  static ecclComm_t single() {
    ecclComm_t comm = nullptr;
    EXPECT_EQ(ecclCommInitAll(&comm, 1, nullptr), ecclSuccess) << ecclGetLastError(nullptr);
    return comm;
  }
};

// What CUDA programs pass as streams, and whatever else is no handle.
TEST_F(Handles, StrangersAreRefused) {
  ecclComm_t comm = single();
  ecclStream_t stream;
  ASSERT_EQ(ecclStreamCreate(&stream), ecclSuccess);
  float x = 1;
  int n;
  int local[8] = {};
  for (uintptr_t value : {uintptr_t{1}, uintptr_t{2}, uintptr_t{3}, reinterpret_cast<uintptr_t>(local),
                          ~uintptr_t{0}, uintptr_t{0xdeadbeef}}) {
    const auto wrongStream = reinterpret_cast<ecclStream_t>(value);
    EXPECT_EQ(ecclAllReduce(&x, &x, 1, ecclFloat, ecclSum, comm, wrongStream), ecclInvalidArgument);
    EXPECT_THAT(ecclGetLastError(nullptr), HasSubstr("not a host stream"));
    EXPECT_EQ(ecclStreamSynchronize(wrongStream), ecclInvalidArgument);
    EXPECT_EQ(ecclStreamQuery(wrongStream), ecclInvalidArgument);
    EXPECT_EQ(ecclStreamDestroy(wrongStream), ecclInvalidArgument);
    const auto wrongComm = reinterpret_cast<ecclComm_t>(value);
    EXPECT_EQ(ecclCommCount(wrongComm, &n), ecclInvalidArgument);
    EXPECT_THAT(ecclGetLastError(nullptr), HasSubstr("not a communicator"));
    EXPECT_EQ(ecclCommAbort(wrongComm), ecclInvalidArgument);
    EXPECT_EQ(ecclCommDestroy(wrongComm), ecclInvalidArgument);
    EXPECT_EQ(ecclCommDeregister(comm, reinterpret_cast<void*>(value)), ecclInvalidArgument);
    EXPECT_STRNE(ecclGetLastError(wrongComm), "");
  }
  EXPECT_EQ(ecclCommCount(reinterpret_cast<ecclComm_t>(stream), &n), ecclInvalidArgument);
  EXPECT_EQ(ecclStreamQuery(reinterpret_cast<ecclStream_t>(comm)), ecclInvalidArgument);
  EXPECT_EQ(ecclStreamDestroy(stream), ecclSuccess);
  EXPECT_EQ(ecclStreamDestroy(stream), ecclInvalidArgument);
  EXPECT_THAT(ecclGetLastError(nullptr), HasSubstr("has been destroyed"));
  EXPECT_EQ(ecclCommDestroy(comm), ecclSuccess);
  EXPECT_EQ(ecclCommDestroy(comm), ecclInvalidArgument);
  EXPECT_THAT(ecclGetLastError(nullptr), HasSubstr("has been destroyed or aborted"));
}

TEST_F(Handles, ARegistrationBelongsToItsCommunicatorAndEndsWithIt) {
  ecclComm_t one = single(), two = single();
  std::vector<float> data(100);
  void *first = nullptr, *second = nullptr;
  ASSERT_EQ(ecclCommRegister(one, data.data(), 400, &first), ecclSuccess);
  ASSERT_EQ(ecclCommRegister(two, data.data(), 400, &second), ecclSuccess);
  EXPECT_EQ(ecclCommDeregister(two, first), ecclInvalidArgument);
  EXPECT_EQ(ecclCommDeregister(one, first), ecclSuccess);
  EXPECT_EQ(ecclCommDeregister(one, first), ecclInvalidArgument);
  EXPECT_EQ(ecclCommDestroy(two), ecclSuccess);
  EXPECT_EQ(ecclCommDeregister(one, second), ecclInvalidArgument);
  EXPECT_EQ(ecclCommDestroy(one), ecclSuccess);
}

TEST_F(Handles, AnOperatorIsNeverAnotherOne) {
  ecclComm_t comm = single();
  float factor = 3;
  ecclRedOp_t first, second;
  ASSERT_EQ(ecclRedOpCreatePreMulSum(&first, &factor, ecclFloat, ecclScalarHostImmediate, comm), ecclSuccess);
  ASSERT_EQ(ecclRedOpDestroy(first, comm), ecclSuccess);
  ASSERT_EQ(ecclRedOpCreatePreMulSum(&second, &factor, ecclFloat, ecclScalarHostImmediate, comm), ecclSuccess);
  float x = 2;
  EXPECT_EQ(ecclAllReduce(&x, &x, 1, ecclFloat, first, comm, nullptr), ecclInvalidArgument);
  EXPECT_EQ(ecclAllReduce(&x, &x, 1, ecclFloat, second, comm, nullptr), ecclSuccess);
  EXPECT_EQ(x, 6);
  EXPECT_EQ(ecclCommDestroy(comm), ecclSuccess);
}

// The pair that a watchdog makes: one thread polls, another aborts.
TEST_F(Handles, AskingAndAborting) {
  for (int round = 0; round < (kSanitized ? 30 : 150); ++round) {
    ecclComm_t comm = single();
    std::atomic<bool> over{false};
    std::vector<std::thread> askers;
    for (int i = 0; i < 2; ++i) {
      askers.emplace_back([&] {
        while (!over) {
          ecclResult_t state;
          int rank;
          if (ecclCommGetAsyncError(comm, &state) != ecclSuccess) return;  // it is gone
          EXPECT_THAT(state, AnyOf(ecclSuccess, ecclRemoteError));
          ecclCommUserRank(comm, &rank);
          ecclGetLastError(comm);
        }
      });
    }
    usleep(static_cast<useconds_t>(round % 5) * 100);
    EXPECT_EQ(ecclCommAbort(comm), ecclSuccess);
    EXPECT_EQ(ecclCommAbort(comm), ecclInvalidArgument);
    over = true;
    for (auto& thread : askers) thread.join();
  }
}

// Two ranks; one is aborted while its thread waits in a call, and while others ask it all there is to ask.
TEST_F(Handles, AbortEndsCallsOfOtherThreads) {
  for (int round = 0; round < (kSanitized ? 5 : 20); ++round) {
    ecclComm_t comms[2];
    ASSERT_EQ(ecclCommInitAll(comms, 2, nullptr), ecclSuccess);
    ecclStream_t stream;
    ASSERT_EQ(ecclStreamCreate(&stream), ecclSuccess);
    std::vector<float> data(1000), more(1000);
    std::thread waiter([&] {
      const ecclResult_t result =
          ecclAllReduce(data.data(), data.data(), data.size(), ecclFloat, ecclSum, comms[0], nullptr);
      EXPECT_THAT(result, AnyOf(ecclRemoteError, ecclInvalidArgument));  // it may come after the abort
    });
    std::thread queuer([&] {
      ecclRecv(more.data(), more.size(), ecclFloat, 1, comms[0], stream);
      ecclStreamSynchronize(stream);
    });
    std::thread splitter([&] {
      ecclComm_t child = nullptr;
      EXPECT_NE(ecclCommSplit(comms[0], 0, 0, &child, nullptr), ecclSuccess);
      EXPECT_EQ(child, nullptr);
    });
    usleep(static_cast<useconds_t>(round) * 500);
    const double began = test::now();
    EXPECT_EQ(ecclCommAbort(comms[0]), ecclSuccess);
    EXPECT_LT(test::now() - began, kSanitized ? 10 : 2);
    waiter.join();
    queuer.join();
    splitter.join();
    ecclStreamDestroy(stream);
    ecclCommAbort(comms[1]);
  }
}

TEST_F(Handles, AbortEndsAnInitThatIsUnderWay) {
  ecclUniqueId id;
  ASSERT_EQ(ecclGetUniqueId(&id), ecclSuccess);
  ecclConfig_t config = ECCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ecclComm_t comm = nullptr;
  ASSERT_EQ(ecclCommInitRankConfig(&comm, 2, id, 0, &config), ecclInProgress);  // the other rank never comes
  usleep(50'000);
  const double began = test::now();
  EXPECT_EQ(ecclCommAbort(comm), ecclSuccess);
  EXPECT_LT(test::now() - began, 10);
}

// Anything from any thread: communicators of one rank, streams, operators and registrations are made, used and
// ended at random. Nothing is expected but that each call returns.
TEST_F(Handles, Storm) {
  constexpr int kThreads = 4, kEach = 4;
  const int calls = kSanitized ? 300 : 3000;
  std::atomic<ecclComm_t> comms[kEach];
  std::atomic<ecclStream_t> streams[kEach];
  std::atomic<void*> registrations[kEach];
  for (int i = 0; i < kEach; ++i) {
    comms[i] = single();
    ecclStream_t stream;
    ASSERT_EQ(ecclStreamCreate(&stream), ecclSuccess);
    streams[i] = stream;
    registrations[i] = nullptr;
  }
  // Queued calls use them until their communicators have ended, which other threads may do.
  const std::vector<float> data(256);
  std::vector<std::vector<float>> outs(static_cast<size_t>(kThreads * calls), std::vector<float>(256));
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      std::minstd_rand random(static_cast<unsigned>(t) + 1);
      for (int i = 0; i < calls; ++i) {
        auto& out = outs[static_cast<size_t>(t * calls + i)];
        auto& comm = comms[random() % kEach];
        auto& stream = streams[random() % kEach];
        auto& registration = registrations[random() % kEach];
        ecclRedOp_t op = static_cast<ecclRedOp_t>(ecclNumOps + random() % 3);
        ecclResult_t state;
        void* handle = nullptr;
        float factor = 2;
        switch (random() % 16) {
          case 0:
            ecclCommGetAsyncError(comm, &state);
            break;
          case 1:
            ecclAllReduce(data.data(), out.data(), 256, ecclFloat, ecclSum, comm, nullptr);
            break;
          case 2:
            ecclAllReduce(data.data(), out.data(), 256, ecclFloat, ecclSum, comm, stream);
            break;
          case 3:
            ecclAllReduce(data.data(), out.data(), 256, ecclFloat, op, comm, stream);
            break;
          case 4:
            ecclGroupStart();
            ecclSend(data.data(), 256, ecclFloat, 0, comm, stream);
            ecclRecv(out.data(), 256, ecclFloat, 0, comm, stream);
            ecclGroupEnd();
            break;
          case 5:
            ecclStreamSynchronize(stream);
            break;
          case 6:
            ecclStreamQuery(stream);
            break;
          case 7:
            ecclRedOpCreatePreMulSum(&op, &factor, ecclFloat, ecclScalarHostImmediate, comm);
            break;
          case 8:
            ecclRedOpDestroy(op, comm);
            break;
          case 9:
            if (ecclCommRegister(comm, out.data(), 64, &handle) == ecclSuccess) registration = handle;
            break;
          case 10:
            ecclCommDeregister(comm, registration);
            break;
          case 11:
            ecclGetLastError(comm);
            break;
          case 12:
            if (random() % 8 == 0) {
              ecclComm_t old = comm;  // perhaps another thread's too
              random() % 2 == 0 ? ecclCommAbort(old) : ecclCommDestroy(old);
              ecclComm_t fresh = single();
              if (!comm.compare_exchange_strong(old, fresh)) ecclCommDestroy(fresh);
            }
            break;
          case 13:
            if (random() % 8 == 0) {
              ecclStream_t old = stream, fresh;
              ecclStreamDestroy(old);
              ecclStreamCreate(&fresh);
              if (!stream.compare_exchange_strong(old, fresh)) ecclStreamDestroy(fresh);
            }
            break;
          case 14:
            ecclStreamSynchronize(nullptr);
            break;
          default:
            ecclCommSynchronize(comm);
        }
      }
    });
  }
  for (auto& thread : threads) thread.join();
  for (int i = 0; i < kEach; ++i) {
    ecclStreamDestroy(streams[i]);
    ecclCommDestroy(comms[i]);
  }
}

}  // namespace
}  // namespace eccl::runtime
