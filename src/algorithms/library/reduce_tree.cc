// Reduce up a binomial tree: for short messages, as broadcast_tree.cc says. A rank sums up all its children
// in one step; beyond 7 of them (from 129 ranks on) an intermediate sum is kept.
#include "algorithms/builder/patterns.h"
#include "algorithms/library/builders.h"

namespace eccl::algorithms {

Program reduceTree(const CollectiveShape& shape, const Placement&, int rank, int channels) {
  const int n = shape.ranks;
  const TreeNode node = binomialTree(mod(rank - shape.root, n), n);
  const int children = static_cast<int>(node.children.size());
  const bool isRoot = node.parent < 0;
  Builder b(shape, rank, channels, channels);
  if (!isRoot && children > kPeersPerStep) b.scratch({0, 1, 1});
  for (int channel = 0; channel < channels; ++channel) {
    b.lane(channel);
    int first = 0;
    for (int i = children - 1; i >= 0; --i) {  // the child that is ready first comes first
      int index = b.receiveFrom((node.children[i] + shape.root) % n, channel);
      if (i == children - 1) first = index;
    }
    Reference own = input().part(channel).pre(), sum = isRoot ? output() : scratch();
    if (!isRoot && children == 0) own.stable();
    Operand destination =
        isRoot ? output().part(channel) : connection(b.sendTo((node.parent + shape.root) % n, channel));
    auto step = reduceAll(b, own, first, children, sum.part(channel), std::span(&destination, 1));
    if (isRoot) step.post();
  }
  return b.take();
}

}  // namespace eccl::algorithms
