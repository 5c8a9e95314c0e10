// Sets of ranks as small numbers: equal sets have equal numbers, and a union is one look-up after the first.
#pragma once

#include <cstdint>
#include <vector>

namespace eccl {

/// Owner: one verification. Not thread-safe. Set 0 is the empty set.
class RankSets {
 public:
  static constexpr uint32_t kOverlap = UINT32_MAX;

  explicit RankSets(int ranks) : ranks_(ranks), words_((ranks + 63) / 64), members_(words_, 0) {
    grow(memo_, 1024);
    index_.assign(1024, 0);
    for (int rank = 0; rank < ranks; ++rank) {
      std::vector<uint64_t> one(words_, 0);
      one[rank / 64] = 1ull << (rank % 64);
      singles_.push_back(number(one.data()));
    }
    std::vector<uint64_t> every(words_, 0);
    for (int rank = 0; rank < ranks; ++rank) every[rank / 64] |= 1ull << (rank % 64);
    all_ = number(every.data());
  }

  uint32_t single(int rank) const { return singles_[rank]; }
  uint32_t all() const { return all_; }

  /// The union of two disjoint sets, or kOverlap if they share a rank.
  uint32_t unite(uint32_t a, uint32_t b) {
    if (a == 0) return b;
    if (b == 0) return a;
    uint64_t key = static_cast<uint64_t>(a) << 32 | b;
    size_t at = slot(memo_, key);
    if (memo_[at].key == key) return memo_[at].value;
    std::vector<uint64_t> both(words_);
    bool overlap = false;
    for (int w = 0; w < words_; ++w) {
      uint64_t x = members_[static_cast<size_t>(a) * words_ + w],
               y = members_[static_cast<size_t>(b) * words_ + w];
      overlap |= (x & y) != 0;
      both[w] = x | y;
    }
    uint32_t value = overlap ? kOverlap : number(both.data());
    memo_[at] = {key, value};
    if (++memoUsed_ * 2 > memo_.size()) rehash();
    return value;
  }

 private:
  struct Entry {
    uint64_t key = 0;
    uint32_t value = 0;
  };  // key 0 cannot occur: unions of empty sets are not kept

  static uint64_t mix(uint64_t x) {  // the finalizer of MurmurHash3
    x ^= x >> 33;
    x *= 0xff51afd7ed558ccdull;
    x ^= x >> 33;
    x *= 0xc4ceb9fe1a85ec53ull;
    return x ^ x >> 33;
  }
  static size_t slot(const std::vector<Entry>& table, uint64_t key) {
    size_t mask = table.size() - 1, at = mix(key) & mask;
    while (table[at].key != 0 && table[at].key != key) at = (at + 1) & mask;
    return at;
  }
  static void grow(std::vector<Entry>& table, size_t size) { table.assign(size, Entry{}); }
  void rehash() {
    std::vector<Entry> old;
    old.swap(memo_);
    grow(memo_, old.size() * 4);
    for (const Entry& entry : old) {
      if (entry.key != 0) memo_[slot(memo_, entry.key)] = entry;
    }
  }

  uint64_t hash(const uint64_t* set) const {
    uint64_t h = 0;
    for (int w = 0; w < words_; ++w) h = mix(h ^ set[w]) + w;
    return h;
  }
  /// The number of a set, new or known.
  uint32_t number(const uint64_t* set) {
    size_t mask = index_.size() - 1, at = hash(set) & mask;
    for (; index_[at] != 0; at = (at + 1) & mask) {
      const uint64_t* known = &members_[static_cast<size_t>(index_[at]) * words_];
      bool same = true;
      for (int w = 0; w < words_; ++w) same = same && known[w] == set[w];
      if (same) return index_[at];
    }
    uint32_t fresh = ++count_;
    members_.insert(members_.end(), set, set + words_);
    index_[at] = fresh;
    if (count_ * 2ull > index_.size()) {
      index_.assign(index_.size() * 4, 0);
      mask = index_.size() - 1;
      for (uint32_t id = 1; id <= count_; ++id) {
        size_t free = hash(&members_[static_cast<size_t>(id) * words_]) & mask;
        while (index_[free] != 0) free = (free + 1) & mask;
        index_[free] = id;
      }
    }
    return fresh;
  }

  const int ranks_, words_;
  std::vector<uint64_t> members_;  // number × words
  std::vector<uint32_t> index_;    // hash table of numbers
  std::vector<Entry> memo_;        // (a, b) → union
  size_t memoUsed_ = 0;
  uint32_t count_ = 0;
  std::vector<uint32_t> singles_;
  uint32_t all_ = 0;
};

}  // namespace eccl
