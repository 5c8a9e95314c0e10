// Bad arguments and calls in the wrong state: a code, and a sentence that says what was wrong and what to do.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>
#include <limits>
#include <thread>
#include <vector>

#include "eccl/eccl.h"

namespace eccl::runtime {
namespace {

using ::testing::HasSubstr;

#define EXPECT_REFUSED(call, code, words)                     \
  do {                                                        \
    EXPECT_EQ(call, code);                                    \
    EXPECT_THAT(ecclGetLastError(nullptr), HasSubstr(words)); \
  } while (0)

class Arguments : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { setenv("ECCL_DEBUG", "NONE", 1); }
  void SetUp() override {
    ASSERT_EQ(ecclCommInitAll(&comm_, 1, nullptr), ecclSuccess) << ecclGetLastError(nullptr);
  }
  void TearDown() override {
    if (comm_ != nullptr) { EXPECT_EQ(ecclCommDestroy(comm_), ecclSuccess); }
  }
  ecclComm_t comm_ = nullptr;
  float data_[16] = {};
};

TEST_F(Arguments, NullPointers) {
  EXPECT_REFUSED(ecclGetVersion(nullptr), ecclInvalidArgument, "version is NULL");
  EXPECT_REFUSED(ecclGetUniqueId(nullptr), ecclInvalidArgument, "id is NULL");
  EXPECT_REFUSED(ecclCommInitRank(nullptr, 1, ecclUniqueId{}, 0), ecclInvalidArgument, "comm is NULL");
  EXPECT_REFUSED(ecclCommInitAll(nullptr, 1, nullptr), ecclInvalidArgument, "comms is NULL");
  EXPECT_REFUSED(ecclCommCount(comm_, nullptr), ecclInvalidArgument, "count is NULL");
  EXPECT_REFUSED(ecclCommCount(nullptr, nullptr), ecclInvalidArgument, "comm is NULL");
  EXPECT_REFUSED(ecclCommUserRank(comm_, nullptr), ecclInvalidArgument, "rank is NULL");
  EXPECT_REFUSED(ecclCommCuDevice(comm_, nullptr), ecclInvalidArgument, "device is NULL");
  int device = 0;
  EXPECT_EQ(ecclCommCuDevice(comm_, &device), ecclSuccess);
  EXPECT_EQ(device, -1);
  EXPECT_REFUSED(ecclCommDestroy(nullptr), ecclInvalidArgument, "comm is NULL");
  EXPECT_REFUSED(ecclCommGetAsyncError(comm_, nullptr), ecclInvalidArgument, "asyncError is NULL");
  EXPECT_REFUSED(ecclCommSplit(comm_, 0, 0, nullptr, nullptr), ecclInvalidArgument, "newcomm is NULL");
  EXPECT_REFUSED(ecclAllReduce(nullptr, data_, 4, ecclFloat, ecclSum, comm_, nullptr), ecclInvalidArgument,
                 "AllReduce: sendbuff is NULL on rank 0");
  EXPECT_REFUSED(ecclAllReduce(data_, nullptr, 4, ecclFloat, ecclSum, comm_, nullptr), ecclInvalidArgument,
                 "AllReduce: recvbuff is NULL on rank 0");
  EXPECT_REFUSED(ecclAlltoAllv(data_, nullptr, nullptr, data_, nullptr, nullptr, ecclFloat, comm_, nullptr),
                 ecclInvalidArgument, "sendcounts is NULL");
  EXPECT_REFUSED(ecclStreamCreate(nullptr), ecclInvalidArgument, "stream is NULL");
  EXPECT_REFUSED(ecclStreamDestroy(nullptr), ecclInvalidArgument, "NULL stream");
  EXPECT_REFUSED(ecclMemAlloc(nullptr, 1), ecclInvalidArgument, "ptr is NULL");
  EXPECT_REFUSED(ecclCommRegister(comm_, nullptr, 1, nullptr), ecclInvalidArgument, "buff");
  // Nothing to move needs no memory.
  EXPECT_EQ(ecclAllReduce(nullptr, nullptr, 0, ecclFloat, ecclSum, comm_, nullptr), ecclSuccess);
}

TEST_F(Arguments, RangesOfNumbers) {
  EXPECT_REFUSED(ecclAllReduce(data_, data_, static_cast<size_t>(-1), ecclFloat, ecclSum, comm_, nullptr),
                 ecclInvalidArgument, "negative");
  EXPECT_REFUSED(ecclAllReduce(data_, data_, static_cast<size_t>(-5), ecclInt8, ecclSum, comm_, nullptr),
                 ecclInvalidArgument, "negative");
  EXPECT_REFUSED(ecclAllReduce(data_, data_, 1, static_cast<ecclDataType_t>(12), ecclSum, comm_, nullptr),
                 ecclInvalidArgument, "datatype 12");
  EXPECT_REFUSED(ecclAllReduce(data_, data_, 1, static_cast<ecclDataType_t>(-1), ecclSum, comm_, nullptr),
                 ecclInvalidArgument, "datatype -1");
  EXPECT_REFUSED(ecclAllReduce(data_, data_, 1, ecclFloat, static_cast<ecclRedOp_t>(5), comm_, nullptr),
                 ecclInvalidArgument, "operator 5");
  EXPECT_REFUSED(ecclBroadcast(data_, data_, 1, ecclFloat, 1, comm_, nullptr), ecclInvalidArgument, "root 1");
  EXPECT_REFUSED(ecclReduce(data_, data_, 1, ecclFloat, ecclSum, -1, comm_, nullptr), ecclInvalidArgument,
                 "root -1");
  EXPECT_REFUSED(ecclSend(data_, 1, ecclFloat, 7, comm_, nullptr), ecclInvalidArgument, "peer 7");
  EXPECT_REFUSED(ecclSend(data_, 1, ecclFloat, 0, comm_, nullptr), ecclInvalidUsage, "to itself");
  ecclComm_t other = nullptr;
  ecclUniqueId id;
  ASSERT_EQ(ecclGetUniqueId(&id), ecclSuccess);
  EXPECT_REFUSED(ecclCommInitRank(&other, 0, id, 0), ecclInvalidArgument, "nranks is 0");
  EXPECT_REFUSED(ecclCommInitRank(&other, 2, id, 2), ecclInvalidArgument, "rank 2");
  EXPECT_REFUSED(ecclCommSplit(comm_, -2, 0, &other, nullptr), ecclInvalidArgument, "color -2");
  EXPECT_REFUSED(ecclRedOpDestroy(ecclSum, comm_), ecclInvalidArgument, "built in");
  EXPECT_REFUSED(ecclRedOpDestroy(static_cast<ecclRedOp_t>(9), comm_), ecclInvalidArgument, "operator 9");
  EXPECT_EQ(other, nullptr);
}

TEST_F(Arguments, GarbageIds) {
  ecclComm_t other = nullptr;
  ecclUniqueId id;
  std::memset(&id, 0, sizeof id);
  EXPECT_REFUSED(ecclCommInitRank(&other, 2, id, 0), ecclInvalidArgument, "ecclGetUniqueId");
  std::memset(&id, 0xa5, sizeof id);
  EXPECT_REFUSED(ecclCommInitRank(&other, 2, id, 0), ecclInvalidArgument, "ecclGetUniqueId");
  ASSERT_EQ(ecclGetUniqueId(&id), ecclSuccess);
  id.internal[40] ^= 1;
  EXPECT_REFUSED(ecclCommInitRank(&other, 2, id, 0), ecclInvalidArgument, "ecclGetUniqueId");
}

TEST_F(Arguments, DestroyedHandles) {
  ecclComm_t dead = comm_;
  comm_ = nullptr;
  EXPECT_EQ(ecclCommDestroy(dead), ecclSuccess);
  EXPECT_REFUSED(ecclCommDestroy(dead), ecclInvalidArgument, "has been destroyed");
  EXPECT_REFUSED(ecclAllReduce(data_, data_, 1, ecclFloat, ecclSum, dead, nullptr), ecclInvalidArgument,
                 "has been destroyed");
  EXPECT_REFUSED(ecclCommAbort(dead), ecclInvalidArgument, "has been destroyed");
  int count;
  EXPECT_REFUSED(ecclCommCount(dead, &count), ecclInvalidArgument, "has been destroyed");
  ecclStream_t stream;
  ASSERT_EQ(ecclStreamCreate(&stream), ecclSuccess);
  EXPECT_EQ(ecclStreamDestroy(stream), ecclSuccess);
  EXPECT_REFUSED(ecclStreamDestroy(stream), ecclInvalidArgument, "has been destroyed");
  EXPECT_REFUSED(ecclStreamSynchronize(stream), ecclInvalidArgument, "has been destroyed");
}

TEST_F(Arguments, FinalizedCommunicatorTakesNoCalls) {
  EXPECT_EQ(ecclCommFinalize(comm_), ecclSuccess);
  EXPECT_REFUSED(ecclBarrier(comm_, nullptr), ecclInvalidUsage, "finalized");
}

TEST_F(Arguments, Groups) {
  EXPECT_REFUSED(ecclGroupEnd(), ecclInvalidUsage, "without ecclGroupStart");
  ASSERT_EQ(ecclGroupStart(), ecclSuccess);
  EXPECT_EQ(ecclAllReduce(data_, data_, 1, ecclFloat, ecclSum, nullptr, nullptr), ecclInvalidArgument);
  EXPECT_REFUSED(ecclGroupEnd(), ecclInvalidArgument, "comm is NULL");
  EXPECT_EQ(ecclBarrier(comm_, nullptr), ecclSuccess);  // the group that failed is over
}

TEST_F(Arguments, MemoryAndRegistration) {
  void* memory = nullptr;
  ASSERT_EQ(ecclMemAlloc(&memory, 100), ecclSuccess);
  void* handle = nullptr;
  EXPECT_EQ(ecclCommRegister(comm_, memory, 100, &handle), ecclSuccess);
  EXPECT_EQ(ecclCommDeregister(comm_, handle), ecclSuccess);
  EXPECT_REFUSED(ecclCommDeregister(comm_, handle), ecclInvalidArgument, "no handle");
  EXPECT_EQ(ecclMemFree(memory), ecclSuccess);
  EXPECT_REFUSED(ecclMemFree(memory), ecclInvalidArgument, "ecclMemAlloc");
  EXPECT_EQ(ecclMemFree(nullptr), ecclSuccess);
  EXPECT_EQ(ecclMemAlloc(&memory, SIZE_MAX / 2), ecclSystemError);
}

TEST_F(Arguments, Config) {
  ecclConfig_t config = ECCL_CONFIG_INITIALIZER;
  ecclComm_t other = nullptr;
  ecclUniqueId id;
  ASSERT_EQ(ecclGetUniqueId(&id), ecclSuccess);
  config.magic = 1;
  EXPECT_REFUSED(ecclCommInitRankConfig(&other, 1, id, 0, &config), ecclInvalidArgument,
                 "ECCL_CONFIG_INITIALIZER");
  config = ECCL_CONFIG_INITIALIZER;
  config.blocking = 2;
  EXPECT_REFUSED(ecclCommInitRankConfig(&other, 1, id, 0, &config), ecclInvalidArgument, "blocking is 2");
  config = ECCL_CONFIG_INITIALIZER;
  config.netName = "carrier pigeon";
  EXPECT_REFUSED(ecclCommInitRankConfig(&other, 1, id, 0, &config), ecclInvalidUsage, "carrier pigeon");
  config = ECCL_CONFIG_INITIALIZER;
  config.size = offsetof(ecclConfig_t, cgaClusterSize);  // a caller from the time of 2.14
  config.version = 21403;
  EXPECT_EQ(ecclCommInitRankConfig(&other, 1, id, 0, &config), ecclSuccess) << ecclGetLastError(nullptr);
  EXPECT_EQ(ecclCommDestroy(other), ecclSuccess);
}

// 2^31 elements and above. Pages that are never written cost no memory: one rank's copy in place touches none.
TEST_F(Arguments, HugeCountsWork) {
  constexpr size_t kCount = (size_t{1} << 31) + 3;
  void* memory =
      mmap(nullptr, kCount, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  auto* bytes = static_cast<char*>(memory);
  bytes[kCount - 1] = 7;
  std::vector<ecclComm_t> comms(2);
  ASSERT_EQ(ecclCommInitAll(comms.data(), 2, nullptr), ecclSuccess);
  // Only the receiver's pages become real.
  void* target =
      mmap(nullptr, kCount, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(target, MAP_FAILED);
  std::thread sender(
      [&] { EXPECT_EQ(ecclBroadcast(memory, memory, kCount, ecclUint8, 0, comms[0], nullptr), ecclSuccess); });
  EXPECT_EQ(ecclBroadcast(nullptr, target, kCount, ecclUint8, 0, comms[1], nullptr), ecclSuccess);
  sender.join();
  EXPECT_EQ(static_cast<char*>(target)[kCount - 1], 7);
  for (ecclComm_t comm : comms) EXPECT_EQ(ecclCommDestroy(comm), ecclSuccess);
  munmap(memory, kCount);
  munmap(target, kCount);
}

TEST(Constants, AreNccls) {
  EXPECT_EQ(sizeof(ecclConfig_t), 96u);
  EXPECT_EQ(offsetof(ecclConfig_t, commName), 48u);
  EXPECT_EQ(offsetof(ecclConfig_t, graphStreamOrdering), 92u);
  EXPECT_EQ(sizeof(ecclUniqueId), 128u);
  EXPECT_EQ(ecclFloat8e5m2, 11);
  EXPECT_EQ(ecclAvg, 4);
  EXPECT_EQ(ecclTimeout, 8);
  int version = 0;
  EXPECT_EQ(ecclGetVersion(&version), ecclSuccess);
  EXPECT_EQ(version, ECCL_VERSION_CODE);
  for (int code = 0; code < ecclNumResults; ++code)
    EXPECT_STRNE(ecclGetErrorString(static_cast<ecclResult_t>(code)), "unknown result code");
}

}  // namespace
}  // namespace eccl::runtime
