// What each collective means, independently of any algorithm: which blocks each rank starts and ends with.
//
// Blocks are numbered for the communicator as a whole; data never changes its number on the way.
//   AllReduce, Broadcast, Reduce, Send/Recv      one block, 0
//   AllGather(v), Gather, Barrier                block r is rank r's contribution
//   ReduceScatter(v), Scatter                    block r is what rank r ends with
//   AlltoAll(v)                                  block s*n+d goes from rank s to rank d
#pragma once

#include "program/program.h"

namespace eccl::algorithms {

struct CollectiveShape {
  Collective collective = Collective::allReduce;
  int ranks = 1, root = 0;

  /// Number of global blocks.
  int blocks() const;
  BlockMap input(int rank) const;
  BlockMap output(int rank) const;
  /// The rank whose input a block of a non-reducing collective comes from.
  int origin(int block) const;
  /// True if `rank` may pass one pointer for both buffers, at the places the API documents.
  bool mayBeInPlace(int rank) const;
  /// The block whose place in the input is also its place in the output when the call is in place: every
  /// block both maps hold.
  bool aliased(int rank, int block) const {
    return input(rank).position(block) >= 0 && output(rank).position(block) >= 0;
  }
};

}  // namespace eccl::algorithms
