#include "algorithms/builder/patterns.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <random>
#include <set>

#include "algorithms/builder/groups.h"
#include "algorithms/builder/runs.h"

namespace eccl::algorithms {
namespace {

TEST(Patterns, ModIsNeverNegative) {
  EXPECT_EQ(mod(-1, 5), 4);
  EXPECT_EQ(mod(-5, 5), 0);
  EXPECT_EQ(mod(7, 5), 2);
  EXPECT_EQ(mod(-3, 1), 0);
}

TEST(Patterns, WalksGoRoundTheRing) {
  EXPECT_EQ(ahead(3, 5).at(0), 4);
  EXPECT_EQ(ahead(3, 5).at(1), 0);
  EXPECT_EQ(behind(1, 5).at(0), 0);
  EXPECT_EQ(behind(1, 5).at(1), 4);
  EXPECT_EQ(behind(1, 5, 0).at(0), 1);
  EXPECT_EQ(ahead(3, 5, 4).at(0), 2);
}

TEST(Patterns, InEachRoundOfAnExchangeTheTargetsAreDifferent) {
  const int n = 6;
  std::vector<Program> programs;
  for (int rank = 0; rank < n; ++rank) {
    Builder b({Collective::allToAll, n, 0}, rank, 1, 1);
    EXPECT_EQ(sendToOthers(b, rank, n, 0), 0);
    EXPECT_EQ(receiveFromOthers(b, rank, n, 0), n - 1);
    programs.push_back(b.take());
  }
  for (int round = 0; round < n - 1; ++round) {
    std::set<int> targets;
    for (int rank = 0; rank < n; ++rank) {
      const ConnectionSpec& out = programs[rank].connections[round];
      EXPECT_TRUE(out.sends);
      targets.insert(out.peer);
      // The receiver expects this sender in the same round.
      EXPECT_EQ(programs[out.peer].connections[n - 1 + round].peer, rank);
      EXPECT_FALSE(programs[out.peer].connections[n - 1 + round].sends);
    }
    EXPECT_EQ(targets.size(), static_cast<size_t>(n));
  }
}

/// Each connection is used exactly once, and only the last step writes the destination.
TEST(Patterns, ReduceAllTakesEachMessageOnceInAtMostThreeSteps) {
  for (int peers = 0; peers <= 100; ++peers) {
    Builder b({Collective::reduce, peers + 1, 0}, 0, 1, 1);
    for (int i = 0; i < peers; ++i) b.receiveFrom(i + 1, 0);
    b.lane(0);
    Operand result = output();
    int last = reduceAll(b, input().pre(), 0, peers, scratch(), std::span(&result, 1)).post().index();
    Program program = b.take();

    ASSERT_LE(program.steps.size(), 3u);
    EXPECT_EQ(last, static_cast<int>(program.steps.size()) - 1);
    EXPECT_EQ(program.steps.size() == 1, peers <= kPeersPerStep);
    std::vector<int> order;
    for (size_t s = 0; s < program.steps.size(); ++s) {
      const Step& step = program.steps[s];
      ASSERT_LE(step.sources, kMaxOperands);
      const Operand* operands = &program.operands[step.firstOperand];
      EXPECT_EQ(operands[0].space, s == 0 ? Space::input : Space::scratch);
      bool isLast = static_cast<int>(s) == last;
      EXPECT_EQ(operands[step.sources].space, isLast ? Space::output : Space::scratch);
      EXPECT_EQ(step.post, isLast);
      for (int repeat = 0; repeat < step.repeat; ++repeat) {
        for (int i = 1; i < step.sources; ++i) order.push_back(operands[i].index.at(repeat));
      }
    }
    ASSERT_EQ(order.size(), static_cast<size_t>(peers));
    for (int i = 0; i < peers; ++i) EXPECT_EQ(order[i], i);
  }
}

/// All nodes hang together, parents and children agree; returns the depth.
int checkTree(TreeNode (*tree)(int, int), int n, int root) {
  int deepest = 0, childrenInAll = 0;
  for (int node = 0; node < n; ++node) {
    TreeNode at = tree(node, n);
    EXPECT_EQ(at.parent < 0, node == root) << node << " of " << n;
    for (int child : at.children) {
      EXPECT_TRUE(child >= 0 && child < n) << node << " of " << n;
      EXPECT_EQ(tree(child, n).parent, node) << child << " of " << n;
      ++childrenInAll;
    }
    int depth = 0;
    for (int up = node; tree(up, n).parent >= 0 && depth <= n; up = tree(up, n).parent) ++depth;
    EXPECT_LE(depth, n) << node << " of " << n << " is on a cycle";
    deepest = std::max(deepest, depth);
  }
  EXPECT_EQ(childrenInAll, n - 1);
  return deepest;
}

TEST(Patterns, BinomialTreeIsATreeOfLog2Rounds) {
  for (int n = 1; n <= 130; ++n) {
    int rounds = std::bit_width(static_cast<unsigned>(n - 1));
    EXPECT_LE(checkTree(binomialTree, n, 0), rounds);
    std::vector<int> children = binomialTree(0, n).children;
    EXPECT_EQ(static_cast<int>(children.size()), rounds);
    EXPECT_TRUE(std::is_sorted(children.rbegin(), children.rend())) << "the deepest first";
  }
}

TEST(Patterns, SymmetricTreeIsABinaryTreeWhoseInteriorIsOdd) {
  for (int n = 1; n <= 130; ++n) {
    int root = static_cast<int>(std::bit_floor(static_cast<unsigned>(n))) - 1;
    EXPECT_EQ(checkTree(symmetricTree, n, root), std::bit_width(static_cast<unsigned>(n)) - 1) << n;
    for (int node = 0; node < n; ++node) {
      size_t children = symmetricTree(node, n).children.size();
      EXPECT_LE(children, 2u);
      EXPECT_EQ(children > 0, node % 2 == 1) << node << " of " << n;
    }
  }
}

/// The list again, and how many runs it is.
std::pair<std::vector<Pair>, size_t> walked(const std::vector<Pair>& list) {
  const std::vector<Walks> runs = runsOf(list);
  std::vector<Pair> again;
  for (const Walks& run : runs)
    for (int i = 0; i < run.times; ++i) again.push_back({run.first.at(i), run.second.at(i)});
  return {again, runs.size()};
}

TEST(Patterns, RunsAreTheListAndWhatGoesAroundARingIsOne) {
  EXPECT_TRUE(runsOf({}).empty());
  const std::vector<std::vector<Pair>> single = {{{5, 1}},
                                                 {{5, 1}, {9, 1}},
                                                 {{2, 0}, {3, 1}, {0, 2}, {1, 3}},
                                                 {{1, 7}, {0, 5}, {3, 3}, {2, 7}},
                                                 {{3, 0}, {0, 0}, {1, 0}, {2, 0}},
                                                 {{10, 4}, {20, 4}, {0, 4}, {10, 4}, {20, 4}}};
  for (const std::vector<Pair>& list : single) EXPECT_EQ(walked(list), std::pair(list, size_t{1}));
  const std::vector<Pair> two = {{0, 0}, {1, 1}, {2, 2}, {7, 3}, {8, 4}};
  EXPECT_EQ(walked(two), std::pair(two, size_t{2}));
  std::mt19937 random(1);
  for (int round = 0; round < 1000; ++round) {
    std::vector<Pair> list;
    for (size_t i = random() % 12; i > 0; --i)
      list.push_back({static_cast<int>(random() % 4), static_cast<int>(random() % 3)});
    EXPECT_EQ(walked(list).first, list);
  }
}

TEST(Patterns, GroupsKnowEveryRanksPlace) {
  const Groups groups(std::vector{1, 0, 1, 1, 0});
  EXPECT_EQ(groups.ranks(), 5);
  EXPECT_EQ(groups.number(), 2);
  EXPECT_EQ(groups.least(), 2);
  EXPECT_EQ(groups.members, (std::vector<std::vector<int>>{{1, 4}, {0, 2, 3}}));
  EXPECT_EQ(groups.place, (std::vector{0, 0, 1, 2, 1}));
  for (int rank = 0; rank < 5; ++rank)
    EXPECT_EQ(groups.member(groups.groupOf(rank), groups.placeOf(rank)), rank);
}

}  // namespace
}  // namespace eccl::algorithms
