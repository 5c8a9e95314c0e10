// How much shared memory the messages of a process go round in, as the kernel sees it.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "support/mapped_memory.h"
#include "support/processes.h"
#include "topology/probe/host_summary.h"

namespace eccl {
namespace {

/// KiB of each of `ranks` processes after a few short calls.
std::vector<int> touchedBy(int ranks, const char* spread) {
  auto outcomes = test::runProcesses(ranks, [&](int rank, test::Board& board, std::string& report) {
    if (spread != nullptr) setenv("ECCL_SLOT_SPREAD", spread, 1);
    setenv("ECCL_TRANSPORT", "shm", 1);
    ecclComm_t comm = test::join(rank, ranks, board, report);
    if (comm == nullptr) return 1;
    std::vector<float> in(3000, 1), out(3000);
    for (int i = 0; i < 5; ++i) {
      if (ecclAllReduce(in.data(), out.data(), in.size(), ecclFloat, ecclSum, comm, nullptr) != ecclSuccess)
        return 2;
      if (out[2999] != static_cast<float>(ranks)) return 3;
    }
    report = std::to_string(test::touchedKiB("eccl-ring"));
    return ecclCommDestroy(comm) == ecclSuccess ? 0 : 4;
  });
  std::vector<int> touched;
  for (const auto& outcome : outcomes) {
    EXPECT_EQ(outcome.code, 0) << outcome.text;
    touched.push_back(std::atoi(outcome.text.c_str()));
  }
  return touched;
}

TEST(SlotSpread, IsAsTheSettingSays) {
  for (int kib : touchedBy(2, "4194304")) EXPECT_GE(kib, 4096);
  for (int kib : touchedBy(2, "0")) {
    EXPECT_GE(kib, 4);
    EXPECT_LT(kib, 512);
  }
}

// Where ranks have cores of their own: 128 KiB for the first connection that a rank sends on. Where they share
// them: nothing.
TEST(SlotSpread, IsThereForRanksWithCoresIfNotSet) {
  const int cores = topology::readHost().usableCores();
  const std::vector<int> none = touchedBy(2, "0"), usual = touchedBy(2, nullptr);
  for (size_t rank = 0; rank < usual.size(); ++rank) {
    EXPECT_GE(usual[rank], none[rank] + (cores >= 2 ? 48 : -300));
    EXPECT_LE(usual[rank], none[rank] + 300);
  }
  if (cores < 4) {
    for (int kib : touchedBy(4, nullptr)) EXPECT_LT(kib, 1024);
  }
}

}  // namespace
}  // namespace eccl
