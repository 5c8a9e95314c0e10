// Ranks in groups: those of every host, or others.
//
// Threads: values.
#pragma once

#include <span>
#include <vector>

namespace eccl::algorithms {

/// Every rank is in one group and has a place there, from 0 in the order of ranks.
struct Groups {
  /// The group of every rank, from 0; none is empty.
  explicit Groups(std::span<const int> groupOfRank);

  std::vector<std::vector<int>> members;  ///< by group, ascending
  std::vector<int> group, place;          ///< by rank

  int ranks() const { return static_cast<int>(group.size()); }
  int number() const { return static_cast<int>(members.size()); }
  int size(int which) const { return static_cast<int>(members[static_cast<size_t>(which)].size()); }
  int member(int which, int at) const { return members[static_cast<size_t>(which)][static_cast<size_t>(at)]; }
  int groupOf(int rank) const { return group[static_cast<size_t>(rank)]; }
  int placeOf(int rank) const { return place[static_cast<size_t>(rank)]; }
  /// The size of the smallest group.
  int least() const;
};

}  // namespace eccl::algorithms
