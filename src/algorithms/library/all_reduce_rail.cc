// AllReduce within hosts, around rings of hosts, and within hosts again: for many bytes. On every host `carriers`
// ranks have a share of the data each, which is one part for each host. The carriers at one place of all hosts
// are a ring: they add up each part on its way to its host, then bring the results around. So a host sends and
// receives 2 (h-1)/h of the data, the least possible, in about 2h rounds, and each of its ports an equal share.
//
// all_reduce_hierarchical.cc sends more and takes fewer rounds. On one host it is AllReduce in two rounds; with
// one rank on each host it is the ring.
#include "algorithms/library/builders.h"
#include "algorithms/library/host_rings.h"

namespace eccl::algorithms {

Program allReduceRail(const CollectiveShape& shape, const Placement& placement, int rank, int channels) {
  const Groups hosts(placement.host);
  const int carriers = hosts.least(), parts = carriers * hosts.number();
  HostRings::Units units(static_cast<size_t>(hosts.number()));
  for (int carrier = 0; carrier < carriers; ++carrier) {
    for (int host = 0; host < hosts.number(); ++host)
      units[static_cast<size_t>(host)].push_back(carrier * hosts.number() + host);
  }
  Builder b(shape, rank, channels, parts * channels);
  for (int channel = 0; channel < channels; ++channel) {
    HostRings rings(b, hosts, rank, channel, units, [&](Reference buffer, Walk which) {
      which.base += channel * parts;
      return buffer.part(which);
    });
    const HostRings::Where ready = rings.sumUp(output());
    rings.spread(&ready);
  }
  return b.take();
}

}  // namespace eccl::algorithms
