// Scatter down a binomial tree: gather_tree.cc backwards. A node's own block comes last, and the farthest
// first, which have the longest way.
#include "algorithms/builder/patterns.h"
#include "algorithms/library/builders.h"

namespace eccl::algorithms {

Program scatterTree(const CollectiveShape& shape, const Placement&, int rank, int channels) {
  const int n = shape.ranks, place = mod(rank - shape.root, n);
  const TreeNode node = binomialTree(place, n);
  Builder b(shape, rank, channels, channels);
  if (node.parent >= 0) b.scratch(belowNode(rank, place, node, n));
  for (int channel = 0; channel < channels; ++channel) {
    b.lane(channel);
    const bool root = node.parent < 0;
    Reference result = output(rank).part(channel);
    Operand from = input(rank).part(channel);
    if (!root) {
      result.posted();
      from = connection(b.receiveFrom((node.parent + shape.root) % n, channel));
    }
    for (int child : node.children) {
      const Operand to = connection(b.sendTo((child + shape.root) % n, channel));
      const int blocks = behindNode(place, child, n);
      const Walk farthestFirst{0, mod(rank + child - place + blocks - 1, n), -1, n};
      if (root)
        b.step({input().part(channel).block(farthestFirst).stable()}, {to}).repeat(blocks);
      else
        b.step({from}, {scratch().part(channel).block(farthestFirst), to}).repeat(blocks);
    }
    b.step({from}, {result});
  }
  return b.take();
}

}  // namespace eccl::algorithms
