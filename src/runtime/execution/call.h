// One call of a collective, Send or Recv, as the user made it.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "kernels/reduce.h"

namespace eccl::runtime {

/// How contributions are scaled by PreMulSum. The scalar may be in memory of the user that is read when the
/// call runs.
struct PreMul {
  DataType type = DataType::float32;
  const void* scalar = nullptr;  // read when the operation starts; null: `immediate` holds it
  std::byte immediate[8] = {};
  /// Reads the scalar. By the driver, when the Run begins.
  kernels::Scale scale() const;
};

/// What a plan depends on, but for the tables of the v calls: calls with the same key have the same plan.
struct CallKey {
  uint64_t count = 0;
  Collective collective = Collective::allReduce;
  DataType type = DataType::float32;
  RedOp op = RedOp::sum;
  int32_t root = 0;
  bool operator==(const CallKey&) const = default;
};
struct CallKeyHash {
  size_t operator()(const CallKey& key) const {
    const uint64_t what = static_cast<uint64_t>(key.root) << 24 | static_cast<uint64_t>(key.collective) << 16 |
                          static_cast<uint64_t>(key.type) << 8 | static_cast<uint64_t>(key.op);
    const uint64_t x = (key.count ^ what << 20) * 0x9e3779b97f4a7c15ull;
    return static_cast<size_t>(x ^ x >> 32);
  }
};

constexpr bool isPointToPoint(Collective collective) {
  return collective == Collective::send || collective == Collective::receive;
}

/// The caller's buffers of a call. A value.
struct CallBuffers {
  const void* send = nullptr;
  void* receive = nullptr;
};

struct Call;
/// A call that has neither tables nor a scalar, as most: a key, and the caller's buffers. A value.
struct PlainCall {
  CallKey key;
  CallBuffers buffers;
  Call call() const;
};

/// Calls that follow each other and differ in their buffers alone. A value.
struct CallSeries {
  CallKey key;
  size_t first = 0, calls = 0;  // of those that it is among
};

/// Plain calls in the order in which they are made. The memory is another's.
struct PlainCalls {
  std::span<const CallSeries> series;
  std::span<const CallBuffers> buffers;  // by call
};

/// A call of the user. A value, but the buffers are the caller's, and stay valid and untouched until it is
/// complete. Nothing in it is checked before validate().
struct Call {
  Collective collective = Collective::allReduce;
  const void* send = nullptr;
  void* receive = nullptr;
  size_t count = 0;  // elements per block; for the v calls the tables below
  DataType type = DataType::float32;
  RedOp op = RedOp::sum;
  int root = 0;  // the peer of Send and Recv
  PreMul preMul;
  /// v calls: counts and displacements (elements), one per block this rank sends or receives.
  std::vector<size_t> sendCounts, sendOffsets, receiveCounts, receiveOffsets;

  bool varies() const {
    return collective == Collective::allToAllv || collective == Collective::allGatherv ||
           collective == Collective::reduceScatterv;
  }
  bool isPlain() const { return !varies() && op != RedOp::preMulSum; }
  CallKey key() const { return {count, collective, type, op, root}; }
  bool pointToPoint() const { return isPointToPoint(collective); }
};

/// A step of FNV-1a's scheme over 64-bit words at once, each mixed down before the next. (G. Fowler, L. C.
/// Noll, K.-P. Vo; the mixing step is that of MurmurHash3's finalizer, A. Appleby.)
constexpr uint64_t mixed(uint64_t hash, uint64_t word) {
  hash = (hash ^ word) * 0xff51afd7ed558ccdull;
  return hash ^ hash >> 33;
}
inline constexpr uint64_t kEmptyHash = 0xcbf29ce484222325ull;

/// What other ranks are told about a call. Plain data, sent as it lies; one that came from a peer may hold
/// anything.
struct CallRecord {
  /// Calls are numbered within a scope: 0 for collectives, else the ordered pair of a Send and its Recv. What
  /// graphs make has scopes of its own, with kInGraphs added.
  uint64_t scope = 0, sequence = 0;
  uint64_t count = 0;
  uint32_t signature = 0;  // travels with every message of the call
  int32_t root = 0;
  uint8_t collective = 0, type = 0, op = 0;
  uint8_t callerBlocked = 0;  // the thread that made the call waits for it
  uint32_t countsHash = 0;    // v calls whose counts all ranks know

  /// What all ranks of the call know alike, but for its number, as a hash.
  uint64_t shape() const;
  /// The signature of a call of that shape, of that number. Of different calls they differ with high
  /// probability. Never 0.
  static uint32_t signatureOf(uint64_t shape, uint64_t number) {
    const uint64_t hash = mixed(shape, number);
    const auto folded = static_cast<uint32_t>(hash ^ hash >> 32);
    return folded != 0 ? folded : 1;
  }
  /// Gives the call, which is of that shape, its number, and the signature that follows from both.
  void number(uint64_t ofShape, uint64_t ofScope) {
    sequence = ofScope;
    signature = signatureOf(ofShape, ofScope);
  }
  static constexpr uint64_t kInGraphs = uint64_t{1} << 63;
  bool inGraph() const { return (scope & kInGraphs) != 0; }
  /// Without kInGraphs.
  uint64_t calls() const { return scope & ~kInGraphs; }
  /// The scope of what `from` sends to `to`. Never 0.
  static uint64_t pairScope(int from, int to) {
    return (static_cast<uint64_t>(from) + 1) << 32 | static_cast<uint32_t>(to);
  }
  /// "AllReduce(count 1024, float, sum)".
  std::string text() const;
};

/// The record of a validated `call`, made by `rank`, as number 0 of its scope.
CallRecord recordOf(const Call& call, int rank);

/// The buffers that this rank's part of a validated call reads and writes. Null: none.
struct UsedBuffers {
  const void *send = nullptr, *receive = nullptr;
};
UsedBuffers buffersOf(const Call& call, int rank, int ranks);

/// Checks everything that one rank can see: ranges, pointers, sizes. Error (invalidArgument): it names the
/// argument and its value. Not logged.
Status validate(const Call& call, int rank, int ranks);

}  // namespace eccl::runtime
