// Broadcast in one round in which the root takes its share of the work: n parts, of which it writes one to
// everybody and the others read the rest. For memory that ranks reach; for two ranks that is half each. As long
// as there is a core for each rank it takes (n-1)/n of the time of broadcast_direct.
#include "algorithms/builder/patterns.h"
#include "algorithms/library/builders.h"

namespace eccl::algorithms {

Program broadcastSplit(const CollectiveShape& shape, const Placement&, int rank, int channels) {
  const int n = shape.ranks, others = n - 1;
  Builder b(shape, rank, channels, n * channels);
  for (int channel = 0; channel < channels; ++channel) {
    const int pushed = channel * n, pulled = pushed + 1;
    b.lane(channel);
    if (n == 1) {
      b.step({input().part(pushed)}, {output().part(pushed)});
      continue;
    }
    if (rank != shape.root) {
      b.step({connection(b.receiveFrom(shape.root, channel))}, {output().part(pulled).count(others).posted()});
      b.lane(channel);
      b.step({connection(b.receiveFrom(shape.root, channel, 1))}, {output().part(pushed).posted()});
      continue;
    }
    Reference rest = input().part(pulled).count(others);
    // First, so that the others can begin.
    b.step({Reference(rest).stable()}, {inTurn(sendToOthers(b, rank, n, channel))}).repeat(others);
    b.lane(channel);
    sendToAll(b, input().part(pushed), output().part(pushed), sendToOthers(b, rank, n, channel, 1), others,
              true);
    b.step({rest}, {output().part(pulled).count(others)});
  }
  return b.take();
}

}  // namespace eccl::algorithms
