// The search for rings: cycles through all terminals that share the links.
#pragma once

#include "base/status.h"
#include "topology/search/cut_bound.h"

namespace eccl::topology {

/// One cycle through all terminals.
struct Ring {
  /// From the first terminal through all others and back to it (which is not repeated), with the nodes that
  /// only pass data on between them.
  std::vector<int> nodes;
};

/// The rings that were found, and how good they are.
struct Rings {
  std::vector<Ring> rings;  ///< one per channel
  double rate = 0;          ///< of each, in the graph's units: what all can carry at once
  CutBound bound;
  int terminals = 0;
  /// What each terminal's data flow at in an AllGather over all rings: every link of a ring carries the data of
  /// all terminals but one. At most bound.perTerminal().
  double perTerminal() const { return rate * static_cast<double>(rings.size()) / (terminals - 1); }
  double ofBound() const { return perTerminal() / bound.perTerminal(); }
};

/// The rings with the largest share of the bound that were found, at most `mostChannels`, and among equals
/// the fewest. It is not shown that there are none better: the problem contains Hamilton's. The work is
/// limited, and the same graph gives the same rings. Pure.
///
/// Errors (invalidArgument): those of searchForest(), and that no ring at all was found.
Result<Rings> searchRings(const CapacityGraph& graph, int mostChannels = 32);

}  // namespace eccl::topology
