// The AbstractExecutor: what docs/schedule.md argues about tiles, slots and empty pieces, tried out.
#include "algorithms/verify/abstract_executor.h"

#include <gtest/gtest.h>

#include <random>

#include "algorithms/library/algorithm.h"
#include "algorithms/verify/verify.h"
#include "support/replay_values.h"
#include "support/schedules.h"

namespace eccl::algorithms {
namespace {

struct Counted {
  struct Payload {};
  int moves = 0;
  std::vector<int> laneOfMove = {};
  const char* execute(const Move<Payload>& move) {
    laneOfMove.push_back(move.lane);
    return ++moves, nullptr;
  }
  void waited(const LaneWait&) {}
};

std::vector<Program> ring(int n) {
  return buildAll(*findAlgorithm(Collective::allReduce, "ring"), {Collective::allReduce, n, 0}, 1);
}

TEST(AbstractExecutor, MakesEveryMoveOnceInAnyOrder) {
  const auto programs = ring(5);
  Counted fair;
  AbstractExecutor<Counted> executor(programs, fair, {.tiles = 3, .slots = 2});
  EXPECT_EQ(executor.runFair(), "");
  EXPECT_TRUE(executor.finished());
  EXPECT_EQ(fair.moves, 3 * 5 * (2 * 5 - 1));
  std::mt19937_64 random(1);
  std::vector<int> before;
  for (int i = 0; i < 20; ++i) {
    Counted counted;
    AbstractExecutor<Counted> again(programs, counted, {.tiles = 3, .slots = 2});
    EXPECT_EQ(again.runRandom(random), "");
    EXPECT_EQ(counted.moves, fair.moves);
    EXPECT_NE(counted.laneOfMove, before) << "the orders are not random";
    before = counted.laneOfMove;
  }
}

TEST(AbstractExecutor, WhetherItEndsDoesNotDependOnTheOrder) {
  const auto programs = ring(4);
  std::mt19937_64 random(1);
  for (int i = 0; i < 50; ++i) {
    Counted counted;
    AbstractExecutor<Counted> executor(programs, counted, {.tiles = 2, .slots = 1});
    EXPECT_NE(executor.runRandom(random).find("deadlock with 2 tile(s) and 1 slot(s)"), std::string::npos);
    EXPECT_TRUE(executor.deadlocked());
    EXPECT_EQ(counted.moves, 4) << "each rank has sent its first part and no more";
  }
}

/// Nothing deadlocks with minSlots, nor with more, for any number of tiles, and whatever is empty.
TEST(AbstractExecutor, MinSlotsSufficeForAnyTilesAndAnyEmptyPieces) {
  std::mt19937_64 random(3);
  for (const Algorithm& algorithm : algorithms()) {
    for (int n : {2, 3, 4, 6, 7}) {
      const auto programs = buildAll(algorithm, {algorithm.collective, n, 0}, 2);
      const int least = verify(programs, false).minSlots;
      for (int i = 0; i < 40; ++i) {
        ExecutionSize size = {1 + static_cast<int>(random() % 7), least + static_cast<int>(random() % 3)};
        const uint64_t seed = random();
        if (i % 2 == 1) {
          size.empty = [seed](int block, int part, int tile) {
            return test::mixed(seed + static_cast<uint64_t>((block * 64 + part) * 8 + tile)) % 3 == 0;
          };
          size.streamTiles = [seed, tiles = size.tiles](int block) {
            return static_cast<int>(test::mixed(seed + static_cast<uint64_t>(block)) %
                                    static_cast<uint64_t>(tiles + 1));
          };
        }
        Counted counted;
        AbstractExecutor<Counted> executor(programs, counted, size);
        ASSERT_EQ(executor.runRandom(random), "")
            << nameOf(algorithm.collective) << " " << algorithm.name << " n=" << n;
      }
    }
  }
}

TEST(AbstractExecutor, SkipsMovesOfNothingAtBothEnds) {
  const auto programs = ring(4);
  Counted counted;
  // Part 2 is empty: the moves of seven of each rank's parts are about the others.
  ExecutionSize size = {.tiles = 1, .slots = 2, .empty = [](int, int part, int) { return part == 2; }};
  AbstractExecutor<Counted> executor(programs, counted, size);
  EXPECT_EQ(executor.runFair(), "");
  EXPECT_EQ(counted.moves, 4 * 7 - 7);
  Counted none;
  size.empty = [](int, int, int) { return true; };
  AbstractExecutor<Counted> nothing(programs, none, size);
  EXPECT_EQ(nothing.runFair(), "");
  EXPECT_EQ(none.moves, 0);
}

TEST(AbstractExecutor, StreamsEndWhenTheirBlockDoes) {
  const auto programs =
      buildAll(*findAlgorithm(Collective::allToAllv, "direct"), {Collective::allToAllv, 2, 0}, 1);
  auto movesWith = [&](std::function<int(int)> tiles) {
    Counted counted;
    AbstractExecutor<Counted> executor(programs, counted,
                                       {.tiles = 9, .slots = 1, .streamTiles = std::move(tiles)});
    EXPECT_EQ(executor.runFair(), "");
    return counted.moves;
  };
  // Two local copies, and two messages that are a move at either end. An empty block has one, empty message.
  EXPECT_EQ(movesWith([](int) { return 1; }), 6);
  EXPECT_EQ(movesWith([](int) { return 0; }), 6);
  EXPECT_EQ(movesWith([](int) { return 5; }), 30);
  EXPECT_EQ(movesWith([](int block) { return block == 1 ? 5 : 0; }), 14)
      << "block 1 goes from rank 0 to rank 1";
}

TEST(AbstractExecutor, WaitsForStepsAndForTheTileBefore) {
  auto programs =
      parse(test::alone("lane 0 channel 0\n"
                        "step input[0].part[0] pre -> scratch[0].part[0] wait lane 1 step 0 previous-tile\n"
                        "lane 1 channel 0\n"
                        "step scratch[0].part[0] -> output[0].part[0] post wait lane 0 step 0\n",
                        1, test::kScratch));
  ASSERT_TRUE(programs.ok());
  std::mt19937_64 random(1);
  for (int i = 0; i < 20; ++i) {
    Counted counted;
    AbstractExecutor<Counted> executor(*programs, counted, {.tiles = 4, .slots = 1});
    EXPECT_EQ(executor.runRandom(random), "");
    EXPECT_EQ(counted.laneOfMove, (std::vector<int>{0, 1, 0, 1, 0, 1, 0, 1})) << "one order is allowed";
  }
}

TEST(AbstractExecutor, StopsAtWhatTheDomainFinds) {
  struct Refusing {
    struct Payload {};
    int left = 5;
    const char* execute(const Move<Payload>&) { return left-- > 0 ? nullptr : "this is refused"; }
    void waited(const LaneWait&) {}
  } refusing;
  const auto programs = ring(3);
  AbstractExecutor<Refusing> executor(programs, refusing, {.tiles = 1, .slots = 2});
  const std::string wrong = executor.runFair();
  EXPECT_NE(wrong.find(": this is refused"), std::string::npos) << wrong;
  EXPECT_EQ(wrong.substr(0, 5), "rank ");
  EXPECT_FALSE(executor.deadlocked());
}

}  // namespace
}  // namespace eccl::algorithms
