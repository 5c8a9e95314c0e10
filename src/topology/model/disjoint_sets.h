// Things that are joined into sets.
#pragma once

#include <cstddef>
#include <numeric>
#include <vector>

namespace eccl::topology {

/// Union-find with halved paths (R. E. Tarjan and J. van Leeuwen, JACM 31, 1984): O(log n) each. One thread.
class DisjointSets {
 public:
  explicit DisjointSets(size_t count) : up_(count) { std::iota(up_.begin(), up_.end(), size_t{0}); }
  /// One of the set, the same for all of it.
  size_t of(size_t i) {
    while (up_[i] != i) i = up_[i] = up_[up_[i]];
    return i;
  }
  void join(size_t a, size_t b) { up_[of(a)] = of(b); }

 private:
  std::vector<size_t> up_;
};

}  // namespace eccl::topology
