// AllReduce within hosts, between them, and within them again, so that little crosses the network: on every
// host `carriers` ranks each sum one part of all of the host's ranks, the carriers of one part sum it along a
// binary tree of the hosts, and hand the result to the ranks of their host. Each host sends and receives about
// twice the data, whatever its number of ranks, in 2 + 2 log2 (hosts) rounds.
//
// The parts' trees have their roots on different hosts, so that all hosts' ports are busy alike. As many ranks
// are carriers as the smallest host has. Within a host it is AllReduce by direct; with one rank on each host it
// is a tree.
#include <vector>

#include "algorithms/builder/patterns.h"
#include "algorithms/library/builders.h"
#include "algorithms/library/host_shares.h"

namespace eccl::algorithms {

Program allReduceHierarchical(const CollectiveShape& shape, const Placement& placement, int rank,
                              int channels) {
  const Groups hosts(placement.host);
  const int hostCount = hosts.number(), host = hosts.groupOf(rank), carriers = hosts.least();
  const int n = hosts.size(host), place = hosts.placeOf(rank);

  Builder b(shape, rank, channels, carriers * channels);
  for (int channel = 0; channel < channels; ++channel) {
    giveAndGetShares(b, hosts, rank, channel, carriers, channel * carriers);
    if (place >= carriers) continue;

    // The tree of this part: its root is on the host of the part's number.
    const TreeNode node = symmetricTree(mod(host - place, hostCount), hostCount);
    const auto carrierOf = [&](int at) { return hosts.member((at + place) % hostCount, place); };
    const int part = channel * carriers + place, sources = n - 1 + static_cast<int>(node.children.size());
    const int from = b.ends();
    for (int i = 1; i < n; ++i) b.receiveFrom(hosts.member(host, (place + n - i) % n), channel, kUp);
    for (int child : node.children) b.receiveFrom(carrierOf(child), channel, kUp);
    const int to = b.ends();
    for (int child : node.children) b.sendTo(carrierOf(child), channel, kDown);  // over the network first
    for (int i = 1; i < n; ++i) b.sendTo(hosts.member(host, (place + i) % n), channel, kDown);
    const bool atOnce = sources < kMaxOperands;
    Reference own = input().part(part).pre(), result = output().part(part);
    std::vector<Operand> destinations = {result};
    b.lane(channel);
    if (node.parent < 0) {
      for (int i = 0; atOnce && i < sources; ++i) destinations.push_back(connection(to + i));
      reduceAll(b, own, from, sources, result, destinations).post();
    } else {
      if (sources == 0) own.stable();
      const Operand up = connection(b.sendTo(carrierOf(node.parent), channel, kUp));
      reduceAll(b, own, from, sources, result, std::span(&up, 1));
      b.lane(channel);
      destinations = {result.posted()};
      for (int i = 0; atOnce && i < sources; ++i) destinations.push_back(connection(to + i));
      const Operand sum = connection(b.receiveFrom(carrierOf(node.parent), channel, kDown));
      b.step(std::span(&sum, 1), destinations);
    }
    if (!atOnce) b.step({output().part(part).stable()}, {inTurn(to)}).repeat(sources);
  }
  return b.take();
}

}  // namespace eccl::algorithms
