// AllGather around a ring: every rank passes on what it received last. n-1 rounds, and only one neighbour
// to send to and one to receive from. Two ranks have no others: all_gather_direct.
#include "algorithms/builder/patterns.h"
#include "algorithms/library/builders.h"

namespace eccl::algorithms {

Program allGatherRing(const CollectiveShape& shape, const Placement& placement, int rank, int channels) {
  const int n = shape.ranks;
  if (n <= 2) return allGatherDirect(shape, placement, rank, channels);
  Builder b(shape, rank, channels, channels);
  for (int channel = 0; channel < channels; ++channel) {
    b.lane(channel);
    Reference own = input(rank).part(channel), copy = output(rank).part(channel);
    Operand next = connection(b.sendTo((rank + 1) % n, channel));
    Operand previous = connection(b.receiveFrom(mod(rank - 1, n), channel));
    b.step({own.stable()}, {copy, next});
    auto received = output().part(channel).posted();
    b.step({previous}, {received.block(behind(rank, n)), next}).repeat(n - 2);
    b.step({previous}, {received.block(mod(rank + 1, n))});
  }
  return b.take();
}

}  // namespace eccl::algorithms
