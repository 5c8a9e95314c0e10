// Broadcast over all ports of a host at once, for many bytes: the root deals one part to each carrier of its
// host, the carriers at one place of all hosts pass it along a chain of hosts, and each hands it to the ranks
// of its own. Every byte enters a host once, and the tiles of a part follow one another.
//
// As many ranks are carriers as the smallest host has. On one host each rank gets a part from the root and
// hands it to the others; with one rank on each host it is the chain.
#include <vector>

#include "algorithms/builder/groups.h"
#include "algorithms/builder/patterns.h"
#include "algorithms/builder/runs.h"
#include "algorithms/library/builders.h"

namespace eccl::algorithms {
namespace {

constexpr int kDealt = 1;  // tag: what the root hands to those who carry it

}  // namespace

Program broadcastHierarchical(const CollectiveShape& shape, const Placement& placement, int rank,
                              int channels) {
  const Groups hosts(placement.host);
  const int host = hosts.groupOf(rank), n = hosts.size(host), place = hosts.placeOf(rank);
  const int carriers = hosts.least(), rootHost = hosts.groupOf(shape.root),
            rootPlace = hosts.placeOf(shape.root);
  const int depth = mod(host - rootHost, hosts.number());  // down the chain
  const bool isRoot = rank == shape.root, last = depth == hosts.number() - 1;
  const auto neighbour = [&](int distance) {
    return hosts.member(mod(host + distance, hosts.number()), place);
  };

  Builder b(shape, rank, channels, carriers * channels);
  for (int channel = 0; channel < channels; ++channel) {
    // The parts that others of this host carry: the root deals them, the rest get them.
    std::vector<Pair> dealt;
    for (int i = 1; i <= carriers; ++i) {
      const int carrier = mod(place + (isRoot ? i : -i), carriers), peer = hosts.member(host, carrier);
      if (carrier == place) continue;
      dealt.push_back({channel * carriers + carrier,
                       isRoot ? b.sendTo(peer, channel, kDealt) : b.receiveFrom(peer, channel)});
    }
    if (!dealt.empty()) b.lane(channel);
    for (const Walks& run : runsOf(dealt)) {
      const Operand end = connections(run.second);
      Reference kept = output().part(run.first);
      if (isRoot)
        b.step({input().part(run.first).stable()}, {kept, end}).repeat(run.times);
      else
        b.step({end}, {kept.posted()}).repeat(run.times);
    }
    if (place >= carriers) continue;

    // The part that this rank carries.
    const int part = channel * carriers + place;
    Reference source = input().part(part), kept = output().part(part);
    if (!isRoot) {
      source = connection(depth == 0 ? b.receiveFrom(shape.root, channel, kDealt)
                                     : b.receiveFrom(neighbour(-1), channel));
      kept.posted();
    }
    std::vector<Operand> destinations = {kept};
    if (!last) destinations.push_back(connection(b.sendTo(neighbour(1), channel)));
    const int first = b.ends();
    for (int i = 1; i < n; ++i) {
      const int other = (place + i) % n;
      if (depth > 0 || other != rootPlace) b.sendTo(hosts.member(host, other), channel);
    }
    const int others = b.ends() - first;
    const bool atOnce = static_cast<int>(destinations.size()) + others <= kMaxOperands;
    for (int i = 0; atOnce && i < others; ++i) destinations.push_back(connection(first + i).placed());
    if (isRoot && destinations.size() > 1) source.stable();
    b.lane(channel);
    const Operand sources[] = {source};
    b.step(sources, destinations);
    if (!atOnce) {
      const Reference held = isRoot ? input() : output();
      b.step({Reference(held).part(part).stable()}, {inTurn(first)}).repeat(others);
    }
  }
  return b.take();
}

}  // namespace eccl::algorithms
