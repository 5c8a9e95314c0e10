// Broadcast in one round: the root sends to everybody. Where a send is only a reference to the root's
// memory, everybody copies from it at the same time.
#include "algorithms/builder/patterns.h"
#include "algorithms/library/builders.h"

namespace eccl::algorithms {

Program broadcastDirect(const CollectiveShape& shape, const Placement&, int rank, int channels) {
  const int n = shape.ranks;
  Builder b(shape, rank, channels, channels);
  for (int channel = 0; channel < channels; ++channel) {
    b.lane(channel);
    Reference result = output().part(channel);
    if (rank != shape.root) {
      b.step({connection(b.receiveFrom(shape.root, channel))}, {result.posted()});
      continue;
    }
    Reference own = input().part(channel);
    if (n > 1) {
      int sends = sendToOthers(b, rank, n, channel);
      b.step({Reference(own).stable()}, {inTurn(sends)}).repeat(n - 1);
    }
    b.step({own}, {result});
  }
  return b.take();
}

}  // namespace eccl::algorithms
