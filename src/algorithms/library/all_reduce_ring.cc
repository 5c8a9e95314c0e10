// AllReduce around a ring: reduce-scatter, then all-gather. Each rank sends 2(n-1)/n of the data, the
// minimum for AllReduce without in-network reduction (P. Patarasuk, X. Yuan, "Bandwidth optimal all-reduce
// algorithms for clusters of workstations", JPDC 2009).
//
// The block is cut into n parts per channel. Part p starts at rank p+1, collects every rank's contribution
// on the way round, is final at rank p, and goes round once more.
#include "algorithms/builder/builder.h"
#include "algorithms/library/builders.h"

namespace eccl::algorithms {

Program allReduceRing(const CollectiveShape& shape, const Placement&, int rank, int channels) {
  const int n = shape.ranks;
  Builder b(shape, rank, channels, n * channels);
  for (int channel = 0; channel < channels; ++channel) {
    b.lane(channel);
    // The part that is k places behind this rank on the ring.
    auto behind = [&](int k) { return Walk{channel * n, ((rank - k) % n + n) % n, -1, n}; };
    if (n == 1) {
      b.step({input().part(channel).pre()}, {output().part(channel)}).post();
      continue;
    }
    Operand next = connection(b.sendTo((rank + 1) % n, channel));
    Operand previous = connection(b.receiveFrom((rank + n - 1) % n, channel));

    b.step({input().part(behind(1)).pre().stable()}, {next});
    if (n > 2) b.step({previous, input().part(behind(2)).pre()}, {next}).repeat(n - 2);
    b.step({previous, input().part(behind(0)).pre()}, {output().part(behind(0)), next}).post();
    if (n > 2) b.step({previous}, {output().part(behind(1)).posted(), next}).repeat(n - 2);
    b.step({previous}, {output().part(behind(n - 1)).posted()});
  }
  return b.take();
}

}  // namespace eccl::algorithms
