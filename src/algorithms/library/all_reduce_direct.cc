// AllReduce in two rounds: rank p collects part p from everybody and reduces it, then hands the result to
// everybody. The ring's volume in 2 rounds instead of 2(n-1), for 4(n-1) connections per rank. Each part is
// reduced on one rank only, so all ranks end with the same bits.
//
// Among as many ranks as a step has operands, one step reduces and hands out. Where ranks reach each other's
// memory it reads all contributions and writes all results in place: no byte is moved that need not be.
// The two rounds have connections of their own, so that a rank sends what later tiles need before it has got
// the results of the earlier ones.
#include <vector>

#include "algorithms/builder/patterns.h"
#include "algorithms/library/builders.h"

namespace eccl::algorithms {

Program allReduceDirect(const CollectiveShape& shape, const Placement&, int rank, int channels) {
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
    // First of all, so that the places for results are known to those who then get the contributions.
    b.lane(channel);
    b.step({inTurn(receiveFromOthers(b, rank, n, channel, 1))},
           {output().part(shifted(behind(rank, n))).posted()})
        .repeat(n - 1);

    b.lane(channel);
    b.step({input().part(shifted(ahead(rank, n))).pre().stable()}, {inTurn(sendToOthers(b, rank, n, channel))})
        .repeat(n - 1);

    b.lane(channel);
    const int contributions = receiveFromOthers(b, rank, n, channel),
              results = sendToOthers(b, rank, n, channel, 1);
    const bool atOnce = n <= kMaxOperands;
    std::vector<Operand> destinations = {output().part(mine)};
    for (int i = 0; atOnce && i < n - 1; ++i) destinations.push_back(connection(results + i));
    reduceAll(b, input().part(mine).pre(), contributions, n - 1, destinations[0], destinations).post();
    if (!atOnce) b.step({output().part(mine).stable()}, {inTurn(results)}).repeat(n - 1);
  }
  return b.take();
}

}  // namespace eccl::algorithms
