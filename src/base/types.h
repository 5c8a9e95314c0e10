// The vocabulary of the collectives: reductions and operations; data_type.h has the element types. Values are
// NCCL's. Threads: all functions are pure.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/data_type.h"

namespace eccl {

/// How contributions are combined. preMulSum scales each rank's contribution by that rank's own scalar, then
/// sums.
enum class RedOp : uint8_t { sum = 0, prod = 1, max = 2, min = 3, avg = 4, preMulSum = 5 };
inline constexpr int kRedOps = 6;

/// The calls that move data, point to point included. Values go over the wire (CallRecord): append, never
/// reorder.
enum class Collective : uint8_t {
  allReduce,
  allGather,
  reduceScatter,
  broadcast,
  reduce,
  gather,
  scatter,
  allToAll,
  allToAllv,
  allGatherv,
  reduceScatterv,
  barrier,
  send,
  receive,
};
inline constexpr int kCollectives = 14;

/// "sum", "prod", "max", "min", "avg", "premulsum". A static text, as those below; the value must be one of
/// the enumeration.
const char* nameOf(RedOp op);
/// "AllReduce", "AlltoAllv", "Send", …: the API's spelling.
const char* nameOf(Collective collective);
inline constexpr const char* kApiNames[kCollectives] = {
    "ecclAllReduce",      "ecclAllGather", "ecclReduceScatter", "ecclBroadcast", "ecclReduce",
    "ecclGather",         "ecclScatter",   "ecclAlltoAll",      "ecclAlltoAllv", "ecclAllGatherv",
    "ecclReduceScatterv", "ecclBarrier",   "ecclSend",          "ecclRecv"};
/// "ecclAllReduce", …: the function of the C API.
constexpr const char* apiNameOf(Collective collective) {
  return kApiNames[static_cast<int>(collective)];
}

/// True for the operations that combine contributions with a RedOp.
constexpr bool reduces(Collective c) {
  return c == Collective::allReduce || c == Collective::reduceScatter || c == Collective::reduce ||
         c == Collective::reduceScatterv;
}
/// True for the collectives with one rank that all others send to or receive from. Send and Recv have a peer
/// instead: false.
constexpr bool hasRoot(Collective c) {
  return c == Collective::broadcast || c == Collective::reduce || c == Collective::gather ||
         c == Collective::scatter;
}

}  // namespace eccl
