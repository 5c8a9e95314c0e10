// The verifier on schedules written by hand: each is wrong in one way, and refuted for that reason. They are
// written as text, which shows the mistake best. What is right beside them is accepted.
#include "algorithms/verify/verify.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ctime>

#include "algorithms/library/algorithm.h"
#include "support/sanitizers.h"
#include "support/schedules.h"

namespace eccl::algorithms {
namespace {

using testing::HasSubstr;

// ------------------------------------------------------------------------------------------------ control

TEST(Verify, FindsDeadlocks) {
  // Both receive before they send.
  auto rank = [](int self) {
    const int peer = 1 - self;
    return format(
        "program AllGather rank %d of 2 root 0 parts 1 channels 1\n"
        "input blocks 1 first %d stride 1\noutput blocks 2 first 0 stride 1\n"
        "connection 0 send to %d channel 0 tag 0\nconnection 1 receive from %d channel 0 tag 0\n"
        "lane 0 channel 0\nstep connection[1] -> output[%d].part[0]\n"
        "step input[%d].part[0] -> output[%d].part[0], connection[0]\n",
        self, self, peer, peer, peer, self, self);
  };
  EXPECT_EQ(test::judge(rank(0) + rank(1)),
            "deadlock with 1 tile(s) and 8 slot(s): rank 0 lane 0 step 0 repeat 0 tile 0: blocked; "
            "rank 1 lane 0 step 0 repeat 0 tile 0: blocked;");
  // A step that waits for a later one of its own lane.
  EXPECT_THAT(test::judge(test::alone(
                  "lane 0 channel 0\nstep input[0].part[0] pre -> output[0].part[0] post wait lane 0 step 1\n"
                  "step output[0].part[0] -> nothing\n")),
              HasSubstr("deadlock with 1 tile(s)"));
}

/// Two ranks send each other `messages` parts before they receive any.
std::string burst(int messages) {
  auto rank = [&](int self) {
    const int peer = 1 - self;
    return format(
        "program AllGather rank %d of 2 root 0 parts %d channels 1\n"
        "input blocks 1 first %d stride 1\noutput blocks 2 first 0 stride 1\n"
        "connection 0 send to %d channel 0 tag 0\nconnection 1 receive from %d channel 0 tag 0\n"
        "lane 0 channel 0\n"
        "step input[%d].part[0+(0+1*i)] -> output[%d].part[0+(0+1*i)], connection[0] repeat %d\n"
        "step connection[1] -> output[%d].part[0+(0+1*i)] repeat %d\n",
        self, messages, self, peer, peer, self, self, messages, peer, messages);
  };
  return rank(0) + rank(1);
}

TEST(Verify, CountsTheSlotsAScheduleNeeds) {
  for (int messages : {1, 2, 3, 8}) {
    Verdict verdict = test::verdictOf(burst(messages));
    EXPECT_TRUE(verdict.ok) << verdict.reason;
    EXPECT_EQ(verdict.minSlots, messages);
    EXPECT_EQ(verdict.moves, 4 * messages);
  }
  EXPECT_THAT(test::judge(burst(9)), HasSubstr("deadlock with 1 tile(s) and 8 slot(s)"));
  for (int n : {1, 2, 3, 4, 17}) {
    Verdict ring =
        verify(buildAll(*findAlgorithm(Collective::allReduce, "ring"), {Collective::allReduce, n, 0}, 1), true);
    EXPECT_EQ(ring.minSlots, n == 1 ? 1 : 2) << n;
  }
}

TEST(Verify, FindsMessagesThatAreNotWhatIsExpected) {
  const std::string send = "lane 0 channel 0\nstep input[0].part[0] -> connection[0]\n" + test::kCopy;
  EXPECT_EQ(
      test::judge(test::two(
          "Broadcast", 2,
          test::kSend + "lane 0 channel 0\nstep input[0].part[0+(0+1*i)] -> connection[0], "
                        "output[0].part[0+(0+1*i)] repeat 2\n",
          test::kReceive + "lane 0 channel 0\nstep connection[0] -> output[0].part[1+(0-1*i)] repeat 2\n")),
      "rank 1 lane 0 step 0 repeat 0 tile 0: expects block 0 part 1+1 tile 0 but the message is block 0 part "
      "0+1 "
      "tile 0");
  // The receiver takes one of two: it would find the other one in the next tile.
  EXPECT_EQ(test::judge(test::broadcast("lane 0 channel 0\nstep input[0].part[0] -> connection[0] repeat 2\n" +
                                        test::kCopy)),
            "connection 0->1 channel 0 tag 0: 1 message(s) are never received");
  EXPECT_THAT(test::judge(test::broadcast(send, "lane 0 channel 0\n" + test::kKeep + test::kKeep)),
              HasSubstr("deadlock"));
}

// --------------------------------------------------------------------------------------------------- data

TEST(Verify, FindsWhatIsMissingOrNotYetThere) {
  EXPECT_EQ(test::judge(test::broadcast("lane 0 channel 0\nstep input[0].part[0] -> connection[0]\n")),
            "rank 0 ends with nothing in output block 0 part 0 tile 0, not what the collective asks for");
  EXPECT_EQ(test::judge(test::broadcast("lane 0 channel 0\nstep input[0].part[0] -> connection[0]\n"), true),
            "ok");
  EXPECT_EQ(
      test::judge(test::broadcast("lane 0 channel 0\nstep output[0].part[0] -> connection[0]\n" + test::kCopy)),
      "rank 0 lane 0 step 0 repeat 0 tile 0: reads memory that nothing was put into");
  // The second of two parts.
  EXPECT_EQ(
      test::judge(test::alone("lane 0 channel 0\nstep input[0].part[0] pre -> output[0].part[0] post\n", 2)),
      "rank 0 ends with nothing in output block 0 part 1 tile 0, not what the collective asks for");
}

/// Rank 1 sends its contribution to rank 0, which does `last` with it and sends the output back.
std::string reduceTwo(const std::string& last,
                      const std::string& send = "step input[0].part[0] pre -> connection[0]\n") {
  return test::two("AllReduce", 1,
                   "connection 0 receive from 1 channel 0 tag 0\nconnection 1 send to 1 channel 0 tag 0\n"
                   "lane 0 channel 0\n" +
                       last + "step output[0].part[0] -> connection[1]\n",
                   "connection 0 send to 0 channel 0 tag 0\nconnection 1 receive from 0 channel 0 tag 0\n"
                   "lane 0 channel 0\n" +
                       send + "step connection[1] -> output[0].part[0]\n");
}

TEST(Verify, FindsContributionsThatAreTwiceOrNotThereOrNotScaled) {
  EXPECT_EQ(test::judge(reduceTwo("step connection[0], input[0].part[0] pre -> output[0].part[0] post\n")),
            "ok");
  EXPECT_EQ(test::judge(reduceTwo("step connection[0], input[0].part[0] pre -> output[0].part[0]\n"
                                  "step output[0].part[0], input[0].part[0] pre -> output[0].part[0] post\n")),
            "rank 0 lane 0 step 1 repeat 0 tile 0: adds one contribution twice");
  EXPECT_EQ(test::judge(reduceTwo("step input[0].part[0] pre -> output[0].part[0] post\nstep connection[0], "
                                  "input[0].part[0] pre -> nothing\n")),
            "rank 0 lane 0 step 0 repeat 0 tile 0: finishes an incomplete sum");
  EXPECT_EQ(test::judge(reduceTwo("step connection[0], input[0].part[0] -> output[0].part[0] post\n")),
            "rank 0 lane 0 step 0 repeat 0 tile 0: combines values that are not scaled contributions");
  EXPECT_EQ(test::judge(reduceTwo("step connection[0], input[0].part[0] pre -> output[0].part[0] post\n",
                                  "step input[0].part[0] -> connection[0]\n")),
            "rank 0 lane 0 step 0 repeat 0 tile 0: combines values that are not scaled contributions");
  EXPECT_EQ(
      test::judge(reduceTwo("step connection[0], input[0].part[0] pre -> output[0].part[0]\n")),
      "rank 0 ends with an unfinished reduction in output block 0 part 0 tile 0, not what the collective asks "
      "for");
  EXPECT_EQ(test::judge(reduceTwo("step connection[0], input[0].part[0] pre -> output[0].part[0] post\n"
                                  "step output[0].part[0] -> output[0].part[0] post\n")),
            "rank 0 lane 0 step 1 repeat 0 tile 0: finishes a value that is not a sum of scaled contributions");
}

TEST(Verify, InPlaceTheInputIsGoneOnceTheOutputIsWritten) {
  const std::string text = test::alone(
      "lane 0 channel 0\nstep input[0].part[0] pre -> output[0].part[0]\n"
      "step input[0].part[0] pre -> output[0].part[0] post\n");
  EXPECT_EQ(test::judge(text), "ok");
  EXPECT_EQ(
      test::judge(text, true),
      "rank 0 lane 0 step 1 repeat 0 tile 0: reads input that an output in the same place has overwritten");
}

// -------------------------------------------------------------------------------------------------- order

TEST(Verify, FindsRacesBetweenLanes) {
  auto lanes = [](const std::string& second) {
    return test::judge(
        test::alone("lane 0 channel 0\nstep input[0].part[0] pre -> output[0].part[0]\n"
                    "lane 1 channel 0\nstep output[0].part[0] -> output[0].part[0] post" +
                    second + "\n"));
  };
  EXPECT_EQ(lanes(" wait lane 0 step 0"), "ok");
  EXPECT_EQ(lanes(""),
            "rank 0 lane 1 step 0 repeat 0 tile 0: reads block 0 part 0 while rank 0 lane 0 step 0 repeat 0 "
            "tile 0 may "
            "be writing it");
  EXPECT_THAT(lanes(" wait lane 0 step 0 previous-tile"), HasSubstr("may be writing it"));
  // Two write the same.
  EXPECT_THAT(
      test::judge(test::alone("lane 0 channel 0\nstep input[0].part[0] pre -> output[0].part[0] post\n"
                              "lane 1 channel 0\nstep input[0].part[0] pre -> output[0].part[0] post\n")),
      HasSubstr("writes block 0 part 0 while"));
  // Waits count through a third lane.
  EXPECT_EQ(test::judge(test::alone(
                "lane 0 channel 0\nstep input[0].part[0] pre -> output[0].part[0]\n"
                "lane 1 channel 0\nstep input[0].part[0] -> nothing wait lane 0 step 0\n"
                "lane 2 channel 0\nstep output[0].part[0] -> output[0].part[0] post wait lane 1 step 0\n")),
            "ok");
}

TEST(Verify, FindsRacesBetweenTilesInScratch) {
  // The first lane fills scratch with the next tile as soon as it likes, unless it waits.
  auto pipeline = [](const std::string& filling) {
    return test::judge(test::alone(
        "lane 0 channel 0\nstep input[0].part[0] pre -> scratch[0].part[0]" + filling +
            "\nlane 1 channel 0\nstep scratch[0].part[0] -> output[0].part[0] post wait lane 0 step 0\n",
        1, test::kScratch));
  };
  EXPECT_EQ(pipeline(" wait lane 1 step 0 previous-tile"), "ok");
  EXPECT_EQ(pipeline(""),
            "rank 0 lane 1 step 0 repeat 0 tile 0: reads block 0 part 0 while rank 0 lane 0 step 0 repeat 0 "
            "tile 1 may "
            "be writing it");
  // In the output every tile has its own place.
  EXPECT_EQ(test::judge(test::alone(
                "lane 0 channel 0\nstep input[0].part[0] pre -> output[0].part[0]\n"
                "lane 1 channel 0\nstep output[0].part[0] -> output[0].part[0] post wait lane 0 step 0\n")),
            "ok");
}

TEST(Verify, MessagesAboutOtherPartsOrderNothing) {
  // Rank 1 is given part 0 twice, by two lanes. That the second comes later it knows from rank 0, which waits
  // for a message in between: about part 0, or about part 1, which may be empty and is then not sent.
  auto schedule = [](int token) {
    return test::judge(
        test::two("Broadcast", 2,
                  format("connection 0 send to 1 channel 0 tag 0\nconnection 1 receive from 1 channel 0 tag 0\n"
                         "connection 2 send to 1 channel 0 tag 1\n"
                         "lane 0 channel 0\n"
                         "step input[0].part[0+(0+1*i)] -> output[0].part[0+(0+1*i)], connection[0] repeat 2\n"
                         "step connection[1] -> output[0].part[%d]\n"
                         "step input[0].part[0] -> connection[2]\n",
                         token),
                  format("connection 0 receive from 0 channel 0 tag 0\nconnection 1 send to 0 channel 0 tag 0\n"
                         "connection 2 receive from 0 channel 0 tag 1\n"
                         "lane 0 channel 0\n"
                         "step connection[0] -> output[0].part[0+(0+1*i)] repeat 2\n"
                         "step output[0].part[%d] -> connection[1]\n"
                         "lane 1 channel 0\nstep connection[2] -> output[0].part[0]\n",
                         token)));
  };
  EXPECT_EQ(schedule(0), "ok");
  EXPECT_EQ(schedule(1),
            "rank 1 lane 1 step 0 repeat 0 tile 0: writes block 0 part 0 while rank 1 lane 0 step 0 repeat 0 "
            "tile 0 may "
            "be using it");
}

TEST(Verify, FindsClaimsOfStableMemoryThatAreWrong) {
  // Each rank sends its contribution and puts the sum over it, with or without hearing of the other's receipt.
  auto exchange = [](const std::string& stable, bool inPlace) {
    auto rank = [&](int peer) {
      return format(
          "connection 0 send to %d channel 0 tag 0\nconnection 1 receive from %d channel 0 tag 0\n"
          "lane 0 channel 0\nstep input[0].part[0] pre%s -> connection[0]\n"
          "step connection[1], input[0].part[0] pre -> output[0].part[0] post\n",
          peer, peer, stable.c_str());
    };
    return test::verdictOf(test::two("AllReduce", 1, rank(1), rank(0)), inPlace);
  };
  EXPECT_TRUE(exchange("", true).ok);
  EXPECT_TRUE(exchange(" stable", false).ok);
  EXPECT_EQ(exchange(" stable", true).reason,
            "rank 0 step 0 claims its source stable, but that may be written before the receiver has read it");
  EXPECT_EQ(exchange("", false).stable, (std::vector<std::pair<int, int>>{{0, 0}, {1, 0}}));
  EXPECT_TRUE(exchange("", true).stable.empty());
  // A step that sends and overwrites what it sends.
  EXPECT_THAT(test::judge(reduceTwo("step connection[0], input[0].part[0] pre -> output[0].part[0] post\n",
                                    "step input[0].part[0] pre stable -> connection[0], output[0].part[0]\n"),
                          true),
              HasSubstr("rank 1 step 0 claims its source stable"));
  // In scratch it is the next tile that overwrites.
  const std::string lend = test::two("Broadcast", 1,
                                     test::kScratch + test::kSend +
                                         "lane 0 channel 0\nstep input[0].part[0] -> scratch[0].part[0], "
                                         "output[0].part[0]\nstep scratch[0].part[0] stable -> connection[0]\n",
                                     test::kReceive + "lane 0 channel 0\n" + test::kKeep);
  EXPECT_THAT(test::judge(lend), HasSubstr("rank 0 step 1 claims its source stable"));
}

TEST(Verify, SaysWhichMemoryTheSenderMayWrite) {
  auto ring = [](int n, bool inPlace) {
    return verify(buildAll(*findAlgorithm(Collective::allReduce, "ring"), {Collective::allReduce, n, 0}, 1),
                  inPlace);
  };
  // The copies of the second half: steps 3 and 4, whose destinations in memory are operands 10 and 13.
  std::vector<std::pair<int, int>> all;
  for (int rank = 0; rank < 4; ++rank) all.insert(all.end(), {{rank, 10}, {rank, 13}});
  EXPECT_EQ(ring(4, false).posted, all);
  EXPECT_EQ(ring(4, true).posted, all);
  // Of two, one reads a reference to the place that it writes in the same move, which is fine.
  EXPECT_EQ(ring(2, false).posted.size(), 2u);
  EXPECT_EQ(ring(2, true).posted.size(), 2u);
}

TEST(Verify, FindsClaimsOfPostedMemoryThatAreWrong) {
  // Rank 1 reads its output, or reuses its scratch, while the next message for it may be on its way.
  auto broadcast = [](const std::string& receiving) {
    return test::judge(
        test::two("Broadcast", 1,
                  test::kSend + "lane 0 channel 0\nstep input[0].part[0] -> output[0].part[0], connection[0]\n",
                  test::kReceive + receiving));
  };
  EXPECT_EQ(broadcast("lane 0 channel 0\nstep connection[0] -> output[0].part[0] posted\n"), "ok");
  EXPECT_THAT(broadcast(test::kScratch + "lane 0 channel 0\nstep connection[0] -> scratch[0].part[0] posted\n"
                                         "step scratch[0].part[0] -> output[0].part[0]\n"),
              HasSubstr("rank 1 step 0 claims its destination posted, but that may be in use"));
  EXPECT_THAT(broadcast(test::kScratch + "lane 0 channel 0\nstep connection[0] -> scratch[0].part[0]\n"
                                         "step scratch[0].part[0] -> output[0].part[0] posted\n"),
              HasSubstr("posted belongs to the first destination of a step that copies a message"));
}

// ------------------------------------------------------------------------------------------------ streams

TEST(Verify, KeepsStreamsApart) {
  auto broadcastBy = [](const std::string& call, const std::string& relay, const std::string& line) {
    auto head = [&](int rank) {
      return format("program %s rank %d of 3 root 0 parts 1 channels 1 streams\n", call.c_str(), rank);
    };
    return test::judge(head(0) +
                       "input blocks 1 first 0 stride 1\noutput blocks 1 first 0 stride 1\n"
                       "connection 0 send to 1 channel 0 tag 0\nlane 0 channel 0\n"
                       "step input[0].part[0] -> output[0].part[0], connection[0]\n" +
                       head(1) +
                       "output blocks 1 first 0 stride 1\n"
                       "connection 0 receive from 0 channel 0 tag 0\nconnection 1 send to 2 channel 0 tag 0\n"
                       "lane 0 channel 0\n" +
                       relay + head(2) +
                       "output blocks 1 first 0 stride 1\n"
                       "connection 0 receive from 1 channel 0 tag 0\nlane 0 channel 0\n" +
                       line);
  };
  const std::string keep = "step connection[0] -> output[0].part[0]\n";
  EXPECT_EQ(broadcastBy("Broadcast", "step connection[0] -> connection[1], output[0].part[0]\n", keep), "ok");
  // It passes on and keeps nothing.
  EXPECT_EQ(broadcastBy("Broadcast", "step connection[0] -> connection[1]\n", keep),
            "rank 1 ends with nothing in output block 0 part 0 tile 0, not what the collective asks for");
  EXPECT_EQ(broadcastBy("Broadcast", "step connection[0] -> connection[1], output[0].part[0]\n",
                        "step connection[0] -> output[0].part[0] wait lane 0 step 0\n"),
            "rank 2: lane 0 step 0: streams run different numbers of tiles: a step cannot wait");
  EXPECT_EQ(test::judge("program AllReduce rank 0 of 1 root 0 parts 1 channels 1 streams\n"),
            "streams cannot reduce");
}

TEST(Verify, RelaysTakeEveryMessageOfATile) {
  // Rank 0 sends two blocks in turn over one connection; the relay takes one message per tile, and would find
  // the other block's in the next.
  EXPECT_THAT(test::judge("program AlltoAllv rank 0 of 2 root 0 parts 1 channels 1 streams\n"
                          "input blocks 2 first 0 stride 1\noutput blocks 2 first 0 stride 2\n"
                          "connection 0 send to 1 channel 0 tag 0\nlane 0 channel 0\n"
                          "step input[0+(0+1*i)].part[0] -> connection[0] repeat 2\n"
                          "program AlltoAllv rank 1 of 2 root 0 parts 1 channels 1 streams\n"
                          "input blocks 2 first 2 stride 1\noutput blocks 2 first 1 stride 2\n"
                          "connection 0 receive from 0 channel 0 tag 0\nlane 0 channel 0\n"
                          "step connection[0] -> nothing\n"),
              HasSubstr("message(s) are never received"));
}

// ------------------------------------------------------------------------------------------------- limits

TEST(Verify, SaysWhenItGivesUp) {
  auto programs = buildAll(*findAlgorithm(Collective::allReduce, "ring"), {Collective::allReduce, 16, 0}, 1);
  auto limited = [&](VerifyLimits limits) {
    Verdict verdict = verify(programs, true, limits);
    EXPECT_FALSE(verdict.ok);
    EXPECT_TRUE(verdict.gaveUp) << verdict.reason;
    return verdict.reason;
  };
  EXPECT_EQ(limited({.moves = 400}), "496 moves are more than the 400 that would be verified");
  EXPECT_EQ(limited({.pieces = 100}), "272 pieces of data are more than the 100 that would be verified");
  EXPECT_EQ(limited({.work = 500}), "too many steps wait for each other to verify");
  EXPECT_FALSE(verify(programs, true, {.moves = 496, .pieces = 272}).gaveUp);
}

// The aim of perf/micro/verify_bench.cc, in time of the processor: the machine may be busy.
TEST(VerifyTiming, ARingOver512RanksTakesLessThanASecond) {
#ifdef __OPTIMIZE__
  constexpr bool kOptimised = true;
#else
  constexpr bool kOptimised = false;
#endif
  if (kSanitized || !kOptimised) GTEST_SKIP() << "measures optimised code without sanitizers only";
  const auto programs =
      buildAll(*findAlgorithm(Collective::allReduce, "ring"), {Collective::allReduce, 512, 0}, 1);
  const std::clock_t begin = std::clock();
  const Verdict verdict = verify(programs, true);
  const double seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  EXPECT_TRUE(verdict.ok) << verdict.reason;
  EXPECT_EQ(verdict.moves, 512 * (2 * 512 - 1));
  EXPECT_LT(seconds, 1.0);
}

}  // namespace
}  // namespace eccl::algorithms
