#include "base/types.h"

namespace eccl {

const char* nameOf(DataType type) {
  static constexpr const char* names[kDataTypes] = {"int8", "uint8",  "int32",    "uint32", "int64",  "uint64",
                                                    "half", "float",  "double",   "bfloat16", "f8e4m3", "f8e5m2"};
  return names[static_cast<int>(type)];
}

const char* nameOf(RedOp op) {
  static constexpr const char* names[kRedOps] = {"sum", "prod", "max", "min", "avg", "premulsum"};
  return names[static_cast<int>(op)];
}

const char* nameOf(Collective collective) {
  static constexpr const char* names[kCollectives] = {
      "AllReduce", "AllGather", "ReduceScatter", "Broadcast",  "Reduce",         "Gather",  "Scatter",
      "AlltoAll",  "AlltoAllv", "AllGatherv",    "ReduceScatterv", "Barrier", "Send",    "Recv"};
  return names[static_cast<int>(collective)];
}

}  // namespace eccl
