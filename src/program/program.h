// The intermediate representation: a collective is a Program, one per rank.
//
// A Program is data. The verifier proves it, the text tools print it, the interpreter runs it. It names
// blocks and parts of buffers, and connections; it knows no sizes, pointers, transports or devices.
//
//   for each lane, independently:  for tile { for step { for repeat { move } } }
//
// A move combines 1…8 sources with the call's reduction and delivers the result to 0…8 destinations. An
// operand is a piece of memory (a block's contiguous parts) or one message on a connection. Send, receive,
// copy, receive-reduce, receive-reduce-send: all of them are this one step.
//
// Everything here is plain data with fixed-width fields, readable by device code as it lies.
#pragma once

#include <cstdint>
#include <vector>

#include "base/types.h"

#if defined(__CUDACC__)
#define ECCL_DEVICE __host__ __device__
#else
#define ECCL_DEVICE
#endif

namespace eccl {

inline constexpr int kMaxOperands = 8;  // sources, and destinations, of one step

/// Where an operand is. input and output are the caller's buffers, which may be the same memory. scratch is
/// memory of the Run that holds one tile.
enum class Space : uint8_t { input, output, scratch, connection };
inline constexpr int kMemorySpaces = 3;

/// An index that walks with the repetition: base + (start + i*stride) mod wrap; no modulus when wrap is 0.
struct Walk {
  int32_t base = 0, start = 0, stride = 0, wrap = 0;

  ECCL_DEVICE constexpr int32_t at(int32_t i) const {
    int64_t value = start + static_cast<int64_t>(i) * stride;
    if (wrap > 0) {
      value %= wrap;
      if (value < 0) value += wrap;
    }
    return static_cast<int32_t>(base + value);
  }
  bool operator==(const Walk&) const = default;
};

/// A source or destination of a step. In memory: parts [part, part+count) of a block, which is `index`. A
/// message: `index` into Program::connections.
struct Operand {
  Space space = Space::input;
  /// A source of raw contributions, to be scaled as the reduction asks (Avg on floats, PreMulSum).
  bool pre = false;
  /// This source memory may be handed to the receiver instead of a copy: the program does not write it
  /// before the receiver has read it. A claim of the builder, proved by the verifier.
  bool stable = false;
  /// This destination memory may be written by the sender of the only source, a message, from the beginning of
  /// the tile on: the program does nothing with it that does not happen before that message is sent. Never
  /// scratch. A claim of the builder, proved by the verifier.
  bool posted = false;
  /// The receiver of this message posts a place for it: the data goes there rather than by a reference, unless
  /// the receiver would rather read it, and a long message is worth a moment's wait to be told the place.
  /// Promises nothing.
  bool placed = false;
  /// Of a placed message: the sender writes it rather than have it read, as it has nothing else to do while the
  /// receiver reads other messages.
  bool pushed = false;
  int32_t count = 1;
  Walk index;
  Walk part;
  bool operator==(const Operand&) const = default;
};

inline constexpr int32_t kNoLane = -1;

/// One line of a lane, made `repeat` times in each tile. Sources are combined in their order with the call's
/// reduction, and the result goes to all destinations. Without destinations messages are taken and dropped.
struct Step {
  int32_t firstOperand = 0;  // into Program::operands: the sources, then the destinations
  uint8_t sources = 0, destinations = 0;
  bool post = false;  // the result is final: integer Avg divides here
  bool waitPreviousTile = false;
  int32_t repeat = 1;
  /// Before its first repetition the step waits until step `waitStep` of lane `waitLane` (same rank) has
  /// finished all its repetitions in the same tile, or in the tile before.
  int32_t waitLane = kNoLane, waitStep = 0;
  bool operator==(const Step&) const = default;
};

/// Steps [firstStep, firstStep+steps) in order, in each tile. A lane is a counter, not a thread. Different
/// lanes have no order but that of Step::waitLane.
struct Lane {
  int32_t firstStep = 0, steps = 0, channel = 0;
  bool operator==(const Lane&) const = default;
};

/// This rank's end of a first-in-first-out connection. Ends match on (sender, receiver, channel, tag).
struct ConnectionSpec {
  int32_t peer = 0;
  bool sends = false;
  int16_t channel = 0, tag = 0;
  bool operator==(const ConnectionSpec&) const = default;
};

/// Which global blocks a buffer holds, in the order they lie there: first, first+stride, … (number of them).
struct BlockMap {
  int32_t first = 0, stride = 1, number = 0;

  /// The position of a block in the buffer, or -1.
  ECCL_DEVICE constexpr int32_t position(int32_t block) const {
    int32_t distance = block - first;
    if (number == 0 || distance < 0 || distance % stride != 0) return -1;
    int32_t at = distance / stride;
    return at < number ? at : -1;
  }
  /// The block at a position from 0 to number - 1.
  constexpr int32_t block(int32_t position) const { return first + position * stride; }
  bool operator==(const BlockMap&) const = default;
};

/// What one rank does in a collective. A value, without reference to anything else.
///
/// Nothing here checks that it makes sense: algorithms/verify proves that for the Programs of all ranks
/// together, and the interpreter relies on it.
struct Program {
  Collective collective = Collective::allReduce;
  int32_t rank = 0, ranks = 1, root = 0;
  int32_t parts = 1;  // each block is cut into this many
  int32_t channels = 1;
  /// The most parts that one message of any rank carries. All ranks cut tiles by it, so that a message fits a
  /// slot.
  int32_t messageParts = 1;
  /// Streams: the length of a block is known only to the ranks that hold it in memory; every message
  /// carries its length and whether it is the block's last, and every block sends at least one message.
  bool streams = false;
  BlockMap maps[kMemorySpaces];
  std::vector<ConnectionSpec> connections;
  std::vector<Lane> lanes;
  std::vector<Step> steps;
  std::vector<Operand> operands;

  const BlockMap& map(Space space) const { return maps[static_cast<int>(space)]; }
  BlockMap& map(Space space) { return maps[static_cast<int>(space)]; }
  bool operator==(const Program&) const = default;
};

}  // namespace eccl
