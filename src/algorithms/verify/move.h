// What an AbstractExecutor and its Domain exchange: moves, and the messages that moves take and leave.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "program/program.h"

namespace eccl::algorithms {

/// Which data: parts [part, part+count) of a block, in a tile.
struct Label {
  int32_t block = 0, part = 0, count = 0, tile = 0;
  bool last = true, empty = false;  // streams: the block's last tile; a block of no elements
  bool operator==(const Label&) const = default;
};

/// A message on its way: what it carries, and the domain's data.
template <class Payload>
struct Message : Label {
  Payload payload;
};

/// One operand of a move, resolved. message is null for memory.
template <class Payload>
struct Term {
  const Operand* operand = nullptr;
  Message<Payload>* message = nullptr;
};

/// One repetition of one step in one tile. All its operands have the same label.
template <class Payload>
struct Move : Label {
  int rank = 0, lane = 0;  // lane: counted over all ranks
  int stepInLane = 0, repeat = 0;
  const Step* step = nullptr;
  Term<Payload> terms[2 * kMaxOperands];

  std::span<const Term<Payload>> sources() const { return {terms, step->sources}; }
  std::span<const Term<Payload>> destinations() const { return {terms + step->sources, step->destinations}; }
};

/// `lane`, about to begin a step, has seen that step of `onLane` finished in that tile. Lanes counted over all
/// ranks; both are of one rank.
struct LaneWait {
  int lane, tile, step;
  int onLane, onTile, onStep;
};

/// The sizes that an AbstractExecutor runs Programs with.
struct ExecutionSize {
  int tiles = 1;
  int slots = 1;
  /// True if a part has no elements in a tile: a move of nothing but such parts is skipped, at both ends.
  /// Unset: nothing is empty. Not for streams.
  std::function<bool(int block, int part, int tile)> empty = nullptr;
  /// Streams only: tiles of a block, 0 for an empty one. Unset: `tiles`.
  std::function<int(int block)> streamTiles = nullptr;
};

}  // namespace eccl::algorithms
