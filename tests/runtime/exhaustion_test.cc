// No memory, no thread: calls return an error, nothing is thrown at the caller, nobody hangs.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>
#include <thread>
#include <vector>

#include "eccl/eccl.h"
#include "support/processes.h"
#include "support/sanitizers.h"

namespace {

/// Allocations until one fails: of this thread, and of all threads that the library has started.
thread_local long failAfter = -1;
std::atomic<long> libraryFailsAfter{-1};
thread_local int ofLibrary = -1;

bool fails() {
  if (failAfter >= 0 && failAfter-- == 0) return true;
  if (libraryFailsAfter.load(std::memory_order_relaxed) < 0) return false;
  if (ofLibrary < 0) {
    char name[16] = "";
    pthread_getname_np(pthread_self(), name, sizeof name);
    ofLibrary = std::strncmp(name, "eccl-", 5) == 0 ? 1 : 0;
  }
  return ofLibrary == 1 && libraryFailsAfter.fetch_sub(1) == 0;
}

}  // namespace

void* operator new(size_t size, const std::nothrow_t&) noexcept {
  return fails() ? nullptr : std::malloc(size == 0 ? 1 : size);
}
void* operator new(size_t size) {
  void* memory = operator new(size, std::nothrow);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"  // they are inlined, and then do not look like a pair
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, size_t) noexcept {
  std::free(memory);
}

namespace eccl::runtime {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

/// The k-th allocation of this thread fails during `call`, which returns a code. *failed is set if there were
/// as many.
template <class Call>
ecclResult_t failing(long k, bool* failed, Call&& call) {
  failAfter = k;
  const ecclResult_t result = call();
  *failed |= failAfter < 0;
  failAfter = -1;
  return result;
}

class Memory : public ::testing::Test {
 protected:
  void SetUp() override {
    setenv("ECCL_DEBUG", "NONE", 1);
    setenv("ECCL_INIT_TIMEOUT", "1", 1);  // seconds that ranks wait for one that failed
  }
  void TearDown() override { unsetenv("ECCL_INIT_TIMEOUT"); }
};

// Each call of a rank by itself, with each of its allocations failing in turn.
TEST_F(Memory, RunsOutInEveryCallOfARankByItself) {
  long k = 0;
  bool failed = true;
  for (; failed && !HasFailure(); ++k) {
    failed = false;
    const auto tryTo = [&](const char* what, auto&& call) {
      const ecclResult_t result = failing(k, &failed, call);
      EXPECT_THAT(result, AnyOf(ecclSuccess, ecclSystemError))
          << what << ", allocation " << k << ": " << ecclGetLastError(nullptr);
    };
    ecclComm_t comm = nullptr, child = nullptr;
    ecclStream_t stream = nullptr;
    float x = 1, y = 0;
    tryTo("StreamCreate", [&] { return ecclStreamCreate(&stream); });
    tryTo("CommInitAll", [&] { return ecclCommInitAll(&comm, 1, nullptr); });
    if (comm != nullptr) {
      const auto allReduce = [&] { return ecclAllReduce(&x, &x, 1, ecclFloat, ecclSum, comm, nullptr); };
      tryTo("AllReduce", allReduce);
      tryTo("AllReduce made anew", allReduce);
      if (stream != nullptr) {
        tryTo("AllGather", [&] { return ecclAllGather(&x, &y, 1, ecclFloat, comm, stream); });
        tryTo("StreamSynchronize", [&] { return ecclStreamSynchronize(stream); });
      }
      tryTo("GroupStart", [] { return ecclGroupStart(); });
      tryTo("Send", [&] { return ecclSend(&x, 1, ecclFloat, 0, comm, nullptr); });
      tryTo("Recv", [&] { return ecclRecv(&y, 1, ecclFloat, 0, comm, nullptr); });
      tryTo("GroupEnd", [] { return ecclGroupEnd(); });
      tryTo("CommSplit", [&] { return ecclCommSplit(comm, 0, 0, &child, nullptr); });
      ecclRedOp_t op;
      void* registration;
      tryTo("RedOpCreatePreMulSum",
            [&] { return ecclRedOpCreatePreMulSum(&op, &x, ecclFloat, ecclScalarHostImmediate, comm); });
      tryTo("CommRegister", [&] { return ecclCommRegister(comm, &x, 4, &registration); });
      if (child != nullptr) tryTo("CommDestroy of the child", [&] { return ecclCommDestroy(child); });
      tryTo("CommDestroy", [&] { return ecclCommDestroy(comm); });
    }
    if (stream != nullptr) tryTo("StreamDestroy", [&] { return ecclStreamDestroy(stream); });
  }
  EXPECT_GT(k, 50);
  // All is well again.
  ecclComm_t comm = nullptr;
  float x = 2;
  ASSERT_EQ(ecclCommInitAll(&comm, 1, nullptr), ecclSuccess) << ecclGetLastError(nullptr);
  EXPECT_EQ(ecclAllReduce(&x, &x, 1, ecclFloat, ecclSum, comm, nullptr), ecclSuccess);
  EXPECT_EQ(ecclCommDestroy(comm), ecclSuccess);
}

// One rank of two runs out of memory; it aborts, and the other is told.
TEST_F(Memory, RunsOutAtOneRankOfTwo) {
  for (long k = 0; k < 60; k += kSanitized ? 7 : 1) {
    ecclComm_t comms[2];
    ASSERT_EQ(ecclCommInitAll(comms, 2, nullptr), ecclSuccess) << ecclGetLastError(nullptr);
    std::thread other([&] {
      std::vector<float> data(50'000, 1);
      ecclResult_t result = ecclSuccess;
      for (int i = 0; i < 3 && result == ecclSuccess; ++i)
        result = ecclAllReduce(data.data(), data.data(), data.size(), ecclFloat, ecclSum, comms[1], nullptr);
      EXPECT_THAT(result, AnyOf(ecclSuccess, ecclRemoteError, ecclSystemError));
      ecclCommAbort(comms[1]);
    });
    std::vector<float> data(50'000, 1);
    for (int i = 0; i < 3; ++i) {
      bool failed = false;
      const ecclResult_t result = failing(k, &failed, [&] {
        return ecclAllReduce(data.data(), data.data(), data.size(), ecclFloat, ecclSum, comms[0], nullptr);
      });
      if (result != ecclSuccess) break;
    }
    EXPECT_EQ(ecclCommAbort(comms[0]), ecclSuccess);
    other.join();
  }
}

// In the library's own threads: the communicator fails, or goes on.
TEST_F(Memory, RunsOutInThreadsOfTheLibrary) {
  for (const long k : {0, 3, 10, 20, 35, 50, 70, 100}) {
    libraryFailsAfter = k;
    ecclComm_t comms[2] = {};
    const ecclResult_t made = ecclCommInitAll(comms, 2, nullptr);
    std::vector<std::thread> threads;
    for (ecclComm_t comm : comms) {
      if (made != ecclSuccess) continue;
      threads.emplace_back([comm] {
        std::vector<float> data(50'000, 1);
        ecclStream_t stream = nullptr;
        ASSERT_EQ(ecclStreamCreate(&stream), ecclSuccess);
        for (int i = 0; i < 5; ++i)
          ecclAllReduce(data.data(), data.data(), data.size(), ecclFloat, ecclSum, comm, stream);
        usleep(2000);  // let the service thread do some of it
        const ecclResult_t result = ecclStreamSynchronize(stream);
        EXPECT_THAT(result, AnyOf(ecclSuccess, ecclSystemError, ecclRemoteError)) << ecclGetLastError(nullptr);
        EXPECT_EQ(ecclStreamDestroy(stream), ecclSuccess);
        ecclCommAbort(comm);
      });
    }
    for (auto& thread : threads) thread.join();
    libraryFailsAfter = -1;
    for (ecclComm_t comm : comms) {
      if (made != ecclSuccess && comm != nullptr) ecclCommAbort(comm);
    }
  }
}

// At the limit on threads, which does not hold for root: the process becomes somebody else.
TEST(Threads, RunOut) {
  if (kSanitized) GTEST_SKIP() << "sanitizers start threads of their own";
  auto outcomes = test::runProcesses(1, [](int, test::Board&, std::string& report) {
    setenv("ECCL_DEBUG", "NONE", 1);
    setenv("HOME", "/", 1);  // settings there are not root's
    ecclComm_t before = nullptr;
    if (ecclCommInitAll(&before, 1, nullptr) != ecclSuccess) return 2;
    if (geteuid() == 0 && setuid(65534) != 0) return 77;
    const rlimit none{1, 1};
    if (setrlimit(RLIMIT_NPROC, &none) != 0) return 77;
    bool starts = true;
    try {
      std::thread([] {}).join();
    } catch (const std::system_error&) { starts = false; }
    if (starts) return 77;
    ecclUniqueId id;
    ecclComm_t comm = nullptr, children[3] = {};
    if (ecclGetUniqueId(&id) != ecclSystemError) return 3;
    report += ecclGetLastError(nullptr);
    if (ecclCommInitAll(&comm, 1, nullptr) != ecclSystemError || comm != nullptr) return 4;
    ecclConfig_t config = ECCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    if (ecclCommSplit(before, 0, 0, &children[0], &config) != ecclSystemError || children[0] != nullptr)
      return 5;
    ecclGroupStart();
    for (auto& child : children) ecclCommSplit(before, 0, 0, &child, nullptr);
    if (ecclGroupEnd() != ecclSystemError) return 6;
    float x = 1;
    if (ecclAllReduce(&x, &x, 1, ecclFloat, ecclSum, before, nullptr) != ecclSuccess) return 7;
    return ecclCommDestroy(before) == ecclSuccess ? 0 : 8;
  });
  if (outcomes[0].code == 77) GTEST_SKIP() << "the number of threads cannot be limited here";
  EXPECT_TRUE(outcomes[0].ended);
  EXPECT_EQ(outcomes[0].code, 0) << outcomes[0].text;
  EXPECT_THAT(outcomes[0].text, HasSubstr("ulimit -u"));
}

}  // namespace
}  // namespace eccl::runtime
