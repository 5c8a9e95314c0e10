// Finds, of many ranges of memory, one that holds some bytes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "transport/core/transport.h"

namespace eccl::transport::verbs {

/// Ranges, each with a value. They may overlap and be equal. To find one takes a binary search and a look at
/// the ranges before it, back to where none reaches as far: one where they lie side by side, all where a large
/// one holds many small ones. To add or remove one takes time that grows with their number, which is little
/// beside what the kernel takes to register memory.
template <class Value>
class RangeIndex {
 public:
  struct Entry {
    MemoryRange range;
    Value value;
    uintptr_t reach = 0;  ///< the furthest end of this one and those before it
  };

  void add(const MemoryRange& range, Value value) {
    entries_.insert(after(range.base), {range, std::move(value)});
    reachAnew();
  }
  /// Takes out one of exactly this range. Nothing: there is none.
  std::optional<Value> take(const MemoryRange& range) {
    const auto found =
        std::find_if(entries_.begin(), entries_.end(), [&](const Entry& each) { return each.range == range; });
    if (found == entries_.end()) return std::nullopt;
    std::optional<Value> value = std::move(found->value);
    entries_.erase(found);
    reachAnew();
    return value;
  }
  /// Ends those of which `which(value)` is true. How many.
  template <class Which>
  size_t endIf(const Which& which) {
    const size_t ended = std::erase_if(entries_, [&](const Entry& each) { return which(each.value); });
    if (ended > 0) reachAnew();
    return ended;
  }
  /// One that holds all of these bytes and of which `serves(value)` is true. Null: none does.
  template <class Serves>
  const Value* find(const std::byte* memory, uint64_t length, const Serves& serves) const {
    const uintptr_t end = reinterpret_cast<uintptr_t>(memory) + length;
    for (auto it = after(memory); it != entries_.begin() && (--it)->reach >= end;) {
      if (it->range.contains(memory, length) && serves(it->value)) return &it->value;
    }
    return nullptr;
  }

  size_t size() const { return entries_.size(); }
  auto begin() { return entries_.begin(); }
  auto end() { return entries_.end(); }

 private:
  /// The first that begins behind `memory`.
  auto after(const std::byte* memory) const {
    return std::upper_bound(entries_.begin(), entries_.end(), memory,
                            [](const std::byte* one, const Entry& other) { return one < other.range.base; });
  }
  void reachAnew() {
    uintptr_t reach = 0;
    for (Entry& each : entries_)
      each.reach = reach = std::max(reach, reinterpret_cast<uintptr_t>(each.range.base) + each.range.bytes);
  }

  std::vector<Entry> entries_;  // by where they begin
};

}  // namespace eccl::transport::verbs
