#include "base/types.h"

namespace eccl {

const char* nameOf(DataType type) {
#define ECCL_NAME(name, Element, text) text,
  static constexpr const char* names[] = {ECCL_DATA_TYPES(ECCL_NAME)};
#undef ECCL_NAME
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
