// AllGather between hosts by rings, one for each place, and within hosts in one round: each byte enters a host
// once, and all the host's ports bring different ones. While a carrier gets a block it hands the one before to
// the ranks of its host.
//
// On one host it is AllGather by direct; with one rank on each host it is the ring.
#include "algorithms/library/builders.h"
#include "algorithms/library/host_rings.h"

namespace eccl::algorithms {

Program allGatherHierarchical(const CollectiveShape& shape, const Placement& placement, int rank,
                              int channels) {
  const Groups hosts(placement.host);
  Builder b(shape, rank, channels, channels);
  for (int channel = 0; channel < channels; ++channel) {
    HostRings(b, hosts, rank, channel, hosts.members, [&](Reference buffer, Walk blocks) {
      return buffer.block(blocks).part(channel);
    }).spread();
  }
  return b.take();
}

}  // namespace eccl::algorithms
