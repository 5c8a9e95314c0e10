// AllGather in one round: every rank sends its block to every other. Also a Barrier, which is an AllGather
// of one byte per rank.
//
// Among as many ranks as a step has operands, one step hands the block to all: where the others' outputs can be
// reached it is read once and written where it belongs.
#include "algorithms/builder/patterns.h"
#include "algorithms/library/builders.h"

namespace eccl::algorithms {

Program allGatherDirect(const CollectiveShape& shape, const Placement&, int rank, int channels) {
  const int n = shape.ranks;
  Builder b(shape, rank, channels, channels);
  for (int channel = 0; channel < channels; ++channel) {
    Reference own = input(rank).part(channel), kept = output(rank).part(channel);
    b.lane(channel);
    if (n == 1) {
      b.step({own}, {kept});
      continue;
    }
    sendToAll(b, own, kept, sendToOthers(b, rank, n, channel), n - 1);
    const int receives = receiveFromOthers(b, rank, n, channel);
    b.lane(channel);
    b.step({inTurn(receives)}, {output().part(channel).block(behind(rank, n)).posted()}).repeat(n - 1);
  }
  return b.take();
}

}  // namespace eccl::algorithms
