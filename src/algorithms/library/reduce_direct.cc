// Reduce in one round: everybody sends to the root, which sums up to 8 contributions per step.
#include "algorithms/builder/patterns.h"
#include "algorithms/library/builders.h"

namespace eccl::algorithms {

Program reduceDirect(const CollectiveShape& shape, const Placement&, int rank, int channels) {
  const int n = shape.ranks;
  Builder b(shape, rank, channels, channels);
  for (int channel = 0; channel < channels; ++channel) {
    b.lane(channel);
    Reference own = input().part(channel).pre();
    if (rank != shape.root) {
      b.step({own.stable()}, {connection(b.sendTo(shape.root, channel))});
      continue;
    }
    int receives = n > 1 ? receiveFromOthers(b, rank, n, channel) : 0;
    Operand result = output().part(channel);
    reduceAll(b, own, receives, n - 1, result, std::span(&result, 1)).post();
  }
  return b.take();
}

}  // namespace eccl::algorithms
