// Scatter: the root sends everybody its block.
#include "algorithms/builder/patterns.h"
#include "algorithms/library/builders.h"

namespace eccl::algorithms {

Program scatterDirect(const CollectiveShape& shape, const Placement&, int rank, int channels) {
  const int n = shape.ranks;
  Builder b(shape, rank, channels, channels);
  for (int channel = 0; channel < channels; ++channel) {
    b.lane(channel);
    Reference result = output(rank).part(channel);
    if (rank != shape.root) {
      b.step({connection(b.receiveFrom(shape.root, channel))}, {result.posted()});
      continue;
    }
    Reference blocks = input().part(channel);
    if (n > 1) {
      int sends = sendToOthers(b, rank, n, channel);
      b.step({Reference(blocks).block(ahead(rank, n)).stable()}, {inTurn(sends)}).repeat(n - 1);
    }
    b.step({blocks.block(rank)}, {result});  // after the sends: nobody waits for it
  }
  return b.take();
}

}  // namespace eccl::algorithms
