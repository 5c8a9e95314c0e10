// Sets of ranks, made by uniting disjoint ones. A set is named by a small number: below `ranks` it is the set
// of that rank alone, other sets are numbered in the order they were made.
#pragma once

#include <cstdint>
#include <vector>

namespace eccl::algorithms {

/// All sets of one proof. Owner: the proof of one piece. Not thread-safe. A set takes a bit for each rank.
class RankSets {
 public:
  explicit RankSets(int ranks) : ranks_(ranks), words_((static_cast<size_t>(ranks) + 63) / 64) {}

  /// Forgets all sets that were made.
  void clear() {
    members_.clear();
    sizes_.clear();
  }
  bool isAll(int32_t set) const { return size(set) == ranks_; }

  /// united = a ∪ b. False if they share a rank.
  bool unite(int32_t a, int32_t b, int32_t& united) {
    united = ranks_ + static_cast<int32_t>(sizes_.size());
    sizes_.push_back(size(a) + size(b));
    members_.resize(members_.size() + words_, 0);
    return add(a) && add(b);
  }

 private:
  int size(int32_t set) const { return set < ranks_ ? 1 : sizes_[set - ranks_]; }

  /// Adds a set to the last one made.
  bool add(int32_t set) {
    uint64_t* into = members_.data() + members_.size() - words_;
    if (set < ranks_) {
      uint64_t& word = into[set / 64];
      const uint64_t bit = uint64_t{1} << set % 64;
      const bool fresh = (word & bit) == 0;
      word |= bit;
      return fresh;
    }
    const uint64_t* from = members_.data() + static_cast<size_t>(set - ranks_) * words_;
    uint64_t shared = 0;
    for (size_t w = 0; w < words_; ++w) {
      shared |= into[w] & from[w];
      into[w] |= from[w];
    }
    return shared == 0;
  }

  const int32_t ranks_;
  const size_t words_;
  std::vector<uint64_t> members_;  // of the sets made, `words_` each
  std::vector<int32_t> sizes_;
};

}  // namespace eccl::algorithms
