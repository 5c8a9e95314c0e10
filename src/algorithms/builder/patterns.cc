// Patterns of several algorithms: peers in turn, sums of many messages, trees.
#include "algorithms/builder/patterns.h"

namespace eccl::algorithms {

int sendToOthers(Builder& b, int rank, int n, int channel, int tag) {
  int first = b.sendTo(mod(rank + 1, n), channel, tag);
  for (int i = 2; i < n; ++i) b.sendTo(mod(rank + i, n), channel, tag);
  return first;
}

int receiveFromOthers(Builder& b, int rank, int n, int channel, int tag) {
  int first = b.receiveFrom(mod(rank - 1, n), channel, tag);
  for (int i = 2; i < n; ++i) b.receiveFrom(mod(rank - i, n), channel, tag);
  return first;
}

void sendToAll(Builder& b, Reference own, Operand kept, int first, int number, bool pushed) {
  const Operand lent = Reference(own).stable();
  const auto sent = [&](Reference message) { return pushed ? message.pushed() : message.placed(); };
  if (number > kPeersPerStep) {
    b.step({lent}, {sent(inTurn(first))}).repeat(number);
    b.step({own}, {kept});  // after the sends: nobody waits for it
    return;
  }
  std::vector<Operand> destinations = {kept};
  for (int i = 0; i < number; ++i) destinations.push_back(sent(connection(first + i)));
  b.step(std::span(&lent, 1), destinations);
}

Builder::StepRef reduceAll(Builder& b, Operand own, int first, int peers, Operand sum,
                           std::span<const Operand> destinations) {
  // Sources: `start`, then `width` connections from `from` on; a repetition goes on to the next `width`.
  auto sources = [&](Operand start, int from, int width) {
    std::vector<Operand> operands = {start};
    for (int i = 0; i < width; ++i) operands.push_back(connections({first + from + i, 0, width, 0}));
    return operands;
  };
  if (peers <= kPeersPerStep) return b.step(sources(own, 0, peers), destinations);
  b.step(sources(own, 0, kPeersPerStep), std::span(&sum, 1));
  int left = peers - kPeersPerStep, full = (left - 1) / kPeersPerStep;
  if (full > 0) b.step(sources(sum, kPeersPerStep, kPeersPerStep), std::span(&sum, 1)).repeat(full);
  int done = kPeersPerStep * (full + 1);
  return b.step(sources(sum, done, peers - done), destinations);
}

TreeNode binomialTree(int node, int n) {
  TreeNode tree;
  int lowest = node & -node, reach = 1;
  while (reach < (node == 0 ? n : lowest)) reach *= 2;
  for (int bit = reach / 2; bit > 0; bit /= 2) {
    if (node + bit < n) tree.children.push_back(node + bit);
  }
  if (node > 0) tree.parent = node - lowest;
  return tree;
}

BlockMap belowNode(int rank, int place, const TreeNode& node, int n) {
  int blocks = 0;
  for (int child : node.children) blocks += behindNode(place, child, n);
  if (blocks == 0) return {};
  return rank + blocks < n ? BlockMap{rank + 1, 1, blocks} : BlockMap{0, 1, n};
}

TreeNode symmetricTree(int node, int n) {
  TreeNode tree;
  const int k = node + 1, lowest = k & -k;  // from 1: the lowest set bit is the height
  if (lowest > 1) {
    tree.children.push_back(k - lowest / 2 - 1);
    // The right child, or below it to the left as far as places beyond n are missing.
    int bit = lowest / 2;
    while (bit > 0 && k + bit > n) bit /= 2;
    if (bit > 0) tree.children.push_back(k + bit - 1);
  }
  // Upwards past missing places. The root is the greatest power of two that fits.
  int at = k;
  do {
    int bit = at & -at;
    at = (at ^ bit) | bit << 1;
  } while (at > n && (at & (at - 1)) != 0);
  if (at <= n) tree.parent = at - 1;
  return tree;
}

}  // namespace eccl::algorithms
