// What several algorithms share: the order in which a rank visits its peers, trees, and the sum of many
// messages. Functions are pure, apart from what they append to the Builder they are given.
#pragma once

#include <initializer_list>
#include <vector>

#include "algorithms/builder/builder.h"

namespace eccl::algorithms {

/// value mod n, never negative.
constexpr int mod(int value, int n) {
  return ((value % n) + n) % n;
}

/// Walks around the ring of n ranks. ahead(): rank+distance, rank+distance+1, …; behind(): rank-distance,
/// rank-distance-1, ….
constexpr Walk ahead(int rank, int n, int distance = 1) {
  return {0, mod(rank + distance, n), 1, n};
}
constexpr Walk behind(int rank, int n, int distance = 1) {
  return {0, mod(rank - distance, n), -1, n};
}

/// Connections first, first+1, …, one in each repetition.
inline Reference inTurn(int first) {
  return connections({first, 0, 1, 0});
}

/// Adds n-1 ends, in the order in which ahead() and behind() visit. In round i every rank sends to the rank
/// i+1 ahead and receives from the rank i+1 behind, so that no rank is the target of two. Both functions
/// return the first index.
int sendToOthers(Builder& b, int rank, int n, int channel, int tag = 0);
int receiveFromOthers(Builder& b, int rank, int n, int channel, int tag = 0);

/// Delivers `own` to memory (`kept`) and to `number` connections, from `first` on, whose receivers post a
/// place for it. One step if that many operands fit into one. `pushed`: Operand::pushed.
void sendToAll(Builder& b, Reference own, Operand kept, int first, int number, bool pushed = false);

/// Reduces `own` and one message from each of `peers` connections, from `first` on, into `destinations`, in
/// that order of summation. At most 3 steps for any number of peers: more than fit one step are summed up in
/// `sum`, memory that `own` may be read from. Returns the last step, the only one that writes destinations.
Builder::StepRef reduceAll(Builder& b, Operand own, int first, int peers, Operand sum,
                           std::span<const Operand> destinations);
/// The most peers that reduceAll() serves without touching `sum`.
inline constexpr int kPeersPerStep = kMaxOperands - 1;

/// The neighbours of a node in a tree. The root's parent is -1.
struct TreeNode {
  int parent = -1;  // of the root
  std::vector<int> children;
};

/// The binomial tree rooted at 0, with the deepest child first. It takes ceil(log2 n) rounds, the fewest
/// possible when a rank sends one message in a round.
TreeNode binomialTree(int node, int n);
/// How many nodes of that tree are `child`, a child of `node`, and what is below it: they are child, child+1,
/// ….
constexpr int behindNode(int node, int child, int n) {
  return child - node < n - child ? child - node : n - child;
}
/// The blocks of the ranks below `rank`, which is `node` of that tree. They follow its own, around the ring
/// of n.
BlockMap belowNode(int rank, int place, const TreeNode& node, int n);

/// The binary tree over 0…n-1 in symmetric order: node k-1 hangs by the lowest set bit of k. Even nodes are
/// leaves and odd nodes have children, so a copy shifted by one has other interior nodes.
TreeNode symmetricTree(int node, int n);

}  // namespace eccl::algorithms
