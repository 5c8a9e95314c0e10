// Ranks in several processes, on CUDA communicators.
#pragma once

#include <sys/mman.h>

#include "cuda/ranks.h"
#include "support/processes.h"
#include "support/sanitizers.h"

namespace eccl::test {

/// What several processes do. Without a fixture that touches CUDA: a process that has used it cannot fork.
using Body = std::function<void(Process&)>;

/// In each process; what they expect has to come true there. `codes`: how they end, 0 if not given.
inline void inProcesses(int processes, const Body& body, const std::vector<int>& codes = {},
                        double limit = 120) {
  void* const memory =
      mmap(nullptr, sizeof(Process::Ids), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  auto* const ids = new (memory) Process::Ids;
  const auto outcomes = runProcesses(
      processes,
      [&](int number, Board&, std::string&) {
        setenv("ECCL_DEBUG", "NONE", 0);
        Process process{number, processes, ids};
        Cuda::get().use(0);
        body(process);
        if (Cuda::get().emulated()) { EXPECT_EQ(Cuda::get().control->violations, 0); }
        return ::testing::Test::HasFailure() ? 1 : 0;
      },
      limit);
  for (size_t i = 0; i < outcomes.size(); ++i) {
    const int expected = i < codes.size() ? codes[i] : 0;
    EXPECT_EQ(outcomes[i].code, expected) << "process " << i << (outcomes[i].ended ? "" : " did not end");
  }
  munmap(memory, sizeof(Process::Ids));
}

inline constexpr const char* kUnseen =
    "ThreadSanitizer does not see the order that goes by way of another process";

/// Two or more processes, whose ranks run lane kernels.
class LaneProcesses : public ::testing::Test {
 protected:
  void SetUp() override {
    if (kThreadSanitizer) GTEST_SKIP() << kUnseen;
  }
  static constexpr size_t kCount = 5000;
  static std::vector<int> numbers(int value) { return std::vector<int>(kCount, value); }
  static ecclResult_t sum(ecclComm_t comm, const DeviceBuffer<int>& data, const DeviceStream& stream) {
    return ecclAllReduce(data.data(), data.data(), kCount, ecclInt32, ecclSum, comm, asStream(stream.native()));
  }
  /// The communicator fails within `limit`, and its sentence says why.
  static void expectFailed(ecclComm_t comm, const char* why, double limit = 5) {
    test::expectFailed(comm, ::testing::HasSubstr(why), limit);
  }
  /// One of two processes dies, before its first call and after one: the other one's call names it within
  /// `limit`. Of ranks that are relayed the first call does not wait for that.
  static void oneDies(const char* kind, double limit) {
    for (const bool first : {true, false}) {
      inProcesses(2,
                  [&](Process& process) {
                    Ranks ranks(&process, 2, kind);
                    const ecclComm_t comm = ranks.comm(process.number);
                    const DeviceStream stream;
                    const DeviceBuffer<int> data(numbers(1));
                    if (!first) {
                      EXPECT_EQ(sum(comm, data, stream), ecclSuccess);
                      stream.synchronize();
                    }
                    if (process.number == 1) {
                      std::this_thread::sleep_for(std::chrono::milliseconds(300));
                      _exit(7);
                    }
                    const ecclResult_t made = sum(comm, data, stream);
                    if (std::string_view(kind) == "relayed") { EXPECT_EQ(made, ecclSuccess); }
                    if (made == ecclSuccess) expectFailed(comm, "rank 1", limit);
                    EXPECT_THAT(ecclGetLastError(comm), ::testing::HasSubstr("rank 1"));
                    stream.synchronize();
                  },
                  {0, 7});
    }
  }
};

}  // namespace eccl::test
