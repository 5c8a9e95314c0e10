// How the blocks of a call are divided: into parts, which an algorithm names, and tiles, which fit a slot.
//
// A block of 10 elements in 3 parts, with grain 1 and tiles of 2 elements:
//   part 0: [0, 4)    tile 0: [0, 2)    tile 1: [2, 4)
//   part 1: [4, 7)    tile 0: [4, 6)    tile 1: [6, 7)
//   part 2: [7, 10)   tile 0: [7, 9)    tile 1: [9, 10)
#pragma once

#include <cstdint>

#include "program/program.h"

namespace eccl {

/// [begin, end) in elements, relative to the start of the block.
struct Slice {
  uint64_t begin, end;
  ECCL_DEVICE constexpr uint64_t size() const { return end - begin; }
};

/// How blocks are divided into parts and tiles. All ranks compute it alike.
struct Partition {
  int32_t parts = 1;
  uint64_t grain = 1;          // parts begin at multiples of this many elements
  uint64_t tile = UINT64_MAX;  // elements of one part per tile

  /// Where part `part` of a block begins; part == parts gives its end. Equal parts, the first ones one grain
  /// longer.
  ECCL_DEVICE constexpr uint64_t partBegin(uint64_t elements, int32_t part) const {
    uint64_t units = (elements + grain - 1) / grain;
    uint64_t p = static_cast<uint64_t>(part), each = units / parts, rest = units % parts;
    uint64_t begin = (p * each + (p < rest ? p : rest)) * grain;
    return begin < elements ? begin : elements;
  }
  /// The longest part of a block.
  ECCL_DEVICE constexpr uint64_t longestPart(uint64_t elements) const { return partBegin(elements, 1); }
  /// Tiles that a block needs, by its longest part; 0 for an empty block. Shorter parts may end in an earlier
  /// one.
  ECCL_DEVICE constexpr uint64_t tiles(uint64_t elements) const {
    uint64_t longest = longestPart(elements);
    return longest / tile + (longest % tile != 0);
  }
  /// Whether `count` parts of a block are one piece of memory in each tile. In scratch parts do not adjoin.
  ECCL_DEVICE constexpr bool adjoin(uint64_t elements, int32_t count, bool scratch) const {
    return count == 1 || (!scratch && tiles(elements) <= 1);
  }
  /// The piece of one part that belongs to a tile; empty beyond its end.
  ECCL_DEVICE constexpr Slice slice(uint64_t elements, int32_t part, uint64_t tileIndex) const {
    uint64_t begin = partBegin(elements, part), end = partBegin(elements, part + 1);
    uint64_t length = end - begin,
             from = tileIndex * tile;  // callers keep tileIndex*tile below the part's length + tile
    if (from >= length) return {end, end};
    uint64_t to = length - from > tile ? from + tile : length;
    return {begin + from, begin + to};
  }
};

/// The partition of a call whose largest block has so many elements, for messages of at most `slotBytes`. The
/// same for all ranks' programs of a schedule. A slot holds program.messageParts elements at least. Pure.
Partition partitionFor(const Program& program, uint64_t largestBlock, uint32_t elementBytes,
                       uint64_t slotBytes);

}  // namespace eccl
