// What tests of captured calls have in common: a fixture.
#pragma once

#include <chrono>
#include <optional>

#include "cuda/cases.h"
#include "support/sanitizers.h"

namespace eccl::test {

/// Of communicators of each kind (askFor()). Of those that are "relayed" calls in graphs are staged.
class Graphs : public CudaTest, public ::testing::WithParamInterface<const char*> {
 protected:
  using Values = std::vector<uint64_t>;
  using Clock = std::chrono::steady_clock;
  static constexpr size_t kCount = 3000;
  static bool lanes() { return std::string_view(GetParam()) == "lanes"; }
  static Values values(uint64_t value, size_t count = kCount) { return Values(count, value); }
  static ecclResult_t sum(ecclComm_t comm, const DeviceBuffer<uint64_t>& from, const DeviceBuffer<uint64_t>& to,
                          const DeviceStream& stream, size_t count = kCount) {
    return ecclAllReduce(from.data(), to.data(), count, ecclUint64, ecclSum, comm, asStream(stream.native()));
  }
  static void expectFailed(ecclComm_t comm, const ::testing::Matcher<std::string>& why) {
    test::expectFailed(comm, why, 10);
  }
};

}  // namespace eccl::test
