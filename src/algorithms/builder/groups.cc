#include "algorithms/builder/groups.h"

#include <algorithm>

namespace eccl::algorithms {

Groups::Groups(std::span<const int> groupOfRank) : group(groupOfRank.begin(), groupOfRank.end()) {
  for (int rank = 0; rank < ranks(); ++rank) {
    const auto which = static_cast<size_t>(groupOf(rank));
    if (members.size() <= which) members.resize(which + 1);
    place.push_back(static_cast<int>(members[which].size()));
    members[which].push_back(rank);
  }
}

int Groups::least() const {
  int least = ranks();
  for (int which = 0; which < number(); ++which) least = std::min(least, size(which));
  return least;
}

}  // namespace eccl::algorithms
