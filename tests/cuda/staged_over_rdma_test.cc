// What is staged goes from and to the twins in pinned memory by RDMA, without a copy on the host.
#include <dlfcn.h>

#include <cstdlib>

#include "cuda/ranks.h"

#ifdef ECCL_VERBS_EMULATION
#include "verbs_emulation/verbs_emulation.h"

namespace eccl {
namespace {

using test::asStream;
using test::DeviceBuffer;
using test::DeviceStream;

/// The emulated libibverbs, in place of the real one from now on, and settings that lead to it.
class StagedOverRdma : public ::testing::Test {
 protected:
  void SetUp() override {
    void* const library = dlopen(ECCL_VERBS_EMULATION, RTLD_NOW | RTLD_GLOBAL);
    ASSERT_NE(library, nullptr) << dlerror();
    count_ = reinterpret_cast<decltype(count_)>(dlsym(library, "verbsEmulationCounters"));
    setenv("ECCL_TRANSPORT", "verbs", 1);
    setenv("ECCL_TRANSPORT_MODULES", ECCL_VERBS_MODULE, 1);
  }
  void TearDown() override {
    for (const char* name : {"ECCL_TRANSPORT", "ECCL_TRANSPORT_MODULES", "ECCL_IB_CACHE_BYTES"}) unsetenv(name);
  }
  VerbsEmulationCounters counters() const {
    VerbsEmulationCounters now;
    count_(&now);
    return now;
  }
  /// Bytes that are registered by calls after the first ones, by which ranks are connected.
  uint64_t registeredByCalls(size_t elements) {
    test::Ranks ranks(2, "cuda");
    uint64_t before = 0, after = 0;
    ranks.each([&](int rank) {
      const DeviceStream stream;
      const DeviceBuffer<int> from(std::vector<int>(elements, rank + 1)), to(std::vector<int>(elements, 0));
      for (int call = 0; call < 4; ++call) {
        EXPECT_EQ(ecclAllReduce(from.data(), to.data(), elements, ecclInt32, ecclSum, ranks.comm(rank),
                                asStream(stream.native())),
                  ecclSuccess);
        stream.synchronize();
        ranks.meet();
        if (rank == 0) (call == 0 ? before : after) = counters().registeredBytes;
        ranks.meet();
      }
      EXPECT_EQ(to.read(), std::vector<int>(elements, 3));
    });
    return after - before;
  }

 private:
  void (*count_)(VerbsEmulationCounters*) = nullptr;
};

constexpr size_t kStagedElements = 1 << 20;

// Input and output of both ranks, each with the device of its own.
TEST_F(StagedOverRdma, MessagesGoFromTwinToTwin) {
  constexpr uint64_t kBytes = kStagedElements * sizeof(int);
  EXPECT_GE(registeredByCalls(kStagedElements), 4 * kBytes);
  EXPECT_GE(counters().largestRegionSent, kBytes) << "messages still come from slots";
  EXPECT_GE(counters().largestRegionWritten, kBytes) << "messages still go to slots";
}

TEST_F(StagedOverRdma, WhatFitsInAMessageIsCopied) {
  EXPECT_EQ(registeredByCalls(1 << 12), 0u);
}

TEST_F(StagedOverRdma, NothingIsRegisteredWhereThatIsNotWanted) {
  setenv("ECCL_IB_CACHE_BYTES", "0", 1);
  EXPECT_EQ(registeredByCalls(kStagedElements), 0u);
}

}  // namespace
}  // namespace eccl
#endif
