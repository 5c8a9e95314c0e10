#include "common/environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "common/traffic.h"

namespace eccl::perf {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Environment environmentOf(std::map<std::string, std::string> variables) {
  return [variables = std::move(variables)](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  };
}

std::vector<int> colors(const std::string& name, const std::string& value) {
  std::vector<int> result;
  for (int proc = 0; proc < 6; ++proc) {
    int color = -7;
    if (splitColor(proc, environmentOf({{name, value}}), &color).ok()) result.push_back(color);
  }
  return result;
}

TEST(Split, Operations) {
  EXPECT_THAT(colors("NOTHING", ""), ElementsAre(0, 0, 0, 0, 0, 0));
  EXPECT_THAT(colors("NCCL_TESTS_SPLIT", "AND 0x1"), ElementsAre(0, 1, 0, 1, 0, 1));
  EXPECT_THAT(colors("NCCL_TESTS_SPLIT", "&1"), ElementsAre(0, 1, 0, 1, 0, 1));
  EXPECT_THAT(colors("NCCL_TESTS_SPLIT", "or 0b11"), ElementsAre(3, 3, 3, 3, 7, 7));
  EXPECT_THAT(colors("NCCL_TESTS_SPLIT", "| 3"), ElementsAre(3, 3, 3, 3, 7, 7));
  EXPECT_THAT(colors("NCCL_TESTS_SPLIT", "MOD 3"), ElementsAre(0, 1, 2, 0, 1, 2));
  EXPECT_THAT(colors("NCCL_TESTS_SPLIT", "%3"), ElementsAre(0, 1, 2, 0, 1, 2));
  EXPECT_THAT(colors("ECCL_TESTS_SPLIT", "DIV 4"), ElementsAre(0, 0, 0, 0, 1, 1));
  EXPECT_THAT(colors("NCCL_TESTS_SPLIT", "/ 4"), ElementsAre(0, 0, 0, 0, 1, 1));
  EXPECT_THAT(colors("NCCL_TESTS_SPLIT_MASK", "0x2"), ElementsAre(0, 0, 2, 2, 0, 0));
  EXPECT_THAT(colors("ECCL_TESTS_SPLIT_MASK", "3"), ElementsAre(0, 1, 2, 3, 0, 1));
}

TEST(Split, WhatCannotBeReadIsAnError) {
  for (const char* text : {"", "XOR 3", "MOD", "MOD 0", "/0", "AND x", "AND 1 2"})
    EXPECT_TRUE(colors("NCCL_TESTS_SPLIT", text).empty()) << text;
  EXPECT_TRUE(colors("NCCL_TESTS_SPLIT_MASK", "wide").empty());
}

TEST(Environment, EcclsOwnSpellingWins) {
  const Environment both = environmentOf({{"ECCL_TESTS_DEVICE", "1"}, {"NCCL_TESTS_DEVICE", "2"}});
  EXPECT_STREQ(testsVariable("DEVICE", both), "1");
  EXPECT_STREQ(testsVariable("DEVICE", environmentOf({{"NCCL_TESTS_DEVICE", "2"}})), "2");
  EXPECT_EQ(testsVariable("DEVICE", environmentOf({})), nullptr);
}

TEST(Traffic, GeneratedByDistance) {
  const Traffic far = Traffic::generated(1), even = Traffic::generated(0);
  EXPECT_EQ(far.bytes(0, 0, 4, 9600), 0u);
  EXPECT_EQ(far.bytes(0, 1, 4, 9600), 1600u);
  EXPECT_EQ(far.bytes(0, 3, 4, 9600), 4800u);
  EXPECT_EQ(far.bytes(3, 0, 4, 9600), 1600u);  // the next one, around the end
  EXPECT_EQ(even.bytes(2, 2, 4, 9600), 2400u);
  EXPECT_EQ(even.bytes(2, 1, 4, 100), 16u);  // a multiple of 16
  EXPECT_EQ(far.bytes(0, 0, 1, 100), 96u);
  EXPECT_EQ(far.busiest(4, 9600, 4), 2400u);
}

TEST(Traffic, Matrix) {
  Traffic traffic;
  ASSERT_TRUE(Traffic::parseMatrix("100 200 0\n\n16 0 64\n 32 32 1.6e1 \n", "m", 2, 2, &traffic).ok());
  EXPECT_TRUE(traffic.isMatrix());
  EXPECT_EQ(traffic.bytes(0, 0, 2, 0), 192u);  // 200 cut to a multiple of 16
  EXPECT_EQ(traffic.bytes(0, 1, 2, 0), 400u);
  EXPECT_EQ(traffic.bytes(1, 0, 2, 0), 32u);
  EXPECT_EQ(traffic.busiest(2, 0, 1), 592u);  // rank 0 sends it; only the first two rows and columns count
}

TEST(Traffic, MatricesThatAreNone) {
  const struct {
    const char *text, *problem;
  } cases[] = {{"", "for 0 ranks"},
               {"1 2\n3\n", "square"},
               {"1 2 3\n4 5 6\n", "square"},
               {"16\n", "for 1 ranks"},
               {"1 x\n1 1\n", "row 0, column 1"},
               {"-1 1\n1 1\n", "row 0, column 0"}};
  for (const auto& c : cases) {
    Traffic traffic;
    const Outcome outcome = Traffic::parseMatrix(c.text, "file", 1, 2, &traffic);
    EXPECT_EQ(outcome.code(), Exit::usage) << c.text;
    EXPECT_THAT(outcome.text(), HasSubstr(c.problem));
  }
}

}  // namespace
}  // namespace eccl::perf
