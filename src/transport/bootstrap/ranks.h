// Sets of ranks as people read them, and the shape of the control tree.
#pragma once

#include <string>
#include <vector>

namespace eccl::transport {

/// "rank 7" or "ranks 3-5, 7"; "no rank" for an empty list. `ranks` ascend, each once. A list of many pieces
/// ends in "and 93 more".
std::string nameRanks(const std::vector<int>& ranks);

/// The control tree is a k-ary heap. k = 8 keeps 512 ranks within 3 hops of rank 0 and at most 9 sockets per
/// rank.
inline constexpr int kTreeFanout = 8;
/// -1 for rank 0, the top of the tree.
inline constexpr int treeParent(int rank) {
  return rank == 0 ? -1 : (rank - 1) / kTreeFanout;
}
/// In ascending order; at most kTreeFanout.
std::vector<int> treeChildren(int rank, int nranks);
/// The neighbour of `rank` that is next on the way to `target` (another rank).
int treeNextHop(int rank, int target);

}  // namespace eccl::transport
