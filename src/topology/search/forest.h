// The search for trees: those along which AllGather, Broadcast and, run backwards, ReduceScatter are as fast
// as the links allow.
#pragma once

#include "base/status.h"
#include "topology/search/cut_bound.h"
#include "topology/search/tree_packing.h"

namespace eccl::topology {

/// The trees that were found, and how good they are.
struct Forest {
  std::vector<SpanningTree> trees;  ///< by root, the same number for each: one per channel
  int channels = 0;
  double rate = 0;  ///< of each tree, in the graph's units: what all can carry at once
  CutBound bound;
  /// What each terminal's data flow at, over all its trees; at most bound.perTerminal().
  double perTerminal() const { return rate * channels; }
  double ofBound() const { return perTerminal() / bound.perTerminal(); }
};

/// The forest with the largest share of the bound for at most `mostChannels` trees per terminal, and among
/// equals the one with the fewest trees. On graphs whose links are equally fast both ways the full bound is
/// reached once there are enough channels. Takes some milliseconds for 8 terminals, some tenths of a second
/// for 16. Pure.
///
/// Errors (invalidArgument): fewer than two terminals, a terminal that another cannot reach, or a capacity
/// below 1.
Result<Forest> searchForest(const CapacityGraph& graph, int mostChannels = 32);

}  // namespace eccl::topology
