// Broadcast along a chain from the root: for long messages. Every rank sends the data once, and the tiles of
// a message follow one another down the chain.
#include "algorithms/builder/patterns.h"
#include "algorithms/library/builders.h"

namespace eccl::algorithms {

Program broadcastChain(const CollectiveShape& shape, const Placement&, int rank, int channels) {
  const int n = shape.ranks, place = mod(rank - shape.root, n);
  Builder b(shape, rank, channels, channels);  // each block in `channels` parts
  for (int channel = 0; channel < channels; ++channel) {
    b.lane(channel);
    Reference result = output().part(channel);
    if (place > 0) result.posted();  // not used before it arrives: the peer may write it in place
    std::vector<Operand> destinations = {result};
    if (place + 1 < n) destinations.push_back(connection(b.sendTo((rank + 1) % n, channel)));
    Reference own = input().part(channel);
    if (n > 1) own.stable();  // never written: the peer may read it in place
    Operand source = place == 0 ? own : connection(b.receiveFrom(mod(rank - 1, n), channel));
    b.step(std::span(&source, 1), destinations);  // receive, keep, pass on
  }
  return b.take();
}

}  // namespace eccl::algorithms
