// Disjoint sets of things that are joined step by step.
#pragma once

#include <cstddef>
#include <numeric>
#include <vector>

namespace eccl::topology {

/// Union-find with path halving (R. E. Tarjan and J. van Leeuwen, JACM 31, 1984): O(log n) for each call.
/// Things are numbers from 0. One thread.
class DisjointSets {
 public:
  explicit DisjointSets(size_t count) : up_(count) { std::iota(up_.begin(), up_.end(), size_t{0}); }
  /// The representative of i's set: the same for all of the set, until it is joined with another.
  size_t of(size_t i) {
    while (up_[i] != i) i = up_[i] = up_[up_[i]];
    return i;
  }
  /// Makes one set of those of a and b.
  void join(size_t a, size_t b) { up_[of(a)] = of(b); }

 private:
  std::vector<size_t> up_;
};

}  // namespace eccl::topology
