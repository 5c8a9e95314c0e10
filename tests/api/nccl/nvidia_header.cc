// NVIDIA's own nccl.h, where one is installed, beside eccl.h: what a program compiled with it passes is what
// the library reads. Linked with examples/nccl.c, which is compiled with that header, too.
#include <nccl.h>

#include <cstddef>

#include "eccl/eccl.h"

static_assert(NCCL_VERSION_CODE >= 22800, "the header has what is compared here");
static_assert(sizeof(ncclUniqueId) == sizeof(ecclUniqueId));
static_assert(sizeof(ncclConfig_t) <= sizeof(ecclConfig_t));
static_assert(sizeof(ncclSimInfo_t) == sizeof(ecclSimInfo_t));
static_assert(offsetof(ncclSimInfo_t, estimatedTime) == offsetof(ecclSimInfo_t, estimatedTime));

#define FIELD(name) static_assert(offsetof(ncclConfig_t, name) == offsetof(ecclConfig_t, name));
FIELD(size)
FIELD(magic)
FIELD(version)
FIELD(blocking)
FIELD(cgaClusterSize)
FIELD(minCTAs)
FIELD(maxCTAs)
FIELD(netName)
FIELD(splitShare)
FIELD(trafficClass)
FIELD(commName)
FIELD(collnetEnable)
FIELD(CTAPolicy)
FIELD(shrinkShare)
FIELD(nvlsCTAs)
FIELD(nChannelsPerNetPeer)
FIELD(nvlinkCentricSched)

#define SAME(name) static_assert(static_cast<int>(nccl##name) == static_cast<int>(eccl##name));
SAME(Success)
SAME(UnhandledCudaError)
SAME(SystemError)
SAME(InternalError)
SAME(InvalidArgument)
SAME(InvalidUsage)
SAME(RemoteError)
SAME(InProgress)
SAME(Int8)
SAME(Uint8)
SAME(Int32)
SAME(Uint32)
SAME(Int64)
SAME(Uint64)
SAME(Float16)
SAME(Float32)
SAME(Float64)
SAME(Bfloat16)
SAME(Float8e4m3)
SAME(Float8e5m2)
SAME(Sum)
SAME(Prod)
SAME(Max)
SAME(Min)
SAME(Avg)
SAME(NumOps)
SAME(MaxRedOp)
SAME(ScalarDevice)
SAME(ScalarHostImmediate)
static_assert(NCCL_SPLIT_NOCOLOR == ECCL_SPLIT_NOCOLOR && NCCL_CONFIG_UNDEF_INT == ECCL_CONFIG_UNDEF_INT);
