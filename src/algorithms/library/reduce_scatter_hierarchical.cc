// ReduceScatter within hosts in one round, and between them by rings, one for each place: the sum of a block
// goes around the hosts and collects on each what its ranks have, so that it enters every host once. The ports
// of a host bring different sums. AllGather by hierarchical run backwards.
//
// On one host it is ReduceScatter by direct; with one rank on each host it is the ring.
#include "algorithms/library/builders.h"
#include "algorithms/library/host_rings.h"

namespace eccl::algorithms {

Program reduceScatterHierarchical(const CollectiveShape& shape, const Placement& placement, int rank,
                                  int channels) {
  const Groups hosts(placement.host);
  Builder b(shape, rank, channels, channels);
  for (int channel = 0; channel < channels; ++channel) {
    HostRings rings(b, hosts, rank, channel, hosts.members,
                    [&](Reference buffer, Walk blocks) { return buffer.block(blocks).part(channel); });
    if (rings.keepsSums()) b.scratch({0, 1, shape.ranks});
    rings.sumUp(scratch());
  }
  return b.take();
}

}  // namespace eccl::algorithms
