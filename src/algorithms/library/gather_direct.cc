// Gather: everybody sends its block to the root.
#include "algorithms/builder/patterns.h"
#include "algorithms/library/builders.h"

namespace eccl::algorithms {

Program gatherDirect(const CollectiveShape& shape, const Placement&, int rank, int channels) {
  const int n = shape.ranks;
  Builder b(shape, rank, channels, channels);
  for (int channel = 0; channel < channels; ++channel) {
    b.lane(channel);
    Reference own = input(rank).part(channel);
    if (rank != shape.root) {
      b.step({own.stable()}, {connection(b.sendTo(shape.root, channel))});
      continue;
    }
    b.step({own}, {output(rank).part(channel)});  // first: the others need time to arrive
    if (n == 1) continue;
    int receives = receiveFromOthers(b, rank, n, channel);
    b.step({inTurn(receives)}, {output().part(channel).block(behind(rank, n)).posted()}).repeat(n - 1);
  }
  return b.take();
}

}  // namespace eccl::algorithms
