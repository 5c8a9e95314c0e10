// AllGather by doubling: in round k each rank passes its first 2^k blocks on to the rank 2^k behind it.
// ceil(log2 n) rounds for any n, and that many neighbours (J. Bruck et al., "Efficient algorithms for
// all-to-all communications in multiport message-passing systems", IEEE TPDS 8(11), 1997).
//
// Blocks may differ in size and a message holds one block: n-1 messages, in bursts that need no answer.
// Receiving has a lane of its own, so that no burst waits for the peer's to end.
#include <algorithm>

#include "algorithms/builder/patterns.h"
#include "algorithms/library/builders.h"

namespace eccl::algorithms {

Program allGatherRecursive(const CollectiveShape& shape, const Placement&, int rank, int channels) {
  const int n = shape.ranks;
  Builder b(shape, rank, channels, channels);
  for (int channel = 0; channel < channels; ++channel) {
    auto blocks = [&](int distance) { return output().part(channel).block(ahead(rank, n, distance)); };
    Reference own = input(rank).part(channel), copy = output(rank).part(channel);
    if (n == 1) {
      b.lane(channel);
      b.step({own}, {copy});
      continue;
    }
    const int receiving = b.lane(channel);
    for (int held = 1; held < n; held *= 2) {
      Operand from = connection(b.receiveFrom((rank + held) % n, channel));
      b.step({from}, {blocks(held).posted()}).repeat(std::min(held, n - held));
    }
    b.lane(channel);
    int round = 0;
    for (int held = 1; held < n; held *= 2, ++round) {
      Operand to = connection(b.sendTo(mod(rank - held, n), channel));
      if (round == 0) {
        b.step({own.stable()}, {copy, to});
      } else {
        b.step({blocks(0).stable()}, {to}).repeat(std::min(held, n - held)).after(receiving, round - 1);
      }
    }
  }
  return b.take();
}

}  // namespace eccl::algorithms
