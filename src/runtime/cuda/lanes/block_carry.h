// The data of a move: from memory and slots to memory and slots, by all threads of a block.
#pragma once

#include "runtime/cuda/lanes/block_lines.h"

namespace eccl::runtime::cuda::lanes {

template <class E, class Block>
class BlockCarry : protected BlockLines<E, Block> {
 protected:
  using Lines = BlockLines<E, Block>;
  using Lines::address, Lines::block_, Lines::boundsOf, Lines::inMemory, Lines::piecesOf, Lines::s_;
  using Lines::shareOf, Lines::thread;
  ECCL_DEVICE BlockCarry(Block& block, BlockState& state) : Lines(block, state) {}

  /// The data of a move whose messages are in slots, or where memory is.
  ECCL_DEVICE void carry(uint32_t i, const Move& move, const Strip& strip) {
    const uint32_t operands = move.sources + move.destinations;
    const uint32_t number = move.relay ? 1 : move.pieces;
    // What its sender has put in its place is there.
    if (number == 1 && move.sources == 1 && s_.found[0].way == Way::place) {
      if (thread() == 0) {
        s_.work.source[0] = s_.work.destination[0];
        s_.work.destination[0] = nullptr;
      }
      block_.sync();
    }
    uint64_t at = 0;
    for (uint32_t p = 0; p < number; ++p) {
      uint64_t share = s_.length;
      if (number > 1) {  // else the addresses have been found with the messages
        const Piece& piece = piecesOf(i, move)[p];
        const Bounds bounds = boundsOf(strip.tile, strip.number);
        share = shareOf(piece, bounds);
        for (uint32_t o = thread(); o < operands; o += block_.threads()) {
          const Found& found = s_.found[o];
          address(move, o, found.end < 0 ? inMemory(found, piece, p, strip.tile, bounds.begin) : found.at + at);
        }
        block_.sync();
      }
      combineAll<E>(block_, s_.work, share);
      if (number > 1) block_.sync();
      at += (share + 15) / 16 * 16;
    }
  }
};

}  // namespace eccl::runtime::cuda::lanes
