// Broadcast down a binomial tree: for short messages. Long ones take the chain, where a rank sends the data
// once; here the root sends it log2 n times, but after ceil(log2 n) rounds everybody has it, which a binary
// tree (two sends per level) does not reach.
#include <algorithm>

#include "algorithms/builder/patterns.h"
#include "algorithms/library/builders.h"

namespace eccl::algorithms {

Program broadcastTree(const CollectiveShape& shape, const Placement&, int rank, int channels) {
  const int n = shape.ranks;
  const TreeNode node = binomialTree(mod(rank - shape.root, n), n);
  const int children = static_cast<int>(node.children.size()), atOnce = std::min(children, kMaxOperands - 1);
  Builder b(shape, rank, channels, channels);
  for (int channel = 0; channel < channels; ++channel) {
    b.lane(channel);
    Reference result = output().part(channel);
    if (node.parent >= 0) result.posted();
    std::vector<Operand> destinations = {result};
    int first = 0;
    for (int i = 0; i < children; ++i) {
      int index = b.sendTo((node.children[i] + shape.root) % n, channel);
      if (i == 0) first = index;
      if (i < atOnce) destinations.push_back(connection(index));
    }
    Reference own = input().part(channel);
    if (children > 0) own.stable();
    Operand source = own;
    if (node.parent >= 0) source = connection(b.receiveFrom((node.parent + shape.root) % n, channel));
    b.step(std::span(&source, 1), destinations);
    // More than 7 children: from 129 ranks on.
    if (children > atOnce) {
      Reference data = node.parent < 0 ? input() : output();
      b.step({data.part(channel).stable()}, {inTurn(first + atOnce)}).repeat(children - atOnce);
    }
  }
  return b.take();
}

}  // namespace eccl::algorithms
