// AllReduce in one round, for a few bytes: everybody sends everything to everybody and reduces for itself.
//
// All ranks must end with the same bits, so all sum in the order of ranks and in the same groups (a step
// rounds once): ranks 0…7, then the sum and the next 7, and so on. A rank's own data stands where a message
// of that rank would stand.
#include <algorithm>

#include "algorithms/builder/patterns.h"
#include "algorithms/library/builders.h"

namespace eccl::algorithms {

Program allReduceOneshot(const CollectiveShape& shape, const Placement&, int rank, int channels) {
  const int n = shape.ranks;
  Builder b(shape, rank, channels, channels);
  // Not in the output: in place, the first groups would overwrite this rank's data before its turn.
  if (n > kMaxOperands) b.scratch({0, 1, 1});
  for (int channel = 0; channel < channels; ++channel) {
    b.lane(channel);
    if (n > 1) {
      int sends = sendToOthers(b, rank, n, channel);
      b.step({input().part(channel).pre()}, {inTurn(sends)}).repeat(n - 1);
    }
    std::vector<int> from(n);  // connections, by rank
    for (int peer = 0; peer < n; ++peer) {
      if (peer != rank) from[peer] = b.receiveFrom(peer, channel);
    }
    for (int at = 0; at < n;) {
      const int size = std::min(at == 0 ? kMaxOperands : kPeersPerStep, n - at);
      // As many whole groups at once as neither hold this rank nor are the last.
      const int until = at <= rank ? std::min(rank, n - 1) : n - 1;
      const int groups = at == 0 ? 1 : std::max(1, (until - at) / kPeersPerStep);
      std::vector<Operand> sources;
      if (at > 0) sources.push_back(scratch().part(channel));
      for (int peer = at; peer < at + size; ++peer) {
        if (peer == rank)
          sources.push_back(input().part(channel).pre());
        else
          sources.push_back(connections({from[peer], 0, size, 0}));
      }
      at += size * groups;
      Operand sum = at < n ? scratch().part(channel) : output().part(channel);
      auto step = b.step(sources, std::span(&sum, 1)).repeat(groups);
      if (at == n) step.post();
    }
  }
  return b.take();
}

}  // namespace eccl::algorithms
