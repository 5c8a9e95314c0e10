// AllReduce within hosts, between them, and within them again, so that little crosses the network: on every
// host `carriers` ranks each sum one part of all of the host's ranks, the carriers of one part sum it along a
// binary tree of the hosts, and hand the result to the ranks of their host. Each host sends and receives about
// twice the data, whatever its number of ranks, in 2 + 2 log2 (hosts) rounds.
//
// The parts' trees have their roots on different hosts, so that all hosts' ports are busy alike. As many ranks
// are carriers as the smallest host has. Within a host it is AllReduce by direct; with one rank on each host it
// is a tree.
#include <vector>

#include "algorithms/builder/groups.h"
#include "algorithms/builder/patterns.h"
#include "algorithms/library/builders.h"

namespace eccl::algorithms {
namespace {

constexpr int kUp = 0, kDown = 1;  // tags: contributions and sums, results

}  // namespace

Program allReduceHierarchical(const CollectiveShape& shape, const Placement& placement, int rank,
                              int channels) {
  const Groups hosts(placement.host);
  const int hostCount = hosts.number(), host = hosts.groupOf(rank), carriers = hosts.least();
  const int n = hosts.size(host), place = hosts.placeOf(rank);
  // The carriers of this host but this rank, from the one behind it on.
  const int first = mod(place + 1, carriers), others = place < carriers ? carriers - 1 : carriers;

  Builder b(shape, rank, channels, carriers * channels);
  for (int channel = 0; channel < channels; ++channel) {
    const Walk theirs{channel * carriers, first, 1, carriers};
    if (others > 0) {
      // First of all, so that the places for results are known to those who then get the contributions.
      int results = -1, contributions = -1;
      for (int i = 0; i < others; ++i) {
        const int carrier = hosts.member(host, (first + i) % carriers);
        const int end = b.receiveFrom(carrier, channel, kDown);
        if (i == 0) results = end;
      }
      for (int i = 0; i < others; ++i) {
        const int carrier = hosts.member(host, (first + i) % carriers);
        const int end = b.sendTo(carrier, channel, kUp);
        if (i == 0) contributions = end;
      }
      b.lane(channel);
      b.step({inTurn(results)}, {output().part(theirs).posted()}).repeat(others);
      b.lane(channel);
      b.step({input().part(theirs).pre().stable()}, {inTurn(contributions)}).repeat(others);
    }
    if (place >= carriers) continue;

    // The tree of this part: its root is on the host of the part's number.
    const TreeNode node = symmetricTree(mod(host - place, hostCount), hostCount);
    const auto carrierOf = [&](int at) { return hosts.member((at + place) % hostCount, place); };
    const int part = channel * carriers + place, sources = n - 1 + static_cast<int>(node.children.size());
    int from = -1, to = -1;
    for (int i = 1; i < n; ++i) {
      const int end = b.receiveFrom(hosts.member(host, (place + n - i) % n), channel, kUp);
      if (from < 0) from = end;
    }
    for (int child : node.children) {
      const int end = b.receiveFrom(carrierOf(child), channel, kUp);
      if (from < 0) from = end;
    }
    // The results go over the network first.
    for (int child : node.children) {
      const int end = b.sendTo(carrierOf(child), channel, kDown);
      if (to < 0) to = end;
    }
    for (int i = 1; i < n; ++i) {
      const int end = b.sendTo(hosts.member(host, (place + i) % n), channel, kDown);
      if (to < 0) to = end;
    }
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
