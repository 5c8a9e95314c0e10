// Gather up a binomial tree: for many ranks, of whom the root then hears through log2 n connections.
//
// The ranks behind a node are those that follow it, so its blocks come up in order: its own, then those of each
// child, the nearest first. A message holds one block, and a relay passes each on as it comes.
#include "algorithms/builder/patterns.h"
#include "algorithms/library/builders.h"

namespace eccl::algorithms {

Program gatherTree(const CollectiveShape& shape, const Placement&, int rank, int channels) {
  const int n = shape.ranks, place = mod(rank - shape.root, n);
  const TreeNode node = binomialTree(place, n);
  Builder b(shape, rank, channels, channels);
  if (node.parent >= 0) b.scratch(belowNode(rank, place, node, n));
  for (int channel = 0; channel < channels; ++channel) {
    b.lane(channel);
    const bool root = node.parent < 0;
    Reference own = input(rank).part(channel);
    Operand up = output(rank).part(channel);
    if (!root) {
      own.stable();
      up = connection(b.sendTo((node.parent + shape.root) % n, channel));
    }
    b.step({own}, {up});
    for (auto next = node.children.rbegin(); next != node.children.rend(); ++next) {
      const int child = *next;
      const Operand from = connection(b.receiveFrom((child + shape.root) % n, channel));
      const Walk blocks = ahead(rank, n, child - place);
      if (root)
        b.step({from}, {output().part(channel).block(blocks).posted()}).repeat(behindNode(place, child, n));
      else
        b.step({from}, {scratch().part(channel).block(blocks), up}).repeat(behindNode(place, child, n));
    }
  }
  return b.take();
}

}  // namespace eccl::algorithms
