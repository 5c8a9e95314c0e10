// ReduceScatter around a ring: block r starts at rank r+1, collects every rank's contribution on the way
// round, and is final at rank r. The first half of the ring AllReduce. Two ranks: reduce_scatter_direct.
#include "algorithms/builder/patterns.h"
#include "algorithms/library/builders.h"

namespace eccl::algorithms {

Program reduceScatterRing(const CollectiveShape& shape, const Placement& placement, int rank, int channels) {
  const int n = shape.ranks;
  if (n <= 2) return reduceScatterDirect(shape, placement, rank, channels);
  Builder b(shape, rank, channels, channels);
  for (int channel = 0; channel < channels; ++channel) {
    b.lane(channel);
    auto own = [&](int distance) { return input().part(channel).block(behind(rank, n, distance)).pre(); };
    Operand result = output(rank).part(channel);
    Operand next = connection(b.sendTo((rank + 1) % n, channel));
    Operand previous = connection(b.receiveFrom(mod(rank - 1, n), channel));
    b.step({own(1).stable()}, {next});
    b.step({previous, own(2)}, {next}).repeat(n - 2);
    b.step({previous, own(0)}, {result}).post();
  }
  return b.take();
}

}  // namespace eccl::algorithms
