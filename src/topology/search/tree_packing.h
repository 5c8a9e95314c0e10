// Tree packing: spanning trees, the same number from every terminal, that share the routes between terminals.
#pragma once

#include <optional>
#include <vector>

#include "topology/search/edge_splitting.h"

namespace eccl::topology {

/// A tree along which the data of its root reaches every other terminal once.
struct SpanningTree {
  int root = 0;
  /// Each from a terminal that the tree has reached to one it has not, by way of nodes that pass data on.
  std::vector<std::vector<int>> branches;
};

/// `each` trees from every terminal. A unit of a route's amount carries one branch. Nothing if some set of
/// terminals has too little leading into it, that is, where canFlow() says no.
///
/// Edmonds' theorem (1973) says that the trees exist where the cuts allow them. They are found as by Bérczi
/// and Frank (EGRES TR-2009-04), many equal trees at a time. Pure.
std::optional<std::vector<SpanningTree>> packTrees(const std::vector<int>& terminals, Routes routes,
                                                   int64_t each);

}  // namespace eccl::topology
