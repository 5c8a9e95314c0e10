// The verifier's two small theories, compared with the obvious way to decide the same.
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "algorithms/verify/happens_before.h"
#include "algorithms/verify/rank_sets.h"

namespace eccl::algorithms {
namespace {

TEST(HappensBefore, IsReachability) {
  std::mt19937_64 random(5);
  HappensBefore order;
  for (int round = 0; round < 200; ++round) {
    const int events = 1 + static_cast<int>(random() % 200);
    std::vector<std::vector<bool>> reaches(events, std::vector<bool>(events, false));
    order.clear();
    for (int event = 0; event < events; ++event) {
      std::vector<int32_t> predecessors;
      for (size_t i = random() % 3; i > 0 && event > 0; --i) {
        const int32_t near = static_cast<int32_t>(random() % 10), earlier = std::max(0, event - 1 - near);
        predecessors.push_back(earlier);
        for (int from = 0; from < event; ++from) {
          if (from == earlier || reaches[from][earlier]) reaches[from][event] = true;
        }
      }
      ASSERT_EQ(order.add(predecessors), event);
    }
    std::multiset<std::pair<int32_t, int32_t>> expected, found;
    for (size_t i = random() % 1000; i > 0; --i) {
      const auto before = static_cast<int32_t>(random() % events),
                 after = static_cast<int32_t>(random() % events);
      order.ask(before, after, static_cast<int32_t>(i));
      if (!reaches[before][after]) expected.insert({before, after});
    }
    for (const auto& question : order.unordered(INT64_MAX)) found.insert({question.before, question.after});
    ASSERT_EQ(found, expected);
  }
}

TEST(HappensBefore, StopsWhenTheWorkIsTooMuch) {
  HappensBefore order;
  for (int32_t event = 0; event < 1000; ++event) order.add(std::vector<int32_t>(event > 0, event - 1));
  for (int32_t event = 0; event < 999; ++event) order.ask(event, 999, 0);
  EXPECT_TRUE(order.unordered(100).empty());
  EXPECT_GT(order.work(), 100);
  EXPECT_LT(order.work(), 3000) << "it went on after the first 64 questions";
}

TEST(RankSets, UniteDisjointSetsOnly) {
  std::mt19937_64 random(9);
  for (int ranks : {1, 2, 63, 64, 65, 200}) {
    RankSets sets(ranks);
    std::vector<std::set<int>> members;
    for (int rank = 0; rank < ranks; ++rank) members.push_back({rank});
    for (int i = 0; i < 2000; ++i) {
      const auto a = static_cast<int32_t>(random() % members.size()),
                 b = static_cast<int32_t>(random() % members.size());
      std::set<int> united = members[a];
      united.insert(members[b].begin(), members[b].end());
      int32_t set = -1;
      const bool disjoint = united.size() == members[a].size() + members[b].size();
      ASSERT_EQ(sets.unite(a, b, set), disjoint);
      if (!disjoint) {  // a proof ends there
        sets.clear();
        members.resize(static_cast<size_t>(ranks));
        continue;
      }
      ASSERT_EQ(set, static_cast<int32_t>(members.size()));
      ASSERT_EQ(sets.isAll(set), static_cast<int>(united.size()) == ranks);
      members.push_back(united);
    }
  }
}

}  // namespace
}  // namespace eccl::algorithms
