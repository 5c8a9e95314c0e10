// AllGather in one round: every rank sends its block to every other. Also a Barrier, which is an AllGather
// of one byte per rank.
#include "algorithms/builders.h"
#include "algorithms/patterns.h"

namespace eccl {

Program allGatherDirect(const CollectiveShape& shape, int rank, int channels) {
  const int n = shape.ranks;
  Builder b(shape, rank, channels, channels);
  for (int channel = 0; channel < channels; ++channel) {
    Reference own = input(rank).part(channel);
    if (n > 1) {
      int receives = receiveFromOthers(b, rank, n, channel);
      b.lane(channel);
      b.step({inTurn(receives)}, {output().part(channel).block(behind(rank, n)).posted()}).repeat(n - 1);
    }
    b.lane(channel);
    if (n > 1) {
      int sends = sendToOthers(b, rank, n, channel);
      b.step({Reference(own).stable()}, {inTurn(sends)}).repeat(n - 1);
    }
    b.step({own}, {output(rank).part(channel)});  // after the sends: nobody waits for it
  }
  return b.take();
}

}  // namespace eccl
