// The verifier tested by mistakes: what it accepts must work, in any order, for any lengths. What it refutes is
// counted; that it refutes enough, and for the right reasons, is verify_test.cc's business too.
#include <gtest/gtest.h>

#include <iostream>
#include <random>

#include "algorithms/builder/builder.h"
#include "algorithms/library/algorithm.h"
#include "algorithms/verify/verify.h"
#include "program/text.h"
#include "support/mutate.h"
#include "support/placements.h"
#include "support/replay_values.h"
#include "support/sanitizers.h"

namespace eccl::algorithms {
namespace {

constexpr int kMutants = kSanitized ? 120 : 240, kInterleavings = kSanitized ? 50 : 100;

/// Lengths in tiles, 0 to `tiles`, different for each piece; about a fifth are empty.
std::function<bool(int, int, int)> someEmpty(uint64_t seed, int tiles) {
  return [seed, tiles](int block, int part, int tile) {
    const uint64_t x =
        test::mixed(seed * 1'000'003 + static_cast<uint64_t>(block) * 4096 + static_cast<uint64_t>(part));
    return x % 5 == 0 || tile >= static_cast<int>(x / 5 % static_cast<uint64_t>(tiles + 1));
  };
}

constexpr uint64_t kAllRanks = ~uint64_t{0};

/// One random interleaving. "" or what went wrong. `inPlace`: a bit per rank.
std::string replay(const std::vector<Program>& programs, uint64_t inPlace, int slots, uint64_t seed) {
  std::mt19937_64 random(seed);
  test::ValuesOptions options{inPlace, seed % 2 == 1, seed, {}};
  const int tiles = 1 + static_cast<int>(seed / 2 % 4);
  options.size = {tiles, slots};
  if (programs[0].streams) {
    options.size.streamTiles = [=](int block) {
      return static_cast<int>(test::mixed(seed + static_cast<uint64_t>(block) * 77) %
                              static_cast<uint64_t>(tiles + 1));
    };
  } else if (seed / 8 % 2 == 1) {
    options.size.empty = someEmpty(seed, tiles);
  }
  test::ReplayValues values(programs, options);
  AbstractExecutor<test::ReplayValues> executor(programs, values, options.size);
  std::string wrong = executor.runRandom(random);
  return wrong.empty() ? values.check() : wrong;
}

std::string nameOf(const Algorithm& algorithm) {
  return std::string(nameOf(algorithm.collective)) + "_" + algorithm.name;
}

CollectiveShape shapeOf(const Algorithm& algorithm, int ranks, uint64_t seed) {
  return {algorithm.collective, ranks,
          hasRoot(algorithm.collective) ? static_cast<int>(seed % static_cast<uint64_t>(ranks)) : 0};
}

/// AllReduce up and down a chain, in which one lane receives into scratch and another takes it from there: what
/// no algorithm of the library does so far, and where tiles can meet.
Program throughScratch(const CollectiveShape& shape, const Placement&, int rank, int channels) {
  const int n = shape.ranks;
  Builder b(shape, rank, channels, channels);
  if (rank > 0) b.scratch({0, 1, 1});
  for (int channel = 0; channel < channels; ++channel) {
    std::vector<Operand> sources = {input().part(channel).pre()}, destinations = {output().part(channel)};
    if (rank + 1 < n) destinations = {connection(b.sendTo(rank + 1, channel))};
    const int summing = b.lane(channel);
    if (rank > 0) sources.push_back(scratch().part(channel));
    auto sum = b.step(sources, destinations);
    if (rank > 0) sum.after(summing + 1, 0);
    if (rank + 1 == n) {
      sum.post();
      if (n > 1) b.step({output().part(channel).stable()}, {connection(b.sendTo(rank - 1, channel))});
    }
    if (rank > 0) {
      b.lane(channel);
      b.step({connection(b.receiveFrom(rank - 1, channel))}, {scratch().part(channel)})
          .afterPreviousTile(summing, 0);
    }
    if (rank + 1 < n) {
      b.lane(channel);
      destinations = {output().part(channel)};
      if (rank > 0) destinations.push_back(connection(b.sendTo(rank - 1, channel)));
      const Operand result = connection(b.receiveFrom(rank + 1, channel));
      b.step(std::span(&result, 1), destinations);
    }
  }
  return b.take();
}

/// Where the ranks of an algorithm are that cares.
std::vector<Placement> placementsFor(const Algorithm& algorithm, int ranks) {
  if (algorithm.hierarchical()) return test::placementsOf(ranks);
  return {Placement::oneHost(ranks, ranks)};
}

std::vector<Algorithm> candidates() {
  std::vector<Algorithm> all(algorithms().begin(), algorithms().end());
  all.push_back({"through_scratch", Collective::allReduce, throughScratch});
  return all;
}

class Mutation : public testing::TestWithParam<Algorithm> {};

TEST_P(Mutation, WhatIsAcceptedWorks) {
  test::Mutator mutator(2026);
  std::mt19937_64 random(11);
  int accepted = 0, acceptedInOnePlace = 0, interleavings = 0;
  for (int i = 0; i < kMutants; ++i) {
    const int ranks = 2 + static_cast<int>(random() % 5), channels = 1 + static_cast<int>(random() % 2);
    const std::vector<Placement> placements = placementsFor(GetParam(), ranks);
    std::vector<Program> programs = buildAll(GetParam(), shapeOf(GetParam(), ranks, random()),
                                             placements[static_cast<size_t>(i) % placements.size()], channels);
    const std::string done = mutator.mutate(programs);
    int places = 0, slots = 0;
    auto play = [&](uint64_t inPlace, uint64_t seed) {
      ASSERT_EQ(replay(programs, inPlace, slots, seed), "")
          << done << "in place " << inPlace << ", seed " << seed << "\n"
          << dumpSchedule(programs);
      ++interleavings;
    };
    for (bool inPlace : {false, true}) {
      const Verdict verdict = verify(programs, inPlace);
      ASSERT_FALSE(verdict.gaveUp) << done << verdict.reason;
      if (!verdict.ok) continue;
      ++places;
      slots = verdict.minSlots;
      for (uint64_t seed = 0; seed < kInterleavings && !HasFatalFailure(); ++seed)
        play(inPlace ? kAllRanks : 0, seed);
    }
    // What is accepted both ways may be mixed.
    for (uint64_t seed = 0; places == 2 && seed < kInterleavings / 4 && !HasFatalFailure(); ++seed) {
      play(random(), seed);
    }
    if (HasFatalFailure()) return;
    accepted += places > 0;
    acceptedInOnePlace += places == 1;
  }
  std::cout << nameOf(GetParam()) << ": " << kMutants << " mutants, " << kMutants - accepted << " rejected, "
            << accepted << " accepted (" << acceptedInOnePlace
            << " of them only in place or only out of place), " << interleavings << " interleavings\n";
  EXPECT_GE(kMutants - accepted, kMutants / 2);
}

INSTANTIATE_TEST_SUITE_P(Algorithms, Mutation, testing::ValuesIn(candidates()),
                         [](const auto& info) { return nameOf(info.param); });

TEST(ReplayValues, EveryAlgorithmComputesWhatItsCollectiveDefines) {
  for (const Algorithm& algorithm : candidates()) {
    for (int ranks : {1, 2, 3, 4, 5, 8, 9}) {
      std::vector<Placement> placements = placementsFor(algorithm, ranks);
      placements.push_back(Placement::oneHost(ranks, ranks));
      if (!algorithm.hierarchical()) placements.resize(1);
      for (const Placement& placement : placements) {
        std::vector<Program> programs = buildAll(algorithm, shapeOf(algorithm, ranks, 1), placement, 2);
        for (uint64_t seed = 0; seed < 32; ++seed) {
          ASSERT_EQ(replay(programs, test::mixed(seed), 2, seed), "")
              << nameOf(algorithm) << " ranks " << ranks << " on hosts "
              << ::testing::PrintToString(placement.host);
        }
      }
    }
  }
}

/// The oracle can fail: each of these is executed to its end and gives something else.
TEST(ReplayValues, FindsWhatIsWrong) {
  auto ring = [] {
    return buildAll(*findAlgorithm(Collective::allReduce, "ring"), {Collective::allReduce, 4, 0}, 1);
  };
  auto found = [](const std::vector<Program>& programs, bool inPlace) {
    int wrong = 0;
    for (uint64_t seed = 0; seed < 32; ++seed) {
      wrong += !replay(programs, inPlace ? kAllRanks : 0, 2, seed).empty();
    }
    return wrong;
  };
  EXPECT_EQ(found(ring(), false), 0);
  auto programs = ring();
  programs[2].steps[2].post = false;
  EXPECT_GT(found(programs, false), 16);  // in the others that piece is empty
  programs = ring();
  programs[1].operands[0].pre = false;
  EXPECT_GT(found(programs, false), 16);
  programs = ring();
  programs[1].operands[0].space = Space::output;  // not written yet
  EXPECT_GT(found(programs, false), 16);
  EXPECT_EQ(found(programs, true), 0);

  // Recursive doubling may not lend what it sends: the next round overwrites it.
  programs = buildAll(*findAlgorithm(Collective::allReduce, "oneshot"), {Collective::allReduce, 3, 0}, 1);
  EXPECT_EQ(found(programs, true), 0);
  for (Program& program : programs) {
    for (const Step& step : program.steps) {
      Operand& source = program.operands[step.firstOperand];
      source.stable = step.sources == 1 && source.space != Space::connection && !step.post;
    }
  }
  const int lent = found(programs, true);
  EXPECT_GT(lent, 0);
  EXPECT_LT(lent, 17) << "only runs by reference can go wrong";
}

}  // namespace
}  // namespace eccl::algorithms
