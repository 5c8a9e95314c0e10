// Reduce over all ports of a host at once, for many bytes: Broadcast by hierarchical run backwards. The ranks
// of a host hand each carrier its part, the carriers at one place of all hosts add it up along a chain of hosts
// that ends on the root's, and those there hand their results to the root.
//
// As many ranks are carriers as the smallest host has. With one rank on each host it is the chain.
#include <vector>

#include "algorithms/builder/groups.h"
#include "algorithms/builder/patterns.h"
#include "algorithms/builder/runs.h"
#include "algorithms/library/builders.h"

namespace eccl::algorithms {
namespace {

constexpr int kSums = 0, kForRoot = 1;  // tags: contributions and sums; sums for the root

}  // namespace

Program reduceHierarchical(const CollectiveShape& shape, const Placement& placement, int rank, int channels) {
  const Groups hosts(placement.host);
  const int host = hosts.groupOf(rank), n = hosts.size(host), place = hosts.placeOf(rank);
  const int carriers = hosts.least(), rootHost = hosts.groupOf(shape.root);
  const int depth = mod(host - rootHost, hosts.number());  // up the chain
  const bool isRoot = rank == shape.root, begins = depth == hosts.number() - 1;
  const auto neighbour = [&](int distance) {
    return hosts.member(mod(host + distance, hosts.number()), place);
  };
  // The others whose contributions this rank adds up as a carrier: the root's come last, and there.
  const bool rootIsNear = depth == 0 && !isRoot;
  const int peers = n - (rootIsNear ? 2 : 1) + (begins ? 0 : 1);

  Builder b(shape, rank, channels, carriers * channels);
  if (place < carriers && !isRoot && peers > kPeersPerStep) b.scratch({0, 1, 1});
  for (int channel = 0; channel < channels; ++channel) {
    const auto withCarriers = [&](auto add) {
      std::vector<Pair> list;
      for (int i = 1; i <= carriers; ++i) {
        const int carrier = (place + i) % carriers;
        if (carrier != place) list.push_back({channel * carriers + carrier, add(hosts.member(host, carrier))});
      }
      if (!list.empty()) b.lane(channel);
      return runsOf(list);
    };
    if (isRoot) {
      for (const Walks& run : withCarriers([&](int peer) { return b.receiveFrom(peer, channel, kForRoot); }))
        b.step({input().part(run.first).pre(), connections(run.second)}, {output().part(run.first)})
            .post()
            .repeat(run.times);
    } else {
      for (const Walks& run : withCarriers([&](int peer) { return b.sendTo(peer, channel, kSums); }))
        b.step({input().part(run.first).pre().stable()}, {connections(run.second)}).repeat(run.times);
    }
    if (place >= carriers) continue;

    const int part = channel * carriers + place, first = b.ends();
    for (int i = 1; i < n; ++i) {
      const int peer = hosts.member(host, mod(place - i, n));
      if (peer != shape.root) b.receiveFrom(peer, channel, kSums);
    }
    if (!begins) b.receiveFrom(neighbour(1), channel, kSums);
    Operand destination = output().part(part);
    if (!isRoot)
      destination = connection(depth == 0 ? b.sendTo(shape.root, channel, kForRoot)
                                          : b.sendTo(neighbour(-1), channel, kSums));
    Reference own = input().part(part).pre(), sum = isRoot ? output() : scratch();
    if (peers == 0 && !isRoot) own.stable();
    b.lane(channel);
    auto step = reduceAll(b, own, first, peers, sum.part(part), std::span(&destination, 1));
    if (isRoot) step.post();
  }
  return b.take();
}

}  // namespace eccl::algorithms
