#include "base/types.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "eccl/eccl.h"

namespace eccl {
namespace {

// The internal values are the API's, so that a call converts nothing.
static_assert(static_cast<int>(DataType::int8) == ecclInt8 && static_cast<int>(DataType::uint8) == ecclUint8);
static_assert(static_cast<int>(DataType::int32) == ecclInt32 &&
              static_cast<int>(DataType::uint32) == ecclUint32);
static_assert(static_cast<int>(DataType::int64) == ecclInt64 &&
              static_cast<int>(DataType::uint64) == ecclUint64);
static_assert(static_cast<int>(DataType::float16) == ecclFloat16 &&
              static_cast<int>(DataType::float32) == ecclFloat32);
static_assert(static_cast<int>(DataType::float64) == ecclFloat64);
static_assert(static_cast<int>(DataType::bfloat16) == ecclBfloat16);
static_assert(static_cast<int>(DataType::float8e4m3) == ecclFloat8e4m3);
static_assert(static_cast<int>(DataType::float8e5m2) == ecclFloat8e5m2 && kDataTypes == ecclNumTypes);
static_assert(static_cast<int>(RedOp::sum) == ecclSum && static_cast<int>(RedOp::prod) == ecclProd);
static_assert(static_cast<int>(RedOp::max) == ecclMax && static_cast<int>(RedOp::min) == ecclMin);
static_assert(static_cast<int>(RedOp::avg) == ecclAvg && static_cast<int>(RedOp::preMulSum) == ecclNumOps);

// NCCL's layout and values, which a later NCCL-compatible library hands through unchanged.
static_assert(sizeof(ecclConfig_t) == 96 && offsetof(ecclConfig_t, magic) == 8);
static_assert(offsetof(ecclConfig_t, version) == 12 && offsetof(ecclConfig_t, blocking) == 16);
static_assert(offsetof(ecclConfig_t, cgaClusterSize) == 20 && offsetof(ecclConfig_t, minCTAs) == 24);
static_assert(offsetof(ecclConfig_t, maxCTAs) == 28 && offsetof(ecclConfig_t, netName) == 32);
static_assert(offsetof(ecclConfig_t, splitShare) == 40 && offsetof(ecclConfig_t, trafficClass) == 44);
static_assert(offsetof(ecclConfig_t, commName) == 48 && offsetof(ecclConfig_t, collnetEnable) == 56);
static_assert(offsetof(ecclConfig_t, CTAPolicy) == 60 && offsetof(ecclConfig_t, shrinkShare) == 64);
static_assert(offsetof(ecclConfig_t, nvlsCTAs) == 68 && offsetof(ecclConfig_t, nChannelsPerNetPeer) == 72);
static_assert(offsetof(ecclConfig_t, nvlinkCentricSched) == 76 && offsetof(ecclConfig_t, graphUsageMode) == 80);
static_assert(offsetof(ecclConfig_t, numRmaCtx) == 84 && offsetof(ecclConfig_t, maxP2pPeers) == 88);
static_assert(offsetof(ecclConfig_t, graphStreamOrdering) == 92);
static_assert(sizeof(ecclUniqueId) == 128);

template <class Enum>
std::set<std::string> namesOf(int count) {
  std::set<std::string> names;
  for (int i = 0; i < count; ++i) names.insert(nameOf(static_cast<Enum>(i)));
  return names;
}

TEST(Types, EveryValueHasANameOfItsOwn) {
  EXPECT_EQ(namesOf<DataType>(kDataTypes).size(), size_t{kDataTypes});
  EXPECT_EQ(namesOf<RedOp>(kRedOps).size(), size_t{kRedOps});
  EXPECT_EQ(namesOf<Collective>(kCollectives).size(), size_t{kCollectives});
}

TEST(Types, SizesAndKindsAreThoseOfTheirNames) {
  EXPECT_EQ(sizeOf(DataType::int8), 1U);
  EXPECT_EQ(sizeOf(DataType::uint64), 8U);
  EXPECT_EQ(sizeOf(DataType::float16), 2U);
  EXPECT_EQ(sizeOf(DataType::float64), 8U);
  EXPECT_EQ(sizeOf(DataType::bfloat16), 2U);
  EXPECT_EQ(sizeOf(DataType::float8e5m2), 1U);
  EXPECT_STREQ(nameOf(DataType::float16), "half");
  EXPECT_STREQ(nameOf(DataType::float8e4m3), "f8e4m3");
  EXPECT_FALSE(isFloating(DataType::uint64));
  EXPECT_TRUE(isFloating(DataType::float16));
  EXPECT_TRUE(isSigned(DataType::int64));
  EXPECT_FALSE(isSigned(DataType::uint8));
}

TEST(Types, CollectivesKnowWhatTheyTake) {
  EXPECT_TRUE(reduces(Collective::reduceScatterv));
  EXPECT_FALSE(reduces(Collective::allGather));
  EXPECT_TRUE(hasRoot(Collective::reduce));
  EXPECT_FALSE(hasRoot(Collective::allReduce));
  EXPECT_STREQ(nameOf(Collective::allToAllv), "AlltoAllv");
  EXPECT_STREQ(nameOf(Collective::receive), "Recv");
}

}  // namespace
}  // namespace eccl
