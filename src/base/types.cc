#include "base/types.h"

namespace eccl {

const char* nameOf(DataType type) {
  static constexpr const char* names[kDataTypes] = {"int8", "uint8", "int32",  "uint32",   "int64",  "uint64",
                                                    "half", "float", "double", "bfloat16", "f8e4m3", "f8e5m2"};
  return names[static_cast<int>(type)];
}

const char* nameOf(RedOp op) {
  static constexpr const char* names[kRedOps] = {"sum", "prod", "max", "min", "avg", "premulsum"};
  return names[static_cast<int>(op)];
}

const char* apiNameOf(Collective collective) {
  static constexpr const char* names[kCollectives] = {
      "ecclAllReduce",      "ecclAllGather", "ecclReduceScatter", "ecclBroadcast", "ecclReduce",
      "ecclGather",         "ecclScatter",   "ecclAlltoAll",      "ecclAlltoAllv", "ecclAllGatherv",
      "ecclReduceScatterv", "ecclBarrier",   "ecclSend",          "ecclRecv"};
  return names[static_cast<int>(collective)];
}

const char* nameOf(Collective collective) {
  return apiNameOf(collective) + sizeof("eccl") - 1;
}

}  // namespace eccl
