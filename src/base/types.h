// The vocabulary of the collectives: element types, reductions, operations. Values are NCCL's.
#pragma once

#include <cstddef>
#include <cstdint>

namespace eccl {

enum class DataType : uint8_t {
  int8 = 0,
  uint8 = 1,
  int32 = 2,
  uint32 = 3,
  int64 = 4,
  uint64 = 5,
  float16 = 6,
  float32 = 7,
  float64 = 8,
  bfloat16 = 9,
  float8e4m3 = 10,
  float8e5m2 = 11,
};
inline constexpr int kDataTypes = 12;

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

/// Bytes of one element.
constexpr size_t sizeOf(DataType type) {
  constexpr size_t bytes[kDataTypes] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
  return bytes[static_cast<int>(type)];
}

constexpr bool isFloating(DataType type) {
  return type >= DataType::float16;
}
constexpr bool isSigned(DataType type) {
  return type == DataType::int8 || type == DataType::int32 || type == DataType::int64;
}

/// Names as the field writes them: "float", "bfloat16", "f8e4m3" (nccl-tests' spelling).
const char* nameOf(DataType type);
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
