// ReduceScatter in one round: every rank sends each other its block, and reduces what it gets. With up to
// 8 ranks the whole reduction is one step that reads everything once.
#include "algorithms/builder/patterns.h"
#include "algorithms/library/builders.h"

namespace eccl::algorithms {

Program reduceScatterDirect(const CollectiveShape& shape, const Placement&, int rank, int channels) {
  const int n = shape.ranks;
  Builder b(shape, rank, channels, channels);
  for (int channel = 0; channel < channels; ++channel) {
    if (n > 1) {  // first: the others wait for it
      int sends = sendToOthers(b, rank, n, channel);
      b.lane(channel);
      b.step({input().part(channel).block(ahead(rank, n)).pre().stable()}, {inTurn(sends)}).repeat(n - 1);
    }
    int receives = n > 1 ? receiveFromOthers(b, rank, n, channel) : 0;
    b.lane(channel);
    Operand result = output(rank).part(channel);
    reduceAll(b, input(rank).part(channel).pre(), receives, n - 1, result, std::span(&result, 1)).post();
  }
  return b.take();
}

}  // namespace eccl::algorithms
