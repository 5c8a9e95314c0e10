// Reduce along a chain that ends at the root: for long messages. Every rank sends the data once, and the
// tiles of a message follow one another down the chain.
#include "algorithms/builder/patterns.h"
#include "algorithms/library/builders.h"

namespace eccl::algorithms {

Program reduceChain(const CollectiveShape& shape, const Placement&, int rank, int channels) {
  const int n = shape.ranks, place = mod(rank - shape.root, n);  // the sum starts at the last place
  Builder b(shape, rank, channels, channels);
  for (int channel = 0; channel < channels; ++channel) {
    b.lane(channel);
    const bool first = place == n - 1;
    Reference own = input().part(channel).pre();
    if (first && n > 1) own.stable();
    std::vector<Operand> sources = {own};
    if (!first) sources.push_back(connection(b.receiveFrom((rank + 1) % n, channel)));
    Operand destination = place == 0 ? output().part(channel) : connection(b.sendTo(mod(rank - 1, n), channel));
    auto step = b.step(sources, std::span(&destination, 1));
    if (place == 0) step.post();
  }
  return b.take();
}

}  // namespace eccl::algorithms
