// AllReduce over two binary trees, each carrying half of the data: sums flow up, results flow down, tile
// after tile. A rank that is an interior node of one tree is a leaf of the other, so that every rank sends
// and receives about twice its data over both directions together, at a depth of log2 n instead of the
// ring's n (P. Sanders, J. Speck, J. L. Träff, "Two-tree algorithms for full bandwidth broadcast, reduction
// and scan", Parallel Computing 35(12), 2009).
//
// Up and down are lanes of their own: while results of one tile come down, sums of the next go up.
#include "algorithms/builder/patterns.h"
#include "algorithms/library/builders.h"

namespace eccl::algorithms {

Program allReduceTree(const CollectiveShape& shape, const Placement&, int rank, int channels) {
  const int n = shape.ranks;
  Builder b(shape, rank, channels, 2 * channels);
  for (int part = 0; part < 2 * channels; ++part) {
    const int channel = part / 2, tree = part % 2;
    // The second tree is the first one moved on by one rank.
    TreeNode node = symmetricTree(mod(rank - tree, n), n);
    auto rankOf = [&](int at) { return (at + tree) % n; };

    std::vector<Operand> down = {output().part(part)};
    for (int child : node.children) down.push_back(connection(b.sendTo(rankOf(child), channel, tree)));
    int children = static_cast<int>(node.children.size()), firstChild = 0;
    for (int i = 0; i < children; ++i) {
      int index = b.receiveFrom(rankOf(node.children[i]), channel, tree);
      if (i == 0) firstChild = index;
    }

    Reference own = input().part(part).pre();
    b.lane(channel);
    if (node.parent < 0) {
      reduceAll(b, own, firstChild, children, output().part(part), down).post();
      continue;
    }
    if (children == 0) own.stable();
    Operand up = connection(b.sendTo(rankOf(node.parent), channel, tree));
    reduceAll(b, own, firstChild, children, output().part(part), std::span(&up, 1));
    b.lane(channel);
    down[0].posted = true;
    Operand result = connection(b.receiveFrom(rankOf(node.parent), channel, tree));
    b.step(std::span(&result, 1), down);
  }
  return b.take();
}

}  // namespace eccl::algorithms
