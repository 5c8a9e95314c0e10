// What each collective means, independently of any algorithm: which blocks each rank starts and ends with.
//
// Blocks are numbered for the communicator as a whole; data keeps its number on the way.
//   AllReduce, Broadcast, Reduce, Send/Recv      one block, 0
//   AllGather(v), Gather, Barrier                block r is rank r's contribution
//   ReduceScatter(v), Scatter                    block r is what rank r ends with
//   AlltoAll(v)                                  block s*n+d goes from rank s to rank d
//
// Threads: values and pure functions.
#pragma once

#include "program/program.h"

namespace eccl::algorithms {

/// A collective among so many ranks. The root is ignored by collectives without one.
struct CollectiveShape {
  Collective collective = Collective::allReduce;
  int ranks = 1, root = 0;

  /// The number of blocks of the whole communicator.
  int blocks() const;
  /// Which blocks a rank's input and output buffers hold, in the order they lie there.
  BlockMap input(int rank) const;
  BlockMap output(int rank) const;
  /// The rank whose input a block comes from. Not for collectives that reduce.
  int origin(int block) const;
  /// Whether `rank` may pass one pointer for both buffers, at the places that the API documents.
  bool mayBeInPlace(int rank) const;
  /// Whether input and output of a block are the same memory when the call is in place: true for every block
  /// that both maps hold.
  bool aliased(int rank, int block) const {
    return input(rank).position(block) >= 0 && output(rank).position(block) >= 0;
  }
};

}  // namespace eccl::algorithms
