// AllReduce in two rounds: rank p collects part p from everybody and reduces it, then hands the result to
// everybody. The ring's volume in 2 rounds instead of 2(n-1), for 2(n-1) connections per rank. Each part is
// reduced on one rank only, so all ranks end with the same bits.
#include "algorithms/builders.h"
#include "algorithms/patterns.h"

namespace eccl {

Program allReduceDirect(const CollectiveShape& shape, int rank, int channels) {
  const int n = shape.ranks;
  Builder b(shape, rank, channels, n * channels);
  for (int channel = 0; channel < channels; ++channel) {
    auto shifted = [&](Walk walk) {
      walk.base += channel * n;
      return walk;
    };
    const int mine = channel * n + rank;
    if (n == 1) {
      b.lane(channel);
      b.step({input().part(mine).pre()}, {output().part(mine)}).post();
      continue;
    }
    const int sends = sendToOthers(b, rank, n, channel), receives = receiveFromOthers(b, rank, n, channel);

    const int receiving = b.lane(channel);
    Operand result = output().part(mine);
    int reduced =
        reduceAll(b, input().part(mine).pre(), receives, n - 1, result, std::span(&result, 1)).post().index();
    b.step({inTurn(receives)}, {output().part(shifted(behind(rank, n)))}).repeat(n - 1);

    b.lane(channel);
    b.step({input().part(shifted(ahead(rank, n))).pre().stable()}, {inTurn(sends)}).repeat(n - 1);
    b.step({output().part(mine).stable()}, {inTurn(sends)}).repeat(n - 1).after(receiving, reduced);
  }
  return b.take();
}

}  // namespace eccl
