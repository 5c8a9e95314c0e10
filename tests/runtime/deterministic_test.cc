// ECCL_DETERMINISTIC: results do not depend on where ranks are.

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <vector>

#include "support/processes.h"

namespace eccl::runtime {
namespace {

constexpr int kRanksOfSums = 4;
constexpr size_t kCounts[] = {3, 1000, 100000, 600000};

/// Numbers whose sum depends on the order.
std::vector<float> contribution(int rank, size_t count) {
  std::vector<float> values(count);
  unsigned state = 77 + static_cast<unsigned>(rank);
  for (float& value : values) {
    state = state * 1664525u + 1013904223u;
    value = static_cast<float>(state >> 8) * (state & 64 ? 1e-3f : 1e3f);
  }
  return values;
}

/// One hash over all sums, the same on all ranks; empty if this machine does not let a test play two hosts.
std::string sums(bool deterministic, bool twoHosts) {
  auto outcomes = test::runProcesses(kRanksOfSums, [&](int rank, test::Board& board, std::string& report) {
    setenv("ECCL_DETERMINISTIC", deterministic ? "1" : "0", 1);
    // All try, so that nobody waits for those who may not.
    if (twoHosts &&
        (unshare(CLONE_NEWUTS) != 0 || sethostname(rank < kRanksOfSums / 2 ? "one" : "two", 3) != 0))
      return 77;
    ecclComm_t comm = test::join(rank, kRanksOfSums, board, report);
    if (comm == nullptr) return 2;
    uint64_t hash = 14695981039346656037ull;
    for (size_t count : kCounts) {
      std::vector<float> in = contribution(rank, count), out(count);
      for (auto call : {0, 1}) {
        ecclResult_t result =
            call == 0 ? ecclAllReduce(in.data(), out.data(), count, ecclFloat, ecclSum, comm, nullptr)
                      : ecclReduce(in.data(), out.data(), count, ecclFloat, ecclSum, 0, comm, nullptr);
        if (result != ecclSuccess) return 3;
        if (call == 1 && rank != 0) continue;
        for (float value : out) {
          uint32_t bits;
          std::memcpy(&bits, &value, sizeof bits);
          hash = (hash ^ bits) * 1099511628211ull;
        }
      }
    }
    ecclCommDestroy(comm);
    if (rank == 0) report = std::to_string(hash);
    return 0;
  });
  if (outcomes.back().code == 77) return "";
  for (auto& outcome : outcomes) EXPECT_EQ(outcome.code, 0) << outcome.text;
  return outcomes[0].text;
}

TEST(Deterministic, TheSameBitsOnOneHostAndOnTwo) {
  const std::string two = sums(true, true);
  if (two.empty()) GTEST_SKIP() << "a host name of its own for some ranks needs CAP_SYS_ADMIN";
  EXPECT_EQ(sums(true, false), two);
  EXPECT_EQ(sums(true, false), sums(true, false));
  // Else the setting has nothing to do, and this test shows nothing.
  EXPECT_NE(sums(false, false), sums(false, true));
}

}  // namespace
}  // namespace eccl::runtime
