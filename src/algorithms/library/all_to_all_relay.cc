// AlltoAllv in two hops, for many ranks: about 2 sqrt(n) connections per rank instead of 2(n-1).
//
// The ranks stand in floor(sqrt n) groups of consecutive ranks whose sizes differ by at most one. A block from
// (group g, place l) to (g', l') goes to (g, l') first, inside the group, and from there to (g', l'). Where
// g is one place smaller than g' and has no place l', the relay is (g, 0).
#include <algorithm>
#include <cmath>

#include "algorithms/library/builders.h"
#include "algorithms/library/relayed_all_to_all.h"

namespace eccl::algorithms {

Program allToAllRelay(const CollectiveShape& shape, const Placement&, int rank, int channels) {
  const int n = shape.ranks, groups = static_cast<int>(std::sqrt(n));
  std::vector<int> groupOf;
  for (int group = 0; group < groups; ++group)
    groupOf.insert(groupOf.end(), static_cast<size_t>(n / groups + (group < n % groups ? 1 : 0)), group);
  return relayedAllToAll(shape, Groups(groupOf), rank, channels);
}

}  // namespace eccl::algorithms
