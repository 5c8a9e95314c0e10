#include "algorithms/library/host_shares.h"

#include "algorithms/builder/patterns.h"

namespace eccl::algorithms {

void giveAndGetShares(Builder& b, const Groups& hosts, int rank, int channel, int carriers, int firstPart) {
  const int host = hosts.groupOf(rank), place = hosts.placeOf(rank);
  // The carriers of this host but this rank, from the one behind it on.
  const int first = mod(place + 1, carriers), others = place < carriers ? carriers - 1 : carriers;
  if (others == 0) return;
  const Walk theirs{firstPart, first, 1, carriers};
  // First of all, so that the places for results are known to those who then get the contributions.
  const int results = b.ends();
  for (int i = 0; i < others; ++i) b.receiveFrom(hosts.member(host, (first + i) % carriers), channel, kDown);
  b.lane(channel);
  b.step({inTurn(results)}, {output().part(theirs).posted()}).repeat(others);
  const int contributions = b.ends();
  for (int i = 0; i < others; ++i) b.sendTo(hosts.member(host, (first + i) % carriers), channel, kUp);
  b.lane(channel);
  b.step({input().part(theirs).pre().stable()}, {inTurn(contributions)}).repeat(others);
}

}  // namespace eccl::algorithms
