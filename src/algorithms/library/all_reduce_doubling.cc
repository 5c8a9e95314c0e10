// AllReduce within hosts, between them by recursive doubling, and within them again: for few bytes. On every
// host `carriers` ranks each add up one part of all of the host's ranks. Then the carriers of one part exchange
// their sums with the host that differs in one bit, so that all hosts have the result after log2 (hosts)
// rounds: half as many as up and down a tree, for log2 (hosts) times the data instead of twice.
//
// Any number of hosts: those beyond the greatest power of two hand their sums to a partner below it before, and
// get the result after; that costs two more rounds. Both sides of an exchange add in one order, so that all end
// with the same bits.
#include <bit>
#include <vector>

#include "algorithms/builder/patterns.h"
#include "algorithms/library/builders.h"
#include "algorithms/library/host_shares.h"

namespace eccl::algorithms {

Program allReduceDoubling(const CollectiveShape& shape, const Placement& placement, int rank, int channels) {
  const Groups hosts(placement.host);
  const int host = hosts.groupOf(rank), n = hosts.size(host), place = hosts.placeOf(rank);
  const int carriers = hosts.least(),
            power = static_cast<int>(std::bit_floor(static_cast<unsigned>(hosts.number())));
  const bool beyond = host >= power, folds = host + power < hosts.number();

  Builder b(shape, rank, channels, carriers * channels);
  for (int channel = 0; channel < channels; ++channel) {
    giveAndGetShares(b, hosts, rank, channel, carriers, channel * carriers);
    if (place >= carriers) continue;
    const auto carrierOf = [&](int other) { return hosts.member(other, place); };
    const int part = channel * carriers + place, others = n - 1 + (folds ? 1 : 0);
    const int from = b.ends();
    for (int i = 1; i < n; ++i) b.receiveFrom(hosts.member(host, (place + n - i) % n), channel, kUp);
    if (folds) b.receiveFrom(carrierOf(host + power), channel, kUp);
    const int to = b.ends();
    if (folds) b.sendTo(carrierOf(host + power), channel, kDown);  // over the network first
    for (int i = 1; i < n; ++i) b.sendTo(hosts.member(host, (place + i) % n), channel, kDown);

    Reference own = input().part(part).pre(), result = output().part(part);
    const bool atOnce = others < kMaxOperands;
    std::vector<Operand> everywhere = {result};
    for (int i = 0; atOnce && i < others; ++i) everywhere.push_back(connection(to + i));
    b.lane(channel);
    if (beyond) {
      if (others == 0) own.stable();
      const Operand up = connection(b.sendTo(carrierOf(host - power), channel, kUp));
      reduceAll(b, own, from, others, result, std::span(&up, 1));
      b.lane(channel);
      everywhere[0].posted = true;
      const Operand down = connection(b.receiveFrom(carrierOf(host - power), channel, kDown));
      b.step(std::span(&down, 1), everywhere);
    } else if (power == 1) {
      reduceAll(b, own, from, others, result, everywhere).post();
    } else {
      // A sum goes to memory and to the partner of the next round in one step.
      const auto sendTo = [&](int bit) -> Operand {
        return connection(b.sendTo(carrierOf(host ^ bit), channel, kUp));
      };
      const std::vector<Operand> begun = {result, sendTo(1)};
      reduceAll(b, own, from, others, result, begun);
      for (int bit = 1; bit < power; bit *= 2) {
        const Operand theirs = connection(b.receiveFrom(carrierOf(host ^ bit), channel, kUp));
        const bool upper = (host & bit) != 0, last = bit * 2 == power;
        const std::vector<Operand> sums =
            upper ? std::vector<Operand>{theirs, result} : std::vector<Operand>{result, theirs};
        if (last)
          b.step(sums, everywhere).post();
        else
          b.step(sums, std::vector<Operand>{result, sendTo(bit * 2)});
      }
    }
    if (!atOnce) b.step({output().part(part).stable()}, {inTurn(to)}).repeat(others);
  }
  return b.take();
}

}  // namespace eccl::algorithms
