// The text form: exact both ways, and clear about what is wrong.
#include "program/text.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <random>

#include "algorithms/builder/builder.h"
#include "algorithms/library/algorithm.h"
#include "algorithms/verify/verify.h"

namespace eccl::algorithms {
namespace {

std::vector<Program> parsed(std::string_view text) {
  auto programs = parse(text);
  EXPECT_TRUE(programs.ok()) << programs.status().message();
  return programs.ok() ? programs.take() : std::vector<Program>{};
}

std::string errorOf(std::string_view text) {
  auto programs = parse(text);
  if (programs.ok()) return "it parses";
  EXPECT_EQ(programs.status().code(), Code::invalidArgument);
  return programs.status().message();
}

TEST(ScheduleText, EveryAlgorithmComesBackAsItWas) {
  for (const Algorithm& algorithm : algorithms()) {
    for (int n : {1, 2, 3, 4, 7, 8, 13}) {
      for (int channels : {1, 2, 4}) {
        auto programs =
            buildAll(algorithm, {algorithm.collective, n, hasRoot(algorithm.collective) ? n / 2 : 0}, channels);
        ASSERT_TRUE(parsed(dumpSchedule(programs)) == programs)
            << nameOf(algorithm.collective) << " " << algorithm.name << " n=" << n << " channels=" << channels;
      }
    }
  }
}

/// Any field may hold anything that fits it.
Program randomProgram(std::mt19937_64& random) {
  auto any = [&] {
    static constexpr int32_t kEdges[] = {0, 0, 0, 1, -1, 7, INT32_MAX, INT32_MIN};
    return random() % 3 == 0 ? static_cast<int32_t>(random()) : kEdges[random() % 8];
  };
  auto walk = [&] { return random() % 2 == 0 ? Walk{any()} : Walk{any(), any(), any(), any()}; };
  Program program;
  program.collective = static_cast<Collective>(random() % kCollectives);
  program.rank = any(), program.ranks = any(), program.root = any();
  program.parts = any(), program.channels = any();
  program.streams = random() % 2 == 0;
  for (BlockMap& map : program.maps) map = {any(), any(), any()};
  for (size_t i = random() % 4; i > 0; --i) {
    program.connections.push_back(
        {any(), random() % 2 == 0, static_cast<int16_t>(any()), static_cast<int16_t>(any())});
  }
  for (size_t lanes = random() % 4; lanes > 0; --lanes) {
    Lane lane = {static_cast<int32_t>(program.steps.size()), 0, any()};
    for (lane.steps = static_cast<int32_t>(random() % 5);
         program.steps.size() < static_cast<size_t>(lane.firstStep + lane.steps);) {
      Step step;
      step.firstOperand = static_cast<int32_t>(program.operands.size());
      step.sources = static_cast<uint8_t>(random() % 9), step.destinations = static_cast<uint8_t>(random() % 9);
      step.post = random() % 2 == 0, step.waitPreviousTile = random() % 2 == 0;
      step.repeat = any(), step.waitLane = any(), step.waitStep = any();
      for (int i = 0; i < step.sources + step.destinations; ++i) {
        program.operands.push_back({static_cast<Space>(random() % 4), random() % 2 == 0, random() % 2 == 0,
                                    random() % 2 == 0, random() % 2 == 0, random() % 2 == 0, any(), walk(),
                                    walk()});
      }
      program.steps.push_back(step);
    }
    program.lanes.push_back(lane);
  }
  return program;
}

TEST(ScheduleText, ProgramsThatMakeNoSenseComeBackAsTheyWere) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 2000; ++i) {
    std::vector<Program> programs;
    for (size_t n = 1 + random() % 3; n > 0; --n) programs.push_back(randomProgram(random));
    std::string text = dumpSchedule(programs);
    ASSERT_TRUE(parsed(text) == programs) << text;
    // Whatever it is, judging it ends.
    Verdict verdict = verify(programs, i % 2 == 0);
    ASSERT_FALSE(verdict.ok) << text;
    ASSERT_FALSE(verdict.reason.empty());
  }
}

TEST(ScheduleText, IsWhatTheHeaderSays) {
  auto programs = buildAll(*findAlgorithm(Collective::allReduce, "ring"), {Collective::allReduce, 4, 0}, 1);
  EXPECT_EQ(dump(programs[0]),
            "program AllReduce rank 0 of 4 root 0 parts 4 channels 1\n"
            "input blocks 1 first 0 stride 1\n"
            "output blocks 1 first 0 stride 1\n"
            "connection 0 send to 1 channel 0 tag 0\n"
            "connection 1 receive from 3 channel 0 tag 0\n"
            "lane 0 channel 0\n"
            "  step input[0].part[0+(3-1*i)%4] pre stable -> connection[0]\n"
            "  step connection[1], input[0].part[0+(2-1*i)%4] pre -> connection[0] repeat 2\n"
            "  step connection[1], input[0].part[0+(0-1*i)%4] pre -> output[0].part[0+(0-1*i)%4], "
            "connection[0] post\n"
            "  step connection[1] -> output[0].part[0+(3-1*i)%4] posted, connection[0] repeat 2\n"
            "  step connection[1] -> output[0].part[0+(1-1*i)%4] posted\n");
}

/// docs/schedule.md works this Program through.
TEST(ScheduleText, IsWhatTheDocumentShows) {
  std::ifstream file(std::string(ECCL_SOURCE_DIR) + "/docs/schedule.md");
  const std::string document{std::istreambuf_iterator<char>(file), {}};
  auto programs = buildAll(*findAlgorithm(Collective::allReduce, "ring"), {Collective::allReduce, 4, 0}, 1);
  EXPECT_NE(document.find("```\n" + dump(programs[0]) + "```\n"), std::string::npos);
}

TEST(ScheduleText, ReadsCommentsBlankLinesAndAnySpacing) {
  auto programs = parsed(
      "# one rank copies\r\n\n"
      "program AllGather rank 0 of 1 root 0 parts 2 channels 1 message-parts 2 # the call\r\n"
      "\tinput blocks 1 first 0 stride 1\n"
      "output  blocks 1 first 0 stride 1\n"
      "lane 0 channel 0\n"
      "step input [ 0 ] . part [ 0 ] count 2->output[0].part[0]count 2");
  ASSERT_EQ(programs.size(), 1u);
  EXPECT_TRUE(verify(programs, false).ok) << verify(programs, false).reason;
  Builder b({Collective::allGather, 1, 0}, 0, 1, 2);
  b.lane(0);
  b.step({input().part(0).count(2)}, {output().part(0).count(2)});
  EXPECT_TRUE(programs[0] == b.take());
}

TEST(ScheduleText, NamesTheLineAndWhatWasExpected) {
  const std::string head = "program AllReduce rank 0 of 2 root 0 parts 1 channels 1\n";
  EXPECT_EQ(errorOf(""), "the text describes no program");
  EXPECT_EQ(errorOf("# nothing\n\n"), "the text describes no program");
  EXPECT_EQ(errorOf("lane 0 channel 0\n"), "line 1: expected 'program', found 'lane 0 channel 0'");
  EXPECT_EQ(errorOf("\n\nprogram AllReduced rank"),
            "line 3: expected the name of a collective, found 'AllReduced rank'");
  EXPECT_EQ(errorOf("program AllReduce rnak 0"), "line 1: expected 'rank', found 'rnak 0'");
  EXPECT_EQ(errorOf("program AllReduce rank 0 of"),
            "line 1: expected a number from -2147483648 to 2147483647, found the end of the line");
  EXPECT_EQ(errorOf("program AllReduce rank 2147483648 of 1 root 0 parts 1 channels 1"),
            "line 1: expected a number from -2147483648 to 2147483647, found "
            "'2147483648 of 1 root 0 parts 1'");
  EXPECT_EQ(errorOf(head + "connection 0 send to 1 channel 32768 tag 0\n"),
            "line 2: expected a number from -32768 to 32767, found '32768 tag 0'");
  EXPECT_EQ(errorOf(head + "connection 1 send to 1 channel 0 tag 0\n"),
            "line 2: connection 1 follows 0 others: connections are counted from 0");
  EXPECT_EQ(errorOf(head + "connection 0 send from 1 channel 0 tag 0\n"),
            "line 2: expected 'to', found 'from 1 channel 0 tag 0'");
  EXPECT_EQ(errorOf(head + "step input[0].part[0] -> nothing\n"), "line 2: a step comes before the first lane");
  EXPECT_EQ(errorOf(head + "lane 1 channel 0\n"), "line 2: lane 1 follows 0 others: lanes are counted from 0");
  const std::string lane = head + "lane 0 channel 0\n";
  EXPECT_EQ(errorOf(lane + "step input[0] -> nothing\n"), "line 3: expected '.part[', found '-> nothing'");
  EXPECT_EQ(errorOf(lane + "step input[0].parts[0] -> nothing\n"),
            "line 3: expected 'part', found 'parts[0] -> nothing'");
  EXPECT_EQ(
      errorOf(lane + "step inputs[0].part[0] -> nothing\n"),
      "line 3: expected input, output, scratch, connection or nothing, found 'inputs[0].part[0] -> nothing'");
  EXPECT_EQ(errorOf(lane + "step input[0+(1*i)%2].part[0] -> nothing\n"),
            "line 3: expected a number from -2147483648 to 2147483647, found '*i)%2].part[0] -> nothing'");
  EXPECT_EQ(errorOf(lane + "step input[0].part[0] -> nothing twice\n"),
            "line 3: expected the end of the line, found 'twice'");
  std::string nine = "connection[0]";
  for (int i = 1; i < 9; ++i) nine += ", connection[0]";
  EXPECT_EQ(errorOf(lane + "step " + nine + " -> nothing\n"),
            "line 3: a step has more than 8 operands on one side");
  EXPECT_EQ(errorOf(std::string("program \0\x01\xff", 11)),
            "line 1: expected the name of a collective, found '?"
            "?"
            "?'");
}

TEST(ScheduleText, TakesTimeInProportionToTheText) {
  std::string text = "program AllReduce rank 0 of 1 root 0 parts 1 channels 1\nlane 0 channel 0\n";
  for (int i = 0; i < 100'000; ++i) text += "step input[0].part[0] -> output[0].part[0] repeat 1048576\n";
  auto programs = parsed(text);
  ASSERT_EQ(programs.size(), 1u);
  EXPECT_EQ(programs[0].steps.size(), 100'000u);
  Verdict verdict = verify(programs, false);
  EXPECT_TRUE(verdict.gaveUp);
  EXPECT_EQ(verdict.reason, "104857600000 moves are more than the 67108864 that would be verified");
}

}  // namespace
}  // namespace eccl::algorithms
