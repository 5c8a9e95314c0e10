// AlltoAll and AlltoAllv in one round: every rank sends every other its block. In AlltoAllv the lengths are
// known to the sender and the receiver of a block only, so its programs are streams; direct, no message
// passes a third rank.
#include "algorithms/builder/patterns.h"
#include "algorithms/library/builders.h"

namespace eccl::algorithms {

Program allToAllDirect(const CollectiveShape& shape, const Placement&, int rank, int channels) {
  const int n = shape.ranks;
  Builder b(shape, rank, channels, channels);
  if (shape.collective == Collective::allToAllv) b.streams();
  for (int channel = 0; channel < channels; ++channel) {
    const bool known = shape.collective == Collective::allToAll;  // the length of a message, to its receiver
    b.lane(channel);
    if (n > 1) {
      int sends = sendToOthers(b, rank, n, channel);
      Walk leaving = ahead(rank, n);
      leaving.base = rank * n;
      Reference message = inTurn(sends);
      if (known) message.placed();
      b.step({input().part(channel).block(leaving).stable()}, {message}).repeat(n - 1);
    }
    // After the sends: nobody waits for it. In a lane of its own: they need not wait either.
    if (n > 1) b.lane(channel);
    const int own = rank * n + rank;
    b.step({input(own).part(channel)}, {output(own).part(channel)});
    if (n > 1) {
      int receives = receiveFromOthers(b, rank, n, channel);
      b.lane(channel);
      // Block s*n+rank, for the ranks s behind this one.
      Walk arriving{rank, mod(rank - 1, n) * n, -n, n * n};
      Reference arrived = output().part(channel).block(arriving);
      if (known) arrived.posted();
      b.step({inTurn(receives)}, {arrived}).repeat(n - 1);
    }
  }
  return b.take();
}

}  // namespace eccl::algorithms
