#include "algorithms/select.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "algorithms/measured_rules.h"

namespace eccl {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

SelectionTable parsed(std::string_view text) {
  Result<SelectionTable> table = parseSelection(text);
  EXPECT_TRUE(table.ok()) << text << ": " << table.status().message();
  return table.ok() ? table.take() : SelectionTable{};
}

std::string errorOf(std::string_view text) {
  Result<SelectionTable> table = parseSelection(text);
  if (table.ok()) return "accepted";
  EXPECT_EQ(table.status().code(), Code::invalidArgument);
  return table.status().message();
}

std::string forcedFor(const SelectionTable& table, Collective collective) {
  const Algorithm* algorithm = table.forced[static_cast<int>(collective)];
  if (algorithm == nullptr) return "";
  EXPECT_EQ(algorithm->collective, collective);
  return algorithm->name;
}

/// Without rules in the table, by the measured ones.
std::string chosen(Collective collective, size_t bytes, int ranks, SelectionTable table = {},
                   bool oneHost = false) {
  if (table.rules.empty()) table.rules = measuredRules(ranks, oneHost);
  Choice choice = select(collective, bytes, ranks, table);
  return choice.algorithm == nullptr ? "" : choice.algorithm->name;
}

TEST(ParseSelection, NothingForcesNothing) {
  for (const char* text : {"", " ", "\t "}) {
    SelectionTable table = parsed(text);
    for (int c = 0; c < kCollectives; ++c) EXPECT_EQ(table.forced[c], nullptr);
  }
}

TEST(ParseSelection, ANameIsForAllCollectivesThatHaveIt) {
  SelectionTable table = parsed("ring");
  EXPECT_EQ(forcedFor(table, Collective::allReduce), "ring");
  EXPECT_EQ(forcedFor(table, Collective::allGatherv), "ring");
  EXPECT_EQ(forcedFor(table, Collective::reduceScatter), "ring");
  EXPECT_EQ(forcedFor(table, Collective::broadcast), "");
  EXPECT_EQ(forcedFor(table, Collective::allToAllv), "");
}

TEST(ParseSelection, EntriesWithACollectiveAreForItOnly) {
  SelectionTable table = parsed("allreduce:tree,broadcast:chain");
  EXPECT_EQ(forcedFor(table, Collective::allReduce), "tree");
  EXPECT_EQ(forcedFor(table, Collective::broadcast), "chain");
  EXPECT_EQ(forcedFor(table, Collective::reduce), "");
}

TEST(ParseSelection, EntriesWithACollectiveAreStrongerWhereverTheyStand) {
  for (const char* text : {"allreduce:tree,ring", "ring,allreduce:tree"}) {
    SelectionTable table = parsed(text);
    EXPECT_EQ(forcedFor(table, Collective::allReduce), "tree") << text;
    EXPECT_EQ(forcedFor(table, Collective::allGather), "ring") << text;
  }
}

TEST(ParseSelection, AmongEqualsTheLastCounts) {
  SelectionTable table = parsed("direct,ring,reduce:tree,reduce:chain");
  EXPECT_EQ(forcedFor(table, Collective::allReduce), "ring");
  EXPECT_EQ(forcedFor(table, Collective::broadcast), "direct");  // has no ring
  EXPECT_EQ(forcedFor(table, Collective::reduce), "chain");
}

TEST(ParseSelection, CaseAndBlanksDoNotMatter) {
  SelectionTable table = parsed(" RING , AlltoAllv : Relay ");
  EXPECT_EQ(forcedFor(table, Collective::allReduce), "ring");
  EXPECT_EQ(forcedFor(table, Collective::allToAllv), "relay");
}

TEST(ParseSelection, EveryAlgorithmCanBeForced) {
  for (const Algorithm& algorithm : algorithms()) {
    std::string text = std::string(nameOf(algorithm.collective)) + ":" + algorithm.name;
    SelectionTable table = parsed(text);
    EXPECT_EQ(table.forced[static_cast<int>(algorithm.collective)], &algorithm) << text;
    EXPECT_EQ(select(algorithm.collective, 1, 4, table).algorithm, &algorithm) << text;
  }
}

TEST(ParseSelection, UnknownNamesListWhatThereIs) {
  EXPECT_THAT(errorOf("rign"), AllOf(HasSubstr("\"rign\""), HasSubstr("AllReduce: ring, tree"),
                                     HasSubstr("Broadcast: chain"), HasSubstr("ECCL_ALGO")));
  EXPECT_THAT(errorOf("broadcast:ring"),
              AllOf(HasSubstr("Broadcast: chain, tree, direct"), Not(HasSubstr("AllReduce"))));
  EXPECT_THAT(errorOf("allredcue:ring"),
              AllOf(HasSubstr("no collective \"allredcue\""), HasSubstr("AllReduce")));
  EXPECT_THAT(errorOf("send:direct"), AllOf(HasSubstr("no collective \"send\""), Not(HasSubstr("Send"))));
}

TEST(ParseSelection, EmptyAndMalformedEntriesAreErrors) {
  for (const char* text : {",", "ring,", ",ring", "ring,,tree", ":", "allreduce:", ":ring",
                           "allreduce:ring:tree", "allreduce ring", "ring;tree", "ring tree"}) {
    EXPECT_NE(errorOf(text), "accepted") << text;
  }
}

TEST(ParseSelection, LongTextIsNotRepeatedWhole) {
  EXPECT_LT(errorOf(std::string(100000, 'x')).size(), 2000u);
}

TEST(ParseSelection, ArbitraryTextNeverBreaksIt) {
  std::mt19937 random(7);
  const std::string pieces[] = {"ring",  "tree", "AllReduce", ":",    ",", " ",     "broadcast",
                                "chain", "",     "direct",    "\xff", "…", "relay", std::string(1, '\0')};
  int accepted = 0, refused = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string text;
    for (unsigned left = random() % 7; left > 0; --left) text += pieces[random() % std::size(pieces)];
    Result<SelectionTable> table = parseSelection(text);
    if (!table.ok()) {
      EXPECT_FALSE(table.status().message().empty());
      ++refused;
      continue;
    }
    ++accepted;
    for (int c = 0; c < kCollectives; ++c) forcedFor(*table, static_cast<Collective>(c));
  }
  EXPECT_GT(accepted, 100);
  EXPECT_GT(refused, 100);
}

TEST(Select, HasAnAnswerForEveryCallAndSize) {
  for (int c = 0; c < kCollectives; ++c) {
    auto collective = static_cast<Collective>(c);
    for (int ranks : {1, 2, 7, 8, 9, 64, 65, 4096}) {
      for (size_t bytes : {size_t{0}, size_t{1}, size_t{4096}, size_t{1} << 20, SIZE_MAX}) {
        Choice choice = select(collective, bytes, ranks, {});
        EXPECT_GE(choice.channels, 1);
        if (collective == Collective::send || collective == Collective::receive) {
          EXPECT_EQ(choice.algorithm, nullptr);
        } else {
          ASSERT_NE(choice.algorithm, nullptr) << nameOf(collective) << " " << ranks << " " << bytes;
          EXPECT_EQ(choice.algorithm->collective, collective);
        }
      }
    }
  }
}

TEST(Select, AllReduceGoesFromFewRoundsToFewBytes) {
  EXPECT_EQ(chosen(Collective::allReduce, 8, 4), "oneshot");
  EXPECT_EQ(chosen(Collective::allReduce, 4096, 8), "oneshot");
  EXPECT_EQ(chosen(Collective::allReduce, 4097, 8), "direct");
  EXPECT_EQ(chosen(Collective::allReduce, 8, 9), "recursive");
  EXPECT_EQ(chosen(Collective::allReduce, 100 << 10, 64), "tree");
  EXPECT_EQ(chosen(Collective::allReduce, 64 << 20, 4), "ring");
  EXPECT_EQ(chosen(Collective::allReduce, 64 << 20, 64), "ring");
}

TEST(Select, LongMessagesTakeTheAlgorithmsThatSendEachByteOnce) {
  const size_t bytes = 64 << 20;
  EXPECT_EQ(chosen(Collective::allGather, bytes, 16), "ring");
  EXPECT_EQ(chosen(Collective::reduceScatter, bytes, 16), "ring");
  EXPECT_EQ(chosen(Collective::broadcast, bytes, 16), "chain");
  EXPECT_EQ(chosen(Collective::reduce, bytes, 16), "chain");
}

// Where all reach each other's memory: one of the algorithms that then moves no byte more than it must.
TEST(Select, OnOneHostFewRanksGoDirect) {
  const auto name = [](Collective collective, size_t bytes, int ranks, bool oneHost = true) {
    return chosen(collective, bytes, ranks, {}, oneHost);
  };
  for (Collective collective : {Collective::allReduce, Collective::allGather, Collective::reduceScatter}) {
    for (int ranks : {3, 8}) EXPECT_EQ(name(collective, 64 << 20, ranks), "direct");
    EXPECT_EQ(name(collective, 64 << 20, 9), "ring");
    EXPECT_EQ(name(collective, 64 << 20, 8, false), "ring");
  }
  EXPECT_EQ(name(Collective::allReduce, 8, 2), "oneshot");
  EXPECT_EQ(name(Collective::allReduce, 64 << 10, 2), "direct");
  EXPECT_EQ(name(Collective::allReduce, 64 << 20, 2), "ring");
}

TEST(Select, OnOneHostTheRootOfABroadcastCopiesNoMoreThanItsShare) {
  const auto name = [](size_t bytes, int ranks) {
    return chosen(Collective::broadcast, bytes, ranks, {}, true);
  };
  EXPECT_EQ(name(8, 2), "direct");
  for (size_t bytes : {size_t{64} << 10, size_t{64} << 20}) EXPECT_EQ(name(bytes, 2), "split");
  EXPECT_EQ(name(1 << 20, 8), "direct");
  EXPECT_EQ(name(64 << 20, 8), "chain");
}

// As before this table was one: every rule that fits is there, none twice.
TEST(Select, MeasuredRulesEndWithOneForAnySize) {
  for (int ranks : {1, 2, 3, 8, 9, 64, 65, 5000}) {
    for (bool oneHost : {false, true}) {
      const auto rules = measuredRules(ranks, oneHost);
      for (size_t i = 0; i < rules.size(); ++i) {
        const bool last = i + 1 == rules.size() || rules[i + 1].collective != rules[i].collective;
        EXPECT_EQ(rules[i].bytes == SIZE_MAX, last) << nameOf(rules[i].collective) << " " << ranks;
        if (last) continue;
        EXPECT_LT(rules[i].bytes, rules[i + 1].bytes);
      }
    }
  }
}

TEST(Select, VCallsGoAsThoseWithoutUnlessTheyHaveRules) {
  SelectionTable table;
  table.rules = {{Collective::allGather, 100, findAlgorithm(Collective::allGather, "recursive")},
                 {Collective::allGather, SIZE_MAX, findAlgorithm(Collective::allGather, "ring")}};
  EXPECT_EQ(select(Collective::allGatherv, 100, 4, table).algorithm,
            findAlgorithm(Collective::allGatherv, "recursive"));
  table.rules.push_back({Collective::allGatherv, SIZE_MAX, findAlgorithm(Collective::allGatherv, "direct")});
  EXPECT_EQ(select(Collective::allGatherv, 100, 4, table).algorithm,
            findAlgorithm(Collective::allGatherv, "direct"));
}

/// No rank knows the others' counts: the choice must not depend on its own.
TEST(Select, AllToAllvDependsOnTheRanksOnly) {
  for (int ranks : {1, 8, 64, 65, 1000}) {
    for (size_t bytes : {size_t{1}, size_t{1} << 20, SIZE_MAX}) {
      EXPECT_EQ(chosen(Collective::allToAllv, bytes, ranks), chosen(Collective::allToAllv, 0, ranks));
    }
  }
  EXPECT_EQ(chosen(Collective::allToAllv, 0, 64), "direct");
  EXPECT_EQ(chosen(Collective::allToAllv, 0, 65), "relay");
}

TEST(Select, WhatIsForcedWinsAtEverySize) {
  SelectionTable table = parsed("allreduce:tree");
  for (size_t bytes : {size_t{1}, size_t{1} << 30}) {
    EXPECT_EQ(chosen(Collective::allReduce, bytes, 4, table), "tree");
    EXPECT_EQ(chosen(Collective::broadcast, bytes, 4, table), chosen(Collective::broadcast, bytes, 4));
  }
}

TEST(Select, ChannelsCanBeForced) {
  SelectionTable table;
  table.channels = 4;
  EXPECT_EQ(select(Collective::allReduce, 1, 4, table).channels, 4);
  EXPECT_EQ(select(Collective::send, 1, 4, table).channels, 4);
}

}  // namespace
}  // namespace eccl
