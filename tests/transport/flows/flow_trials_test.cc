#include "transport/flows/flow_trials.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <random>
#include <vector>

namespace eccl::transport {
namespace {

using namespace std::chrono_literals;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using Kind = FlowMessage::Kind;

FlowPace pace(uint64_t bytesPerSecond, bool lost = false, uint32_t megabits = 100) {
  return {bytesPerSecond, megabits, lost};
}

struct FlowTrialsTest : testing::Test {
  FlowTrials trials;
  TimePoint now = TimePoint(10s);
  /// Those that are to move within this time.
  std::vector<FlowTrials::Name> pass(Duration time) {
    std::vector<FlowTrials::Name> moved;
    const TimePoint end = now + time;
    while (trials.nextDeadline() <= end) {
      now = std::max(now, trials.nextDeadline());
      trials.progress(now, [&](const FlowTrials::Name& flow) { moved.push_back(flow); });
    }
    now = end;
    return moved;
  }
  void hear(int rank, const FlowPace& is, Kind kind = Kind::pace) {
    trials.hear({rank, 0}, {.kind = kind, .pace = is}, now);
  }
};

TEST_F(FlowTrialsTest, FlowsThatAreAlikeStay) {
  for (int rank = 0; rank < 8; ++rank) hear(rank, pace(100 + static_cast<uint64_t>(rank)));
  EXPECT_THAT(pass(1h), IsEmpty());
}

TEST_F(FlowTrialsTest, TheSlowestTriesFirst) {
  for (const auto& [rank, bytes] : {std::pair{0, 100}, {1, 70}, {2, 50}, {3, 100}, {4, 100}})
    hear(rank, pace(static_cast<uint64_t>(bytes)));
  EXPECT_THAT(pass(1s), testing::ElementsAre(FlowTrials::Name{2, 0}));
}

TEST_F(FlowTrialsTest, RailsOfOtherSpeedAreNoMeasure) {
  for (int rank = 0; rank < 8; ++rank) hear(rank, rank < 4 ? pace(100) : pace(200, false, 200));
  EXPECT_THAT(pass(1h), IsEmpty());
}

// It is seen soon, though all meet others and so none is slower than the rest.
TEST_F(FlowTrialsTest, OneThatLosesPacketsTriesIfItIsALittleSlower) {
  for (int rank = 0; rank < 8; ++rank) hear(rank, pace(100));
  hear(1, pace(88));
  EXPECT_THAT(pass(1min), IsEmpty());
  hear(1, pace(88, true));
  EXPECT_THAT(pass(1s), SizeIs(1));
}

TEST_F(FlowTrialsTest, OneThatFindsNothingTriesSixPortsThenRarely) {
  for (int rank = 1; rank < 4; ++rank) hear(rank, pace(100));
  hear(0, pace(50));
  for (int port = 0; port < 6; ++port) {
    EXPECT_THAT(pass(100ms), SizeIs(1)) << port;
    hear(0, pace(50));  // which is no answer
    EXPECT_THAT(pass(1s), IsEmpty());
    hear(0, pace(52), Kind::stayed);
  }
  EXPECT_THAT(pass(2s), IsEmpty());
  int moves = 0;
  for (int minute = 0; minute < 60; ++minute) {
    const size_t count = pass(1min).size();
    moves += static_cast<int>(count);
    if (count > 0) hear(0, pace(50), Kind::stayed);
  }
  EXPECT_GE(moves, 8);
  EXPECT_LE(moves, 15);
}

TEST_F(FlowTrialsTest, OneThatOthersComeInTheWayOfTriesAtOnceAgain) {
  for (int rank = 1; rank < 4; ++rank) hear(rank, pace(100));
  hear(0, pace(50));
  for (int port = 0; port < 6; ++port) {
    pass(100ms);
    hear(0, pace(50), Kind::stayed);
  }
  pass(2s);
  hear(0, pace(100));
  pass(1s);
  hear(0, pace(50));
  EXPECT_THAT(pass(200ms), SizeIs(1));
}

TEST_F(FlowTrialsTest, OneThatDoesNotAnswerDoesNotKeepTheOthersWaiting) {
  for (int rank = 2; rank < 8; ++rank) hear(rank, pace(100));
  hear(0, pace(40));
  hear(1, pace(50));
  EXPECT_THAT(pass(1s), testing::ElementsAre(FlowTrials::Name{0, 0}));
  EXPECT_THAT(pass(17s), testing::ElementsAre(FlowTrials::Name{1, 0}));
}

TEST_F(FlowTrialsTest, WithManyFlowsASixteenthMovesAtATime) {
  for (int rank = 0; rank < 64; ++rank) hear(rank, pace(rank < 32 ? 50 : 100));
  EXPECT_THAT(pass(1s), SizeIs(4));
}

TEST_F(FlowTrialsTest, AfterARoundAllAreMeasuredAnew) {
  for (int rank = 2; rank < 8; ++rank) hear(rank, pace(100));
  hear(0, pace(40));
  hear(1, pace(50));
  EXPECT_THAT(pass(200ms), SizeIs(1));
  hear(0, pace(100), Kind::moved);
  EXPECT_THAT(pass(1s), IsEmpty());
  hear(1, pace(100));  // it was the other that was in its way
  EXPECT_THAT(pass(1min), IsEmpty());
}

/// Flows from hosts of one leaf to those of another over spines as fast as a host: each flow has its share of
/// the slowest of its two links, and loses packets where there are others.
struct Fabric {
  int spines;
  std::vector<int> spineOf;
  double rate(size_t flow) const {
    return 12.5e6 / static_cast<double>(std::count(spineOf.begin(), spineOf.end(), spineOf[flow]));
  }
};

/// Seconds until flows are spread as well as can be seen; -1: that did not come.
double secondsUntilSpread(int flows, int spines, unsigned seed, int* moves) {
  std::mt19937 random(seed);
  const auto anySpine = [&] { return static_cast<int>(random() % static_cast<unsigned>(spines)); };
  Fabric fabric{spines, {}};
  for (int flow = 0; flow < flows; ++flow) fabric.spineOf.push_back(anySpine());
  FlowTrials trials;
  const TimePoint start = TimePoint(10s);
  struct Trial {
    size_t flow;
    int before;
    TimePoint until;
  };
  std::vector<Trial> under;
  // With four on each link a move from five to three gains a quarter: not worth it.
  const int even = (flows + spines - 1) / spines;
  const double fair = 12.5e6 / (even < 4 ? even : even + 1);
  for (TimePoint now = start; now < start + 5min; now += 100ms) {
    for (size_t i = 0; i < fabric.spineOf.size(); ++i) {
      const bool tries =
          std::any_of(under.begin(), under.end(), [&](const Trial& one) { return one.flow == i; });
      const double noise = 0.93 + 0.14 * static_cast<double>(random() % 1000) / 1000;
      const FlowPace is{static_cast<uint64_t>(fabric.rate(i) * noise), 100, fabric.rate(i) < 12e6};
      if (!tries && (now - start) % 300ms == Duration::zero())
        trials.hear({static_cast<int>(i), 0}, {.kind = Kind::pace, .pace = is}, now);
    }
    std::erase_if(under, [&](const Trial& one) {
      if (now < one.until) return false;
      const double here = fabric.rate(one.flow);
      const int there = std::exchange(fabric.spineOf[one.flow], one.before);
      const bool moves = here >= 1.3 * fabric.rate(one.flow);
      if (moves) fabric.spineOf[one.flow] = there;
      const double is = fabric.rate(one.flow);
      trials.hear(
          {static_cast<int>(one.flow), 0},
          {.kind = moves ? Kind::moved : Kind::stayed, .pace = {static_cast<uint64_t>(is), 100, is < 12e6}},
          now);
      return true;
    });
    bool spread = under.empty();
    for (size_t i = 0; i < fabric.spineOf.size(); ++i) spread = spread && fabric.rate(i) >= fair - 1;
    if (spread) return std::chrono::duration<double>(now - start).count();
    trials.progress(now, [&](const FlowTrials::Name& name) {
      const auto flow = static_cast<size_t>(name.first);
      under.push_back({flow, std::exchange(fabric.spineOf[flow], anySpine()), now + 500ms});
      ++*moves;
    });
  }
  return -1;
}

TEST(FlowTrials, SpreadFlowsOverSpinesWithoutSeeingThem) {
  for (const auto& [flows, spines, atMost] :
       {std::tuple{2, 2, 20.}, {4, 4, 60.}, {8, 4, 60.}, {64, 16, 240.}}) {
    std::vector<double> seconds;
    int moves = 0;
    for (unsigned seed = 0; seed < 50; ++seed) {
      seconds.push_back(secondsUntilSpread(flows, spines, seed, &moves));
      EXPECT_GE(seconds.back(), 0) << flows << " flows, " << spines << " spines, seed " << seed;
    }
    std::sort(seconds.begin(), seconds.end());
    EXPECT_LE(seconds[45], atMost) << flows << " flows, " << spines << " spines";
    printf("%d flows, %d spines: %.1f s (median), %.1f (9 of 10), %.1f at most, %.1f moves\n", flows, spines,
           seconds[25], seconds[45], seconds.back(), moves / 50.);
  }
}

}  // namespace
}  // namespace eccl::transport
