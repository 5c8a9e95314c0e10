// libnccl.so.2, as a program for NCCL uses it.
#include <gmock/gmock.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "eccl/eccl.h"
#include "nccl.h"

namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// ---- What programs that were compiled with NCCL's header rely on, by numbers.

static_assert(sizeof(ncclUniqueId) == 128);
static_assert(sizeof(ncclConfig_t) == 96 && sizeof(ecclConfig_t) == 96);
#define CONFIG_FIELD(name, at) \
  static_assert(offsetof(ncclConfig_t, name) == (at) && offsetof(ecclConfig_t, name) == (at));
CONFIG_FIELD(size, 0)
CONFIG_FIELD(magic, 8)
CONFIG_FIELD(version, 12)
CONFIG_FIELD(blocking, 16)
CONFIG_FIELD(cgaClusterSize, 20)
CONFIG_FIELD(minCTAs, 24)
CONFIG_FIELD(maxCTAs, 28)
CONFIG_FIELD(netName, 32)
CONFIG_FIELD(splitShare, 40)
CONFIG_FIELD(trafficClass, 44)
CONFIG_FIELD(commName, 48)
CONFIG_FIELD(collnetEnable, 56)
CONFIG_FIELD(CTAPolicy, 60)
CONFIG_FIELD(shrinkShare, 64)
CONFIG_FIELD(nvlsCTAs, 68)
CONFIG_FIELD(nChannelsPerNetPeer, 72)
CONFIG_FIELD(nvlinkCentricSched, 76)
CONFIG_FIELD(graphUsageMode, 80)
CONFIG_FIELD(numRmaCtx, 84)
CONFIG_FIELD(maxP2pPeers, 88)
CONFIG_FIELD(graphStreamOrdering, 92)
#define PROPERTY(name, at) \
  static_assert(offsetof(ncclCommProperties_t, name) == (at) && offsetof(ecclCommProperties_t, name) == (at));
static_assert(sizeof(ncclCommProperties_t) == 56 && sizeof(ecclCommProperties_t) == 56);
PROPERTY(rank, 16)
PROPERTY(nRanks, 20)
PROPERTY(cudaDev, 24)
PROPERTY(nvmlDev, 28)
PROPERTY(deviceApiSupport, 32)
PROPERTY(multimemSupport, 33)
PROPERTY(ginType, 36)
PROPERTY(nLsaTeams, 40)
PROPERTY(hostRmaSupport, 44)
PROPERTY(railedGinType, 48)
static_assert(sizeof(ncclSimInfo_t) == 24 && offsetof(ncclSimInfo_t, estimatedTime) == 16);
static_assert(sizeof(ncclWaitSignalDesc_t) == 16 && sizeof(ncclTeam_t) == 12);
static_assert(NCCL_VERSION_CODE == NCCL_VERSION(2, 27, 7) && NCCL_VERSION(2, 8, 4) == 2804);

#define SAME(nccl, eccl, value) \
  static_assert(static_cast<int>(nccl) == (value) && static_cast<int>(eccl) == (value));
SAME(ncclInt8, ecclInt8, 0)
SAME(ncclChar, ecclChar, 0)
SAME(ncclUint8, ecclUint8, 1)
SAME(ncclInt32, ecclInt32, 2)
SAME(ncclInt, ecclInt, 2)
SAME(ncclUint32, ecclUint32, 3)
SAME(ncclInt64, ecclInt64, 4)
SAME(ncclUint64, ecclUint64, 5)
SAME(ncclFloat16, ecclFloat16, 6)
SAME(ncclHalf, ecclHalf, 6)
SAME(ncclFloat32, ecclFloat32, 7)
SAME(ncclFloat, ecclFloat, 7)
SAME(ncclFloat64, ecclFloat64, 8)
SAME(ncclDouble, ecclDouble, 8)
SAME(ncclBfloat16, ecclBfloat16, 9)
SAME(ncclFloat8e4m3, ecclFloat8e4m3, 10)
SAME(ncclFloat8e5m2, ecclFloat8e5m2, 11)
SAME(ncclSum, ecclSum, 0)
SAME(ncclProd, ecclProd, 1)
SAME(ncclMax, ecclMax, 2)
SAME(ncclMin, ecclMin, 3)
SAME(ncclAvg, ecclAvg, 4)
SAME(ncclNumOps, ecclNumOps, 5)
SAME(ncclScalarDevice, ecclScalarDevice, 0)
SAME(ncclScalarHostImmediate, ecclScalarHostImmediate, 1)
SAME(ncclSuccess, ecclSuccess, 0)
SAME(ncclUnhandledCudaError, ecclUnhandledCudaError, 1)
SAME(ncclSystemError, ecclSystemError, 2)
SAME(ncclInternalError, ecclInternalError, 3)
SAME(ncclInvalidArgument, ecclInvalidArgument, 4)
SAME(ncclInvalidUsage, ecclInvalidUsage, 5)
SAME(ncclRemoteError, ecclRemoteError, 6)
SAME(ncclInProgress, ecclInProgress, 7)
SAME(ncclTimeout, ecclTimeout, 8)

// ---- Every function, without anything to work on.

template <class Result, class... Parameters>
Result withZeros(Result (*function)(Parameters...)) {
  return function(Parameters{}...);
}

TEST(Nccl, WhatIsRefusedNamesTheFunctionAndSaysWhy) {
#define TWIN(name, parameters, arguments)
#define OWN(result, name, parameters)
#define REFUSED(name, parameters, why)                                            \
  EXPECT_EQ(withZeros(nccl##name), ncclInvalidUsage) << #name;                    \
  EXPECT_THAT(ncclGetLastError(nullptr), StartsWith("nccl" #name ": ")) << #name; \
  EXPECT_THAT(ncclGetLastError(nullptr), HasSubstr(why)) << #name;
#include "nccl_functions.h"
#undef TWIN
#undef REFUSED
}

TEST(Nccl, WhatHasATwinAnswersAsItDoes) {
#define TWIN(name, parameters, arguments)                                                               \
  EXPECT_EQ(static_cast<int>(withZeros(nccl##name)), static_cast<int>(withZeros(eccl##name))) << #name; \
  EXPECT_EQ(static_cast<int>(withZeros(pnccl##name)), static_cast<int>(withZeros(eccl##name))) << #name;
#define REFUSED(name, parameters, why)
#include "nccl_functions.h"
#undef TWIN
#undef OWN
#undef REFUSED
}

// The sentence is that of the latest failure, whoever has it.
TEST(Nccl, TheLastErrorIsTheLatest) {
  EXPECT_EQ(ncclSignal(0, 0, 0, 0, nullptr, nullptr), ncclInvalidUsage);
  EXPECT_THAT(ncclGetLastError(nullptr), StartsWith("ncclSignal"));
  EXPECT_EQ(ncclCommCount(nullptr, nullptr), ncclInvalidArgument);
  EXPECT_THAT(ncclGetLastError(nullptr), StartsWith("ecclCommCount"));
  EXPECT_EQ(ncclGroupStart(), ncclSuccess);
  EXPECT_EQ(ncclGroupEnd(), ncclSuccess);
  EXPECT_THAT(ncclGetLastError(nullptr), StartsWith("ecclCommCount")) << "success is no failure";
}

TEST(Nccl, Versions) {
  int version = 0;
  EXPECT_EQ(ncclGetVersion(&version), ncclSuccess);
  EXPECT_EQ(version, 23007);
  EXPECT_EQ(ncclGetVersion(nullptr), ncclInvalidArgument);
  const ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  EXPECT_EQ(config.version, 23007u);
  const ecclConfig_t twin = ECCL_CONFIG_INITIALIZER;
  EXPECT_EQ(std::memcmp(&config, &twin, sizeof config), 0);
  EXPECT_STREQ(ncclGetErrorString(ncclRemoteError), ecclGetErrorString(ecclRemoteError));
  ncclResetDebugInit();
  ncclParamDumpAll();
}

// ---- With communicators.

struct NcclPair : testing::Test {
  void SetUp() override {
    ASSERT_EQ(ncclCommInitAll(comms, 2, nullptr), ncclSuccess) << ncclGetLastError(nullptr);
  }
  void TearDown() override {
    for (const ncclComm_t comm : comms) EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
  }
  /// Both ranks' call in a group.
  template <class Call>
  ncclResult_t both(Call&& call) {
    EXPECT_EQ(ncclGroupStart(), ncclSuccess);
    for (int rank = 0; rank < 2; ++rank) EXPECT_EQ(call(rank), ncclSuccess) << ncclGetLastError(comms[rank]);
    return ncclGroupEnd();
  }
  ncclComm_t comms[2] = {};
};

TEST_F(NcclPair, Collectives) {
  std::vector<std::vector<float>> in(2), out(2);
  for (int rank = 0; rank < 2; ++rank) {
    in[rank].assign(1000, static_cast<float>(rank + 1));
    out[rank].assign(2000, 0);
  }
  EXPECT_EQ(both([&](int rank) {
              return ncclAllReduce(in[rank].data(), out[rank].data(), 1000, ncclFloat, ncclSum, comms[rank],
                                   nullptr);
            }),
            ncclSuccess);
  for (const auto& each : out) EXPECT_EQ(each[999], 3);
  EXPECT_EQ(both([&](int rank) {
              return ncclAllGather(in[rank].data(), out[rank].data(), 1000, ncclFloat, comms[rank], nullptr);
            }),
            ncclSuccess);
  for (const auto& each : out) EXPECT_EQ(each[1000], 2);
  EXPECT_EQ(both([&](int rank) {
              ncclSend(in[rank].data(), 1000, ncclFloat, 1 - rank, comms[rank], nullptr);
              return ncclRecv(out[rank].data(), 1000, ncclFloat, 1 - rank, comms[rank], nullptr);
            }),
            ncclSuccess);
  EXPECT_EQ(out[0][0], 2);
  EXPECT_EQ(out[1][0], 1);
}

// CUDA's names of the default stream; anything else is a host stream, or wrong.
TEST_F(NcclPair, Streams) {
  float data[2] = {1, 2};
  const auto reduce = [&](uintptr_t stream) {
    return both([&](int rank) {
      return ncclAllReduce(&data[rank], &data[rank], 1, ncclFloat, ncclSum, comms[rank],
                           reinterpret_cast<cudaStream_t>(stream));
    });
  };
  EXPECT_EQ(reduce(1), ncclSuccess);
  EXPECT_EQ(reduce(2), ncclSuccess);
  EXPECT_EQ(data[0], 6);
  ecclStream_t stream = nullptr;
  ASSERT_EQ(ecclStreamCreate(&stream), ecclSuccess);
  EXPECT_EQ(reduce(reinterpret_cast<uintptr_t>(stream)), ncclSuccess);
  EXPECT_EQ(ecclStreamDestroy(stream), ecclSuccess);
  EXPECT_EQ(data[1], 12);
  EXPECT_EQ(ncclAllReduce(data, data, 1, ncclFloat, ncclSum, comms[0], reinterpret_cast<cudaStream_t>(4096)),
            ncclInvalidArgument);
  EXPECT_THAT(ncclGetLastError(nullptr), HasSubstr("stream"));
}

TEST_F(NcclPair, AnOperatorMayBeDestroyedRightAfterTheCall) {
  float data[2] = {1, 2}, scalars[2] = {10, 100};
  EXPECT_EQ(both([&](int rank) {
              ncclRedOp_t op;
              ncclRedOpCreatePreMulSum(&op, &scalars[rank], ncclFloat, ncclScalarHostImmediate, comms[rank]);
              ncclAllReduce(&data[rank], &data[rank], 1, ncclFloat, op, comms[rank], nullptr);
              return ncclRedOpDestroy(op, comms[rank]);
            }),
            ncclSuccess);
  EXPECT_THAT(data, Each(210));
}

// The names are two for one library.
TEST_F(NcclPair, BothNamesMeanTheSameCommunicator) {
  int count = 0;
  EXPECT_EQ(ecclCommCount(reinterpret_cast<ecclComm_t>(comms[0]), &count), ecclSuccess);
  EXPECT_EQ(count, 2);
}

TEST_F(NcclPair, QuestionsAboutIt) {
  int count = 0, rank = 0, device = 0;
  EXPECT_EQ(ncclCommCount(comms[1], &count), ncclSuccess);
  EXPECT_EQ(ncclCommUserRank(comms[1], &rank), ncclSuccess);
  EXPECT_EQ(ncclCommCuDevice(comms[1], &device), ncclSuccess);
  EXPECT_EQ(count, 2);
  EXPECT_EQ(rank, 1);
  EXPECT_EQ(device, -1);
  EXPECT_EQ(ncclCommCuDevice(comms[1], nullptr), ncclInvalidArgument);
  for (const int stat : {0, 1, 2, 3}) {
    uint64_t value = 1;
    EXPECT_EQ(ncclCommMemStats(comms[0], static_cast<ncclCommMemStat_t>(stat), &value), ncclSuccess);
    EXPECT_EQ(value, 0u);
  }
  uint64_t value = 1;
  EXPECT_EQ(ncclCommMemStats(comms[0], static_cast<ncclCommMemStat_t>(4), &value), ncclInvalidArgument);
  EXPECT_EQ(ncclCommMemStats(comms[0], ncclStatGpuMemTotal, nullptr), ncclInvalidArgument);
  EXPECT_EQ(ncclCommMemStats(nullptr, ncclStatGpuMemTotal, &value), ncclInvalidArgument);
  EXPECT_EQ(value, 1u);
}

TEST_F(NcclPair, Properties) {
  // What a program of 2.29.3 has room for, and no byte more.
  for (const size_t size : {offsetof(ncclCommProperties_t, nLsaTeams), sizeof(ncclCommProperties_t)}) {
    ncclCommProperties_t found = NCCL_COMM_PROPERTIES_INITIALIZER;
    std::memset(&found.rank, 0x55, sizeof found - offsetof(ncclCommProperties_t, rank));
    found.size = size;
    EXPECT_EQ(ncclCommQueryProperties(comms[1], &found), ncclSuccess) << ncclGetLastError(comms[1]);
    EXPECT_EQ(found.size, size);
    EXPECT_EQ(found.rank, 1);
    EXPECT_EQ(found.nRanks, 2);
    EXPECT_EQ(found.cudaDev, -1);
    EXPECT_EQ(found.nvmlDev, -1);
    EXPECT_FALSE(found.deviceApiSupport || found.multimemSupport);
    EXPECT_EQ(found.ginType, 0);
    EXPECT_EQ(found.nLsaTeams, size == sizeof found ? 2 : 0x55555555);
    EXPECT_EQ(found.railedGinType, size == sizeof found ? 0 : 0x55555555);
  }
  ncclCommProperties_t wrong = NCCL_COMM_PROPERTIES_INITIALIZER, shorter = NCCL_COMM_PROPERTIES_INITIALIZER;
  wrong.magic = 0;
  shorter.size = 16;
  EXPECT_EQ(ncclCommQueryProperties(comms[0], &wrong), ncclInvalidArgument);
  EXPECT_EQ(ncclCommQueryProperties(comms[0], &shorter), ncclInvalidArgument);
  EXPECT_EQ(ncclCommQueryProperties(comms[0], nullptr), ncclInvalidArgument);
  EXPECT_EQ(ncclCommQueryProperties(nullptr, &wrong), ncclInvalidArgument);
}

TEST_F(NcclPair, SuspendAndResume) {
  uint64_t is = 7;
  EXPECT_EQ(ncclCommSuspend(comms[0], NCCL_SUSPEND_MEM), ncclSuccess) << ncclGetLastError(comms[0]);
  EXPECT_EQ(ncclCommMemStats(comms[0], ncclStatGpuMemSuspended, &is), ncclSuccess);
  EXPECT_EQ(is, 1u);
  float data = 1;
  EXPECT_EQ(ncclSend(&data, 1, ncclFloat, 1, comms[0], nullptr), ncclInvalidUsage);
  EXPECT_EQ(ncclCommResume(comms[0]), ncclSuccess);
  EXPECT_EQ(ncclCommMemStats(comms[0], ncclStatGpuMemSuspended, &is), ncclSuccess);
  EXPECT_EQ(is, 0u);
}

TEST_F(NcclPair, Teams) {
  const ncclTeam_t world = ncclTeamWorld(comms[1]), lsa = ncclTeamLsa(comms[1]), rail = ncclTeamRail(comms[1]);
  EXPECT_EQ(world.nRanks, 2);
  EXPECT_EQ(world.rank, 1);
  EXPECT_EQ(world.stride, 1);
  EXPECT_EQ(lsa.nRanks, 1);
  EXPECT_EQ(lsa.rank, 0);
  EXPECT_EQ(rail.nRanks, 2);
  EXPECT_EQ(ncclTeamRankToWorld(comms[1], rail, 0), 0);
  EXPECT_EQ(ncclTeamRankToWorld(comms[1], lsa, 0), 1);
  EXPECT_EQ(ncclTeamRankToLsa(comms[1], world, 0), -1);
  EXPECT_EQ(ncclTeamWorld(nullptr).nRanks, 0);
  EXPECT_EQ(ncclLLA2ACalcSlots(10, 8), 0);
}

TEST_F(NcclPair, ThereAreNoWindowsAndProgramsGoOnWithout) {
  float data[4];
  ncclWindow_t window = reinterpret_cast<ncclWindow_t>(data);
  EXPECT_EQ(ncclCommWindowRegister(comms[0], data, sizeof data, &window, NCCL_WIN_COLL_SYMMETRIC), ncclSuccess);
  EXPECT_EQ(window, nullptr);
  EXPECT_EQ(ncclCommWindowDeregister(comms[0], window), ncclSuccess);
  EXPECT_EQ(ncclCommWindowRegister(comms[0], data, sizeof data, nullptr, 0), ncclInvalidArgument);
  EXPECT_EQ(ncclCommWindowRegister(nullptr, data, sizeof data, &window, 0), ncclInvalidArgument);
  EXPECT_EQ(ncclCommWindowDeregister(comms[0], reinterpret_cast<ncclWindow_t>(data)), ncclInvalidArgument);
}

TEST_F(NcclPair, WhatFailsHereNamesFunctionRankAndValue) {
  EXPECT_EQ(ncclCommRevoke(comms[1], 0), ncclInvalidUsage);
  EXPECT_THAT(ncclGetLastError(nullptr), StartsWith("ncclCommRevoke: rank 1 of 2: ECCL's communicators"));
  EXPECT_EQ(ncclSignal(0, 0, 0, 0, comms[0], nullptr), ncclInvalidUsage);
  EXPECT_THAT(ncclGetLastError(nullptr), StartsWith("ncclSignal: rank 0 of 2: ECCL has no one-sided calls"));
  EXPECT_EQ(ncclCommWindowDeregister(comms[1], reinterpret_cast<ncclWindow_t>(0x1230)), ncclInvalidArgument);
  EXPECT_THAT(ncclGetLastError(nullptr), StartsWith("ncclCommWindowDeregister: rank 1 of 2: win is 0x1230;"));
  EXPECT_EQ(ncclCommWindowRegister(comms[1], nullptr, 0, nullptr, 0), ncclInvalidArgument);
  EXPECT_STREQ(ncclGetLastError(nullptr), "ncclCommWindowRegister: rank 1 of 2: win is NULL");
  EXPECT_EQ(ncclCommWindowDeregister(nullptr, nullptr), ncclInvalidArgument);
  EXPECT_STREQ(ncclGetLastError(nullptr), "ncclCommWindowDeregister: comm is NULL");
  EXPECT_EQ(ncclGetVersion(nullptr), ncclInvalidArgument);
  EXPECT_STREQ(ncclGetLastError(nullptr), "ncclGetVersion: version is NULL");
}

// A handle that is none is refused by the function's name alone.
TEST(Nccl, WhatIsRefusedLooksAtNoCommunicatorThatIsNotThere) {
  char none[64] = {};
  EXPECT_EQ(ncclCommRevoke(reinterpret_cast<ncclComm_t>(none), 0), ncclInvalidUsage);
  EXPECT_THAT(ncclGetLastError(nullptr), StartsWith("ncclCommRevoke: ECCL's communicators"));
}

// A program of 2.28 passes 80 bytes; one that is newer than this library, more.
TEST(Nccl, ConfigsOfOtherVersions) {
  struct {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    char newer[32] = {1};
  } larger;
  larger.config.size = sizeof larger;
  ncclConfig_t older = NCCL_CONFIG_INITIALIZER, wrong = NCCL_CONFIG_INITIALIZER;
  older.size = 80;
  older.version = 22809;
  older.graphUsageMode = 12345;  // behind its end
  wrong.magic = 7;
  for (ncclConfig_t* config : {&older, &larger.config, static_cast<ncclConfig_t*>(nullptr)}) {
    ncclUniqueId id;
    ncclComm_t comm = nullptr;
    ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
    ASSERT_EQ(ncclCommInitRankConfig(&comm, 1, id, 0, config), ncclSuccess) << ncclGetLastError(nullptr);
    EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
    EXPECT_EQ(ncclCommDestroy(comm), ncclInvalidArgument) << "it is gone";
  }
  ncclUniqueId id;
  ncclComm_t comm = nullptr;
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  EXPECT_EQ(ncclCommInitRankConfig(&comm, 1, id, 0, &wrong), ncclInvalidArgument);
}

// Of every level that programs were compiled with: as many bytes as it has are read, and no field that it has
// not.
TEST(Nccl, ConfigsOfEveryLevel) {
  const struct {
    unsigned version;
    size_t size;
  } levels[] = {{21403, 24}, {21701, 40}, {21801, 48}, {22505, 48}, {22703, 72},
                {22809, 80}, {22907, 88}, {23003, 96}, {23007, 96}};
  ncclUniqueId id;
  bool used = true;  // an id that nobody joined is good for the next try
  const auto make = [&](const ncclConfig_t* config) {
    ncclComm_t comm = nullptr;
    if (used) { EXPECT_EQ(ncclGetUniqueId(&id), ncclSuccess); }
    const ncclResult_t result = ncclCommInitRankConfig(&comm, 1, id, 0, const_cast<ncclConfig_t*>(config));
    used = comm != nullptr;
    if (used) { EXPECT_EQ(ncclCommAbort(comm), ncclSuccess); }
    return result;
  };
  for (const auto& level : levels) {
    SCOPED_TRACE(level.version);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.size = level.size;
    config.version = level.version;
    // Exactly so long, so that AddressSanitizer sees who reads more.
    const auto made = [&] {
      std::vector<char> bytes(level.size);
      std::memcpy(bytes.data(), &config, level.size);
      return make(reinterpret_cast<ncclConfig_t*>(bytes.data()));
    };
    EXPECT_EQ(made(), ncclSuccess) << ncclGetLastError(nullptr);
    config.maxCTAs = -5;  // since 2.17
    EXPECT_EQ(made(), level.version < 21700 ? ncclSuccess : ncclInvalidArgument);
    config.maxCTAs = NCCL_CONFIG_UNDEF_INT;
    config.netName = "pigeon";
    EXPECT_EQ(made(), level.version < 21700 ? ncclSuccess : ncclInvalidUsage);
    config.netName = nullptr;
    config.blocking = 2;
    EXPECT_EQ(made(), ncclInvalidArgument);
  }
  // Sizes that no version had: what is there in part is not there.
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.netName = config.commName = "socket";
  for (size_t size = 0; size < sizeof config; ++size) {
    std::vector<char> bytes(std::max<size_t>(size, 16));
    config.size = size;
    std::memcpy(bytes.data(), &config, bytes.size());
    EXPECT_EQ(make(reinterpret_cast<ncclConfig_t*>(bytes.data())),
              size < 20 ? ncclInvalidArgument : ncclSuccess)
        << size;
  }
  for (const size_t size : {size_t{1} << 40, SIZE_MAX}) {
    config.size = size;
    EXPECT_EQ(make(&config), ncclSuccess) << "of a version to come";
  }
}

TEST(Nccl, OfSeveralIdsTheFirstCounts) {
  ncclUniqueId ids[2] = {};
  ncclComm_t comm = nullptr;
  ASSERT_EQ(ncclGetUniqueId(&ids[0]), ncclSuccess);
  EXPECT_EQ(ncclCommInitRankScalable(&comm, 2, 0, 0, ids, nullptr), ncclInvalidArgument);
  EXPECT_EQ(ncclCommInitRankScalable(&comm, 2, 0, 3, ids, nullptr), ncclInvalidArgument);
  EXPECT_EQ(ncclCommInitRankScalable(&comm, 2, 0, 1, nullptr, nullptr), ncclInvalidArgument);
  ASSERT_EQ(ncclCommInitRankScalable(&comm, 1, 0, 1, ids, nullptr), ncclSuccess) << ncclGetLastError(nullptr);
  int count = 0;
  EXPECT_EQ(ncclCommCount(comm, &count), ncclSuccess);
  EXPECT_EQ(count, 1);
  EXPECT_EQ(ncclCommAbort(comm), ncclSuccess);
}

}  // namespace
