// The vocabulary of the collectives: element types, reductions, operations. Values are NCCL's.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/data_type.h"

namespace eccl {

/// preMulSum scales each rank's contribution by that rank's own scalar, then sums.
enum class RedOp : uint8_t { sum = 0, prod = 1, max = 2, min = 3, avg = 4, preMulSum = 5 };
inline constexpr int kRedOps = 6;

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

/// "sum", "prod", "max", "min", "avg", "premulsum".
const char* nameOf(RedOp op);
/// "AllReduce", "AlltoAllv", "Send", …: the API's spelling.
const char* nameOf(Collective collective);
/// "ecclAllReduce", …: the function of the C API.
const char* apiNameOf(Collective collective);

/// True for the operations that combine contributions with a RedOp.
constexpr bool reduces(Collective c) {
  return c == Collective::allReduce || c == Collective::reduceScatter || c == Collective::reduce ||
         c == Collective::reduceScatterv;
}
constexpr bool hasRoot(Collective c) {
  return c == Collective::broadcast || c == Collective::reduce || c == Collective::gather ||
         c == Collective::scatter;
}

}  // namespace eccl
