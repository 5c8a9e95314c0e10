// AllGather around a ring: every rank passes on what it received last. n-1 rounds, and only one neighbour
// to send to and one to receive from.
#include "algorithms/builder/patterns.h"
#include "algorithms/library/builders.h"

namespace eccl::algorithms {

Program allGatherRing(const CollectiveShape& shape, const Placement&, int rank, int channels) {
  const int n = shape.ranks;
  Builder b(shape, rank, channels, channels);
  for (int channel = 0; channel < channels; ++channel) {
    b.lane(channel);
    Reference own = input(rank).part(channel), copy = output(rank).part(channel);
    if (n == 1) {
      b.step({own}, {copy});
      continue;
    }
    Operand next = connection(b.sendTo((rank + 1) % n, channel));
    Operand previous = connection(b.receiveFrom(mod(rank - 1, n), channel));
    // Of two ranks as all_gather_direct: the receiver posts a place, and chooses.
    Operand first = next;
    first.placed = n == 2;
    b.step({own.stable()}, {copy, first});
    auto received = output().part(channel).posted();
    if (n > 2) b.step({previous}, {received.block(behind(rank, n)), next}).repeat(n - 2);
    if (n == 2) b.lane(channel);
    b.step({previous}, {received.block(mod(rank + 1, n))});
  }
  return b.take();
}

}  // namespace eccl::algorithms
