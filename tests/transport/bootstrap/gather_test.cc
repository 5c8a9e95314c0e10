// Rank 0's side of allGathers, without a network.
#include <gtest/gtest.h>

#include "transport/bootstrap/gather.h"

namespace eccl::transport {
namespace {

Frame partOf(int rank, uint64_t number) {
  return {{.type = FrameType::part, .origin = rank, .sequence = number},
          "part of rank " + std::to_string(rank)};
}

// The oldest one gives way, and the one that was added last still completes.
TEST(GatherRoot, TooManyAtOnceFailTheOldest) {
  constexpr uint64_t kMany = 1025;  // one more than there may be
  constexpr Duration kLimit = std::chrono::seconds(10);
  GatherRoot root(2);
  std::vector<Frame> out;
  for (uint64_t number = 0; number < kMany; ++number) root.add(partOf(0, number), kLimit, TimePoint(), &out);
  ASSERT_EQ(out.size(), 1U);
  EXPECT_EQ(out[0].header.type, FrameType::noParts);
  EXPECT_EQ(out[0].header.sequence, 0U);
  out.clear();
  for (uint64_t number = 1; number < kMany; ++number) root.add(partOf(1, number), kLimit, TimePoint(), &out);
  ASSERT_EQ(out.size(), kMany - 1);
  for (const Frame& frame : out) EXPECT_EQ(frame.header.type, FrameType::parts) << frame.header.sequence;
}

}  // namespace
}  // namespace eccl::transport
