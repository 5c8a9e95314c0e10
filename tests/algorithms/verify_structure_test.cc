// What the verifier finds without running anything: each schedule is wrong in one way, and refuted for that
// reason.
#include <gtest/gtest.h>

#include "algorithms/library/algorithm.h"
#include "support/schedules.h"

namespace eccl::algorithms {
namespace {

TEST(Verify, AcceptsWhatIsRight) {
  EXPECT_EQ(test::judge(test::broadcast()), "ok");
  EXPECT_EQ(test::judge(test::broadcast(), true), "ok");
  EXPECT_EQ(test::judge(test::alone("lane 0 channel 0\nstep input[0].part[0] pre -> output[0].part[0] post\n")),
            "ok");
}

TEST(Verify, RefutesProgramsThatDoNotBelongTogether) {
  EXPECT_EQ(verify({}, false).reason, "no programs");
  const std::string good =
      test::alone("lane 0 channel 0\nstep input[0].part[0] pre -> output[0].part[0] post\n");
  EXPECT_EQ(test::judge(good + good), "2 programs for 1 ranks");
  auto ring = [](int n) {
    return buildAll(*findAlgorithm(Collective::allReduce, "ring"), {Collective::allReduce, n, 0}, 1);
  };
  auto programs = ring(4);
  std::swap(programs[1], programs[2]);
  EXPECT_EQ(verify(programs, false).reason, "rank 1: its rank field is another's");
  programs = ring(4);
  programs[3].parts = 5;
  EXPECT_EQ(verify(programs, false).reason, "rank 3: it describes another call than rank 0's");
  programs = ring(4);
  programs[3].map(Space::output).number = 0;
  EXPECT_EQ(verify(programs, false).reason, "rank 3: its buffers are not the collective's");
  programs = ring(4);
  for (Program& program : programs) program.root = 4;
  EXPECT_EQ(verify(programs, false).reason, "no such collective or root");
}

TEST(Verify, RefutesConnectionsWithoutTwoEnds) {
  EXPECT_EQ(
      test::judge(test::broadcast("lane 0 channel 0\n" + test::kCopy, "lane 0 channel 0\n" + test::kKeep, "")),
      "connection 0->1 channel 0 tag 0 has no sender");
  EXPECT_EQ(
      test::judge(test::broadcast("lane 0 channel 0\nstep input[0].part[0] -> connection[0]\n" + test::kCopy,
                                  "lane 0 channel 0\n", test::kSend, "")),
      "connection 0->1 channel 0 tag 0 has no receiver");
  EXPECT_EQ(test::judge(test::broadcast("lane 0 channel 0\n" + test::kCopy)),
            "rank 0: connection 0 is never used");
  EXPECT_EQ(test::judge(test::broadcast(
                "lane 0 channel 0\nstep input[0].part[0] -> connection[0]\n" + test::kCopy,
                "lane 0 channel 0\n" + test::kKeep, "connection 0 send to 0 channel 0 tag 0\n")),
            "rank 0: connection 0 has no such peer");
  EXPECT_EQ(test::judge(test::broadcast(
                "lane 0 channel 0\nstep input[0].part[0] -> connection[0], connection[1]\n" + test::kCopy,
                "lane 0 channel 0\n" + test::kKeep, test::kSend + "connection 1 send to 1 channel 0 tag 0\n")),
            "rank 0: two connections with one name");
  EXPECT_EQ(test::judge(test::broadcast(
                "lane 0 channel 0\nstep input[0].part[0] -> connection[0]\n"
                "lane 1 channel 0\nstep input[0].part[0] -> output[0].part[0], connection[0]\n")),
            "rank 0: lane 1 step 0: connection 0 is used by two lanes");
  EXPECT_EQ(test::judge(test::broadcast("lane 0 channel 0\nstep connection[0] -> output[0].part[0]\n")),
            "rank 0: lane 0 step 0: connection used against its direction");
  EXPECT_EQ(test::judge(test::broadcast(
                "lane 0 channel 0\nstep input[0].part[0] -> connection[0], connection[0]\n" + test::kCopy)),
            "rank 0: lane 0 step 0: one step uses a connection twice");
  EXPECT_EQ(test::judge(test::broadcast(
                "lane 0 channel 0\nstep input[0].part[0] -> connection[0+(0+1*i)] repeat 2\n" + test::kCopy)),
            "rank 0: lane 0 step 0: connection 1 does not exist");
}

TEST(Verify, RefutesOperandsOutsideTheirBuffers) {
  auto step = [](const std::string& text, int parts = 2) {
    return test::judge(test::alone("lane 0 channel 0\nstep " + text + "\n", parts));
  };
  EXPECT_EQ(step("input[1].part[0] pre -> output[1].part[0] post"),
            "rank 0: lane 0 step 0: repeat 0: block 1 is not in the buffer");
  EXPECT_EQ(step("input[-2147483648].part[0] pre -> nothing"),
            "rank 0: lane 0 step 0: repeat 0: block -2147483648 is not in the buffer");
  EXPECT_EQ(step("input[0].part[0+(0+1*i)] pre -> output[0].part[0+(0+1*i)] repeat 3 post"),
            "rank 0: lane 0 step 0: repeat 2: part 2 is out of range");
  EXPECT_EQ(step("input[0].part[1] count 2 pre -> nothing").substr(0, 42),
            "rank 0: lane 0 step 0: count 2 is more tha");
  EXPECT_EQ(step("scratch[0].part[0] -> nothing"),
            "rank 0: lane 0 step 0: repeat 0: block 0 is not in the buffer");
  EXPECT_EQ(step("input[0].part[0] pre -> output[0].part[1] post"),
            "rank 0: lane 0 step 0: repeat 0: operands are different parts");
  EXPECT_EQ(step("output[0].part[0] -> input[0].part[0]"), "rank 0: lane 0 step 0: writes the input");
  EXPECT_EQ(step("input[0].part[0] pre -> output[0].part[0], output[0].part[0] post"),
            "rank 0: lane 0 step 0: names one place twice");
  EXPECT_EQ(step("nothing -> output[0].part[0]"),
            "rank 0: lane 0 step 0: a step has 1 to 8 sources and at most 8 destinations");
  EXPECT_EQ(step("output[0].part[0] pre -> nothing"),
            "rank 0: lane 0 step 0: pre belongs to an input source of a reduction");
  EXPECT_EQ(step("input[0].part[0] pre stable -> output[0].part[0] post"),
            "rank 0: lane 0 step 0: stable belongs to the only source of a step without post");
  EXPECT_EQ(step("input[0].part[0] pre -> output[0].part[0] repeat 0 post"),
            "rank 0: lane 0 step 0: repeat 0 is out of range");
  EXPECT_EQ(step("input[0].part[0] pre -> output[0].part[0] post wait lane 1 step 0"),
            "rank 0: lane 0 step 0: waits on no lane");
  EXPECT_EQ(step("input[0].part[0] pre -> output[0].part[0] post wait lane 0 step 1"),
            "rank 0: lane 0 step 0: waits on no step");
  EXPECT_EQ(test::judge(test::alone("lane 0 channel 1\n")), "rank 0: lane 0 is on no channel");
  EXPECT_EQ(test::judge(test::alone("lane 0 channel 0\n", 1, "scratch blocks 2 first 0 stride 1\n")),
            "rank 0: its scratch mirrors blocks that do not exist");
  EXPECT_EQ(test::judge(
                test::alone("lane 0 channel 0\n", 1, "scratch blocks 2147483647 first 0 stride 2147483647\n")),
            "rank 0: its scratch mirrors blocks that do not exist");
}

}  // namespace
}  // namespace eccl::algorithms
