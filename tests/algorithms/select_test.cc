#include "algorithms/selection/select.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "algorithms/selection/selection_rules.h"

namespace eccl::algorithms {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

SelectionTable selectionOf(std::string_view text) {
  Result<SelectionTable> table = parseSelection(text);
  EXPECT_TRUE(table.ok()) << text << ": " << table.status().message();
  return table.ok() ? table.take() : SelectionTable{};
}

std::string errorOfChoice(std::string_view text) {
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

SelectionTable tableOf(const char* text) {
  SelectionTable table;
  const auto rules = parseRules(text, "table");
  EXPECT_TRUE(rules.ok()) << rules.status().message();
  if (rules.ok()) table.rules = *rules;
  return table;
}

std::string chosen(Collective collective, size_t bytes, int ranks, const SelectionTable& table) {
  const Choice choice = select(collective, bytes, ranks, table);
  return choice.algorithm == nullptr ? "" : textOf(choice);
}

TEST(ParseSelection, NothingForcesNothing) {
  for (const char* text : {"", " ", "\t "}) {
    SelectionTable table = selectionOf(text);
    for (int c = 0; c < kCollectives; ++c) EXPECT_EQ(table.forced[c], nullptr);
  }
}

TEST(ParseSelection, ANameIsForAllCollectivesThatHaveIt) {
  SelectionTable table = selectionOf("ring");
  EXPECT_EQ(forcedFor(table, Collective::allReduce), "ring");
  EXPECT_EQ(forcedFor(table, Collective::allGatherv), "ring");
  EXPECT_EQ(forcedFor(table, Collective::reduceScatter), "ring");
  EXPECT_EQ(forcedFor(table, Collective::broadcast), "");
  EXPECT_EQ(forcedFor(table, Collective::allToAllv), "");
}

TEST(ParseSelection, EntriesWithACollectiveAreForItOnly) {
  SelectionTable table = selectionOf("allreduce:tree,broadcast:chain");
  EXPECT_EQ(forcedFor(table, Collective::allReduce), "tree");
  EXPECT_EQ(forcedFor(table, Collective::broadcast), "chain");
  EXPECT_EQ(forcedFor(table, Collective::reduce), "");
}

TEST(ParseSelection, EntriesWithACollectiveAreStrongerWhereverTheyStand) {
  for (const char* text : {"allreduce:tree,ring", "ring,allreduce:tree"}) {
    SelectionTable table = selectionOf(text);
    EXPECT_EQ(forcedFor(table, Collective::allReduce), "tree") << text;
    EXPECT_EQ(forcedFor(table, Collective::allGather), "ring") << text;
  }
}

TEST(ParseSelection, AmongEqualsTheLastCounts) {
  SelectionTable table = selectionOf("direct,ring,reduce:tree,reduce:chain");
  EXPECT_EQ(forcedFor(table, Collective::allReduce), "ring");
  EXPECT_EQ(forcedFor(table, Collective::broadcast), "direct");  // has no ring
  EXPECT_EQ(forcedFor(table, Collective::reduce), "chain");
}

TEST(ParseSelection, CaseAndBlanksDoNotMatter) {
  SelectionTable table = selectionOf(" RING , AlltoAllv : Relay ");
  EXPECT_EQ(forcedFor(table, Collective::allReduce), "ring");
  EXPECT_EQ(forcedFor(table, Collective::allToAllv), "relay");
}

TEST(ParseSelection, EveryAlgorithmCanBeForced) {
  for (const Algorithm& algorithm : algorithms()) {
    std::string text = std::string(nameOf(algorithm.collective)) + ":" + algorithm.name;
    SelectionTable table = selectionOf(text);
    EXPECT_EQ(table.forced[static_cast<int>(algorithm.collective)], &algorithm) << text;
    EXPECT_EQ(select(algorithm.collective, 1, 4, table).algorithm, &algorithm) << text;
  }
}

TEST(ParseSelection, UnknownNamesListWhatThereIs) {
  EXPECT_THAT(errorOfChoice("rign"), AllOf(HasSubstr("\"rign\""), HasSubstr("AllReduce: ring, tree"),
                                           HasSubstr("Broadcast: chain"), HasSubstr("ECCL_ALGO")));
  EXPECT_THAT(errorOfChoice("broadcast:ring"),
              AllOf(HasSubstr("Broadcast: chain, tree, direct"), Not(HasSubstr("AllReduce"))));
  EXPECT_THAT(errorOfChoice("allredcue:ring"),
              AllOf(HasSubstr("no collective \"allredcue\""), HasSubstr("AllReduce")));
  EXPECT_THAT(errorOfChoice("send:direct"), AllOf(HasSubstr("no collective \"send\""), Not(HasSubstr("Send"))));
}

TEST(ParseSelection, EmptyAndMalformedEntriesAreErrors) {
  for (const char* text : {",", "ring,", ",ring", "ring,,tree", ":", "allreduce:", ":ring",
                           "allreduce:ring:tree", "allreduce ring", "ring;tree", "ring tree"}) {
    EXPECT_NE(errorOfChoice(text), "accepted") << text;
  }
}

TEST(ParseSelection, LongTextIsNotRepeatedWhole) {
  EXPECT_LT(errorOfChoice(std::string(100000, 'x')).size(), 2000u);
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

TEST(Select, TheFirstRuleThatFitsCounts) {
  const SelectionTable table =
      tableOf("AllReduce 8 oneshot\nAllReduce 4096 tree 2\nAllReduce * ring 1 16384\n");
  EXPECT_EQ(chosen(Collective::allReduce, 0, 4, table), "oneshot");
  EXPECT_EQ(chosen(Collective::allReduce, 8, 4, table), "oneshot");
  EXPECT_EQ(chosen(Collective::allReduce, 9, 4, table), "tree 2");
  EXPECT_EQ(chosen(Collective::allReduce, 4096, 4, table), "tree 2");
  EXPECT_EQ(chosen(Collective::allReduce, SIZE_MAX, 4, table), "ring 1 16384");
  EXPECT_EQ(chosen(Collective::gather, 9, 4, table), "direct") << "what no rule is for goes by the list";
}

TEST(Select, VCallsGoAsThoseWithoutUnlessTheyHaveRules) {
  SelectionTable table = tableOf("AllGather 100 recursive\nAllGather * ring 2\n");
  EXPECT_EQ(select(Collective::allGatherv, 100, 4, table).algorithm,
            findAlgorithm(Collective::allGatherv, "recursive"));
  EXPECT_EQ(chosen(Collective::allGatherv, 101, 4, table), "ring 2");
  table = tableOf("AllGather * ring 2\nAllGatherv * direct\n");
  EXPECT_EQ(select(Collective::allGatherv, 101, 4, table).algorithm,
            findAlgorithm(Collective::allGatherv, "direct"));
}

/// No rank knows the others' counts: the choice must not depend on its own.
TEST(Select, AllToAllvDependsOnTheRanksOnly) {
  const SelectionTable table = tableOf("AlltoAllv 100 direct\nAlltoAllv * relay\n");
  for (int ranks : {1, 8, 64, 65, 1000}) {
    for (size_t bytes : {size_t{1}, size_t{1} << 20, SIZE_MAX}) {
      EXPECT_EQ(chosen(Collective::allToAllv, bytes, ranks, {}), ranks <= 64 ? "direct" : "relay");
      EXPECT_EQ(chosen(Collective::allToAllv, bytes, ranks, table), "direct");
    }
  }
}

TEST(Select, WhatIsForcedWinsAtEverySize) {
  SelectionTable table = selectionOf("allreduce:tree");
  table.rules = tableOf("AllReduce * ring 2 4096\nBroadcast 9 tree\nBroadcast * chain\n").rules;
  for (size_t bytes : {size_t{1}, size_t{1} << 30}) {
    EXPECT_EQ(chosen(Collective::allReduce, bytes, 4, table), "tree");
    EXPECT_EQ(chosen(Collective::broadcast, bytes, 4, table), bytes == 1 ? "tree" : "chain");
  }
}

TEST(Select, ChannelsCanBeForced) {
  SelectionTable table = tableOf("AllReduce * ring 2 4096\n");
  table.channels = 4;
  EXPECT_EQ(chosen(Collective::allReduce, 1, 4, table), "ring 4 4096");
  EXPECT_EQ(select(Collective::send, 1, 4, table).channels, 4);
}

}  // namespace
}  // namespace eccl::algorithms
