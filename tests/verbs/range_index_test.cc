#include "transport/verbs/range_index.h"

#include <gtest/gtest.h>

#include <list>
#include <random>

namespace eccl::transport::verbs {
namespace {

std::byte* at(uint64_t address) {
  return reinterpret_cast<std::byte*>(address);
}

// What it finds is what a look at each range finds, however they overlap.
TEST(RangeIndex, FindsWhatALookAtEachFinds) {
  std::mt19937 random(7);
  const auto below = [&](uint64_t limit) {
    return std::uniform_int_distribution<uint64_t>(0, limit - 1)(random);
  };
  for (uint64_t longest : {1, 5, 40, 300}) {
    RangeIndex<int> index;
    std::list<std::pair<MemoryRange, int>> all;
    int found = 0, none = 0;
    for (int step = 0; step < 4000; ++step) {
      const MemoryRange range = {at(1000 + below(300)), 1 + below(longest)};
      const uint64_t what = below(10);
      if (what < 3 && all.size() < 60) {
        index.add(range, step);
        all.emplace_back(range, step);
      } else if (what == 3 && !all.empty()) {
        const MemoryRange gone = std::next(all.begin(), static_cast<long>(below(all.size())))->first;
        const std::optional<int> value = index.take(gone);
        ASSERT_TRUE(value.has_value());
        EXPECT_EQ(std::erase(all, std::pair(gone, *value)), 1u);
      } else if (what == 4) {
        const auto old = [&](int value) { return value + 200 < step; };
        EXPECT_EQ(index.endIf(old), std::erase_if(all, [&](const auto& each) { return old(each.second); }));
      } else {
        const auto odd = [](int value) { return value % 2 == 1; };
        const int* const value = index.find(range.base, range.bytes, odd);
        const auto holds = [&](const auto& each) {
          return odd(each.second) && each.first.contains(range.base, range.bytes);
        };
        ASSERT_EQ(value != nullptr, std::any_of(all.begin(), all.end(), holds));
        if (value != nullptr) {
          ++found;
          EXPECT_TRUE(std::any_of(all.begin(), all.end(),
                                  [&](const auto& each) { return each.second == *value && holds(each); }));
        } else {
          ++none;
        }
      }
      ASSERT_EQ(index.size(), all.size());
    }
    EXPECT_GT(found, 20) << longest;
    EXPECT_GT(none, 20) << longest;
  }
  EXPECT_FALSE(RangeIndex<int>().take({at(1), 1}).has_value());
}

// Many buffers side by side, which is what programs have: a find looks at one.
TEST(RangeIndex, LooksAtFew) {
  RangeIndex<int> index;
  for (int i = 0; i < 1000; ++i) index.add({at(1000 + 10 * static_cast<uint64_t>(i)), 10}, i);
  for (int i : {0, 1, 500, 999}) {
    int looks = 0;
    const int* const value =
        index.find(at(1002 + 10 * static_cast<uint64_t>(i)), 8, [&](int) { return ++looks > 0; });
    ASSERT_NE(value, nullptr);
    EXPECT_EQ(*value, i);
    EXPECT_EQ(looks, 1);
  }
  EXPECT_EQ(index.find(at(1005), 10, [](int) { return true; }), nullptr) << "two ranges are not one";
}

}  // namespace
}  // namespace eccl::transport::verbs
