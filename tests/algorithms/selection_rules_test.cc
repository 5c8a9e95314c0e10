#include "algorithms/selection_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "algorithms/measured_rules.h"

namespace eccl {
namespace {

using ::testing::HasSubstr;

std::string errorOf(const std::string& text) {
  const auto rules = parseRules(text, "table");
  if (rules.ok()) return "accepted";
  EXPECT_EQ(rules.status().code(), Code::invalidArgument);
  return rules.status().message();
}

TEST(SelectionRules, TextGivesTheSameRules) {
  for (int ranks : {2, 5, 9, 1000}) {
    for (bool oneHost : {false, true}) {
      const auto rules = measuredRules(ranks, oneHost);
      const auto again = parseRules(textOf(rules), "table");
      ASSERT_TRUE(again.ok()) << again.status().message();
      EXPECT_EQ(*again, rules);
    }
  }
  EXPECT_TRUE(parseRules("", "table")->empty());
  EXPECT_EQ(parseRules(" # nothing\n\nAllReduce\t* ring # all\n", "table")->size(), 1U);
}

TEST(SelectionRules, ErrorsSayTheLine) {
  EXPECT_THAT(errorOf("AllReduce * ring\nSend * direct\n"),
              HasSubstr("table:2: \"Send * direct\": there is no such"));
  EXPECT_EQ(errorOf("Gather * direct"), "accepted");
  EXPECT_THAT(errorOf("AllReduce -1 ring"), HasSubstr("a number of bytes"));
  EXPECT_THAT(errorOf("AllReduce 18446744073709551616 ring"), HasSubstr("a number of bytes"));
  EXPECT_THAT(errorOf("AllReduce * chain"), HasSubstr("an algorithm of the collective"));
  EXPECT_THAT(errorOf("AllReduce * ring ring"), HasSubstr("a word too many"));
  EXPECT_THAT(errorOf("AllReduce 9 ring\nAllReduce 9 tree\nAllReduce * ring"), HasSubstr("table:2:"));
  EXPECT_THAT(errorOf("AllReduce * ring\nAllReduce * tree"), HasSubstr("grow from line to line"));
  EXPECT_THAT(errorOf("Broadcast 9 tree"), HasSubstr("the last line of Broadcast must be for *"));
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

TEST(SelectionRules, CandidatesAreSortedAndComplete) {
  CallSize size;
  size.elements = 1000;
  size.elementBytes = 4;
  const auto candidates = candidatesFor(Collective::allReduce, size, Placement::hosts(40), CostModel());
  ASSERT_TRUE(candidates.ok()) << candidates.status().message();
  EXPECT_EQ(candidates->size(), 5U);
  for (size_t i = 1; i < candidates->size(); ++i)
    EXPECT_LE((*candidates)[i - 1].microseconds, (*candidates)[i].microseconds);
  EXPECT_GT(candidates->front().microseconds, 0);
}

}  // namespace
}  // namespace eccl
