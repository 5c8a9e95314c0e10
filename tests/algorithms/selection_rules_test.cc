#include "algorithms/selection/selection_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

namespace eccl::algorithms {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

std::string errorOfRules(const std::string& text) {
  const auto rules = parseRules(text, "table");
  if (rules.ok()) return "accepted";
  EXPECT_EQ(rules.status().code(), Code::invalidArgument);
  return rules.status().message();
}

TEST(SelectionRules, TextGivesTheSameRules) {
  const std::string text =
      "AllReduce 8 oneshot\nAllReduce 4096 tree 2\nAllReduce * ring 1 16384\nBarrier * direct\n";
  const auto rules = parseRules(text, "table");
  ASSERT_TRUE(rules.ok()) << rules.status().message();
  EXPECT_EQ(textOf(*rules), text);
  EXPECT_EQ((*rules)[1].choice, (Choice{findAlgorithm(Collective::allReduce, "tree"), 2, 0}));
  EXPECT_EQ((*rules)[2].choice, (Choice{findAlgorithm(Collective::allReduce, "ring"), 1, 16384}));
  EXPECT_TRUE(parseRules("", "table")->empty());
  EXPECT_EQ(parseRules(" # nothing\n\nAllReduce\t* ring # all\n", "table")->size(), 1U);
}

TEST(SelectionRules, ErrorsSayTheLine) {
  EXPECT_THAT(errorOfRules("AllReduce * ring\nSend * direct\n"),
              HasSubstr("table:2: \"Send * direct\": there is no such"));
  EXPECT_EQ(errorOfRules("Gather * direct"), "accepted");
  EXPECT_THAT(errorOfRules("AllReduce -1 ring"), HasSubstr("a number of bytes"));
  EXPECT_THAT(errorOfRules("AllReduce 18446744073709551616 ring"), HasSubstr("a number of bytes"));
  EXPECT_THAT(errorOfRules("AllReduce * chain"), HasSubstr("the third word is an algorithm of the collective"));
  for (const char* channels : {"ring", "0", "65", "-1", "1.5"})
    EXPECT_THAT(errorOfRules(std::string("AllReduce * ring ") + channels), HasSubstr("channels from 1 to 64"));
  for (const char* tile : {"ring", "1023", "4294967296", "-1"})
    EXPECT_THAT(errorOfRules(std::string("AllReduce * ring 1 ") + tile), HasSubstr("the bytes of a message"));
  EXPECT_EQ(errorOfRules("AllReduce * ring 64 1024"), "accepted");
  EXPECT_THAT(errorOfRules("AllReduce * ring 1 1024 1"), HasSubstr("a word too many"));
  EXPECT_THAT(errorOfRules("AllReduce 9 ring\nAllReduce 9 tree\nAllReduce * ring"), HasSubstr("table:2:"));
  EXPECT_THAT(errorOfRules("AllReduce * ring\nAllReduce * tree"), HasSubstr("grow from line to line"));
  EXPECT_THAT(errorOfRules("Broadcast 9 tree"), HasSubstr("the last line of Broadcast must be for *"));
}

// With one constant each, what textbooks say: rounds decide, or bytes do.
TEST(SelectionRules, FollowTheModel) {
  CostParameters rounds{}, bytes{};
  rounds[CostTerm::networkLatency] = 10;
  bytes[CostTerm::portBytes] = 100;
  const Placement hosts = Placement::hosts(8);
  SelectionTable byRounds, byBytes;
  byRounds.rules = *rulesFor(hosts, CostModel(rounds, {}), {});
  byBytes.rules = *rulesFor(hosts, CostModel(bytes, {}), {});
  const auto name = [](const SelectionTable& table, Collective collective, size_t size) {
    return std::string(select(collective, size, 8, table).algorithm->name);
  };
  EXPECT_EQ(name(byRounds, Collective::allReduce, 1000), "oneshot");
  EXPECT_EQ(name(byRounds, Collective::broadcast, 1000), "direct");
  EXPECT_NE(name(byBytes, Collective::allReduce, 1 << 20), "oneshot");
  EXPECT_EQ(name(byBytes, Collective::broadcast, 16 << 20), "chain");  // direct sends it seven times
  EXPECT_EQ(name(byBytes, Collective::reduce, 16 << 20), "chain");
}

// By the default constants, whatever they are exactly.
TEST(SelectionRules, ManyRanksOnHostsTakeFewRoundsAndThenFewBytes) {
  for (int ranks : {64, 100, 1000}) {
    SelectionTable table;
    table.rules = *rulesFor(Placement::hosts(ranks), CostModel(), {});
    const auto name = [&](Collective collective, size_t size) {
      return std::string(select(collective, size, ranks, table).algorithm->name);
    };
    for (Collective collective : {Collective::allReduce, Collective::broadcast, Collective::reduce})
      EXPECT_THAT(name(collective, 64), AnyOf("recursive", "tree", "doubling"))
          << nameOf(collective) << " " << ranks;
    if (ranks > kMaxNeighbours) {  // the root has not that many connections
      EXPECT_EQ(name(Collective::gather, 64), "tree") << ranks;
      EXPECT_EQ(name(Collective::scatter, 64), "tree") << ranks;
    }
    EXPECT_THAT(name(Collective::allReduce, 1 << 30), AnyOf("ring", "direct", "tree")) << ranks;
    for (const SelectionRule& rule : table.rules) {
      std::set<int> peers;
      for (const ConnectionSpec& connection :
           rule.choice.algorithm->build({rule.collective, ranks, 0}, Placement::hosts(ranks), 0, 1).connections)
        peers.insert(connection.peer);
      EXPECT_LE(peers.size(), size_t{kMaxNeighbours}) << nameOf(rule.collective) << " " << ranks;
    }
    EXPECT_THAT(name(Collective::broadcast, 1 << 30), "chain") << ranks;
    EXPECT_THAT(name(Collective::reduce, 1 << 30), "chain") << ranks;
  }
}

// A tile of the pipeline that fills it costs less than a slot's; with two ranks there is nothing to fill.
TEST(SelectionRules, PipelinesTakeShorterMessages) {
  CostParameters slow;  // all that costs anything
  slow[CostTerm::portBytes] = 1000;
  CallSize size;
  size.elementBytes = 4;
  size.elements = 64 << 10;
  const CostModel model(slow, {});
  const auto many = candidatesFor(Collective::broadcast, size, Placement::hosts(8), model);
  ASSERT_TRUE(many.ok()) << many.status().message();
  EXPECT_EQ(textOf(many->front().choice), "chain 1 16384");
  const auto slots = timeOf({many->front().choice.algorithm}, size, Placement::hosts(8), model);
  // 16 tiles of 16 KiB and 6 more hops of one, against 2 of 128 KiB.
  EXPECT_NEAR(*slots / many->front().microseconds, (2.0 + 6) * 131072 / ((16.0 + 6) * 16384), 0.01);
  const auto pair = candidatesFor(Collective::broadcast, size, Placement::hosts(2), model);
  ASSERT_TRUE(pair.ok()) << pair.status().message();
  for (const Candidate& candidate : *pair) EXPECT_EQ(candidate.choice.tile, 0U);
  // Where slots hold a megabyte (slotBytesFor()), and much is to be sent, in messages as elsewhere.
  size.slotBytes = 1 << 20;
  size.elements = 4 << 20;
  const auto longSlots = candidatesFor(Collective::broadcast, size, Placement::hosts(8), model);
  ASSERT_TRUE(longSlots.ok()) << longSlots.status().message();
  EXPECT_EQ(textOf(longSlots->front().choice), "chain 1 131072");
}

// What is chosen by estimates from 16 of 64 ranks, against simulations of all 64.
TEST(SelectionRules, ManyRanksAreEstimatedWellEnoughToChoose) {
  for (const Placement& where : {Placement::hosts(64), Placement::oneHost(64, 64)}) {
    for (Collective collective : {Collective::allReduce, Collective::broadcast, Collective::allGather}) {
      for (uint64_t elements : {16, 1 << 10, 16 << 10}) {
        CallSize size;
        size.elementBytes = 4;
        size.elements = elements;
        const auto candidates = candidatesFor(collective, size, where, CostModel());
        ASSERT_TRUE(candidates.ok()) << candidates.status().message();
        double best = INFINITY;
        for (const Candidate& candidate : *candidates)
          best = std::min(best, *timeOf(candidate.choice, size, where, CostModel()));
        const Choice chosen = candidates->front().choice;
        EXPECT_LT(*timeOf(chosen, size, where, CostModel()) / best, 1.5)
            << textOf(chosen) << " for " << nameOf(collective) << " of " << elements;
      }
    }
  }
}

TEST(SelectionRules, CoverEverySizeForAnyNumberOfRanks) {
  for (int ranks : {2, 3, 8, 16, 17, 200}) {
    for (const Placement& placement : {Placement::oneHost(ranks, 2), Placement::hosts(ranks)}) {
      const auto rules = rulesFor(placement, CostModel(), {});
      ASSERT_TRUE(rules.ok()) << rules.status().message();
      const auto again = parseRules(textOf(*rules), "table");  // refuses gaps and what has no end
      ASSERT_TRUE(again.ok()) << again.status().message();
      EXPECT_EQ(*again, *rules);
    }
  }
}

// Two ranks on each host share its ports, so that the model takes both ways for equal.
TEST(SelectionRules, LongBlocksAreRelayedOnlyWhereThatIsClearlyFaster) {
  CostParameters bytes{};
  bytes[CostTerm::portBytes] = 100;
  const CostModel model(bytes, {});
  const auto relayed = [&](const Placement& placement, uint64_t elements) {
    CallSize size;
    size.elements = elements;
    size.elementBytes = 4;
    const auto candidates = candidatesFor(Collective::allToAll, size, placement, model);
    EXPECT_TRUE(candidates.ok()) << candidates.status().message();
    return std::any_of(candidates->begin(), candidates->end(),
                       [](const Candidate& one) { return std::string(one.choice.algorithm->name) == "rail"; });
  };
  const Placement shared = Placement::blocks(8, 4);
  EXPECT_TRUE(relayed(shared, 1 << 10));
  EXPECT_FALSE(relayed(shared, 1 << 18));
}

// What they cost is not in the model: of half a MiB they would save less, of four MiB they save more.
TEST(SelectionRules, SeveralChannelsHaveToSaveWhatTheyCost) {
  const auto several = [](uint64_t elements) {
    CallSize size;
    size.elements = elements;
    size.elementBytes = 4;
    const auto candidates = candidatesFor(Collective::allReduce, size, Placement::hosts(2), CostModel());
    EXPECT_TRUE(candidates.ok()) << candidates.status().message();
    return std::any_of(candidates->begin(), candidates->end(),
                       [](const Candidate& one) { return one.choice.channels > 1; });
  };
  EXPECT_FALSE(several(128 << 10));
  EXPECT_TRUE(several(1 << 20));
}

TEST(SelectionRules, CandidatesAreSortedAndComplete) {
  CallSize size;
  size.elements = 1000;
  size.elementBytes = 4;
  const auto candidates = candidatesFor(Collective::allReduce, size, Placement::hosts(40), CostModel());
  ASSERT_TRUE(candidates.ok()) << candidates.status().message();
  std::set<const Algorithm*> all;
  for (const Candidate& candidate : *candidates) all.insert(candidate.choice.algorithm);
  EXPECT_EQ(all.size(), 6U);
  for (size_t i = 1; i < candidates->size(); ++i)
    EXPECT_LE((*candidates)[i - 1].microseconds, (*candidates)[i].microseconds);
  EXPECT_GT(candidates->front().microseconds, 0);
}

// Between two ranks ring and tree make the same moves: their times differ by rounding, if at all.
TEST(SelectionRules, OfEqualOnesTheFirstOfTheListIsChosen) {
  for (int third = 1; third < 30; ++third) {
    CostParameters parameters = CostModel().parameters();
    for (double& value : parameters.values) value *= third / 3.0;
    CallSize size;
    size.elements = 8 << 10;
    size.elementBytes = 4;
    const auto candidates =
        candidatesFor(Collective::allReduce, size, Placement::oneHost(2, 2), CostModel(parameters, {}));
    ASSERT_TRUE(candidates.ok()) << candidates.status().message();
    EXPECT_STREQ(candidates->front().choice.algorithm->name, "ring") << third;
    const auto tree = std::find_if(candidates->begin(), candidates->end(), [](const Candidate& one) {
      return std::string(one.choice.algorithm->name) == "tree";
    });
    ASSERT_NE(tree, candidates->end());
    EXPECT_NEAR(tree->microseconds / candidates->front().microseconds, 1, 1e-9) << third;
  }
}

}  // namespace
}  // namespace eccl::algorithms
