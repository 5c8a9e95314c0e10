// Every registered algorithm: proved for many sizes, all claims of stable memory complete, programs short.
#include "algorithms/library/algorithm.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <ostream>
#include <set>

#include "algorithms/verify/verify.h"
#include "base/status.h"
#include "support/placements.h"

namespace eccl::algorithms {
namespace {

using Operands = std::set<std::pair<int, int>>;  // rank, index

std::vector<int> rootsToTry(Collective collective, int ranks) {
  std::set<int> roots = {0};
  if (hasRoot(collective) && ranks <= 8) {
    for (int root = 0; root < ranks; ++root) roots.insert(root);
  } else if (hasRoot(collective)) {
    roots.insert({ranks / 2, ranks - 1});
  }
  return {roots.begin(), roots.end()};
}

Operands claimed(const std::vector<Program>& programs, bool Operand::*claim) {
  Operands found;
  for (const Program& program : programs) {
    for (size_t i = 0; i < program.operands.size(); ++i) {
      if (program.operands[i].*claim) found.insert({program.rank, static_cast<int>(i)});
    }
  }
  return found;
}

Operands inBoth(const std::vector<std::pair<int, int>>& some, const std::vector<std::pair<int, int>>& others) {
  Operands found(some.begin(), some.end()), second(others.begin(), others.end());
  std::erase_if(found, [&](const auto& operand) { return second.count(operand) == 0; });
  return found;
}

/// Proves the programs of all ranks in and out of place; then what is claimed stable or posted must be all that
/// is so in both: a claim that is forgotten costs a copy for nothing.
void prove(const Algorithm& algorithm, const CollectiveShape& shape, int channels,
           const std::vector<Program>& programs) {
  SCOPED_TRACE(format("%s %s ranks %d root %d channels %d", nameOf(shape.collective), algorithm.name,
                      shape.ranks, shape.root, channels));
  Verdict apart = verify(programs, false), inPlace = verify(programs, true);
  ASSERT_TRUE(apart.ok) << "out of place: " << apart.reason;
  ASSERT_TRUE(inPlace.ok) << "in place: " << inPlace.reason;
  EXPECT_LE(std::max(apart.minSlots, inPlace.minSlots), 2);
  EXPECT_EQ(claimed(programs, &Operand::stable), inBoth(apart.stable, inPlace.stable));
  EXPECT_EQ(claimed(programs, &Operand::posted), inBoth(apart.posted, inPlace.posted));
}

void prove(const Algorithm& algorithm, const CollectiveShape& shape, int channels) {
  prove(algorithm, shape, channels, buildAll(algorithm, shape, channels));
}

/// Prints as "AllReduce_ring", in the names of the tests too.
struct Registered : Algorithm {
  friend void PrintTo(const Registered& algorithm, std::ostream* out) {
    *out << nameOf(algorithm.collective) << '_' << algorithm.name;
  }
};

std::vector<Registered> registered() {
  std::vector<Registered> all;
  for (const Algorithm& algorithm : algorithms()) all.push_back({algorithm});
  return all;
}

class EveryAlgorithm : public ::testing::TestWithParam<Registered> {};

INSTANTIATE_TEST_SUITE_P(Registered, EveryAlgorithm, ::testing::ValuesIn(registered()));

/// `every`: of more than 16 ranks one number in so many, and multiples of 8.
void proveFor1To64Ranks(const Algorithm& algorithm, int channels, int every = 1) {
  for (int n = 1; n <= 64 && !testing::Test::HasFatalFailure(); ++n) {
    if (n > 16 && n % every != 0 && n % 8 != 0) continue;
    for (int root : rootsToTry(algorithm.collective, n))
      prove(algorithm, {algorithm.collective, n, root}, channels);
  }
}

TEST_P(EveryAlgorithm, IsProvedFor1To64RanksWith1Channel) {
  proveFor1To64Ranks(GetParam(), 1);
}
/// Channels are alike: what differs with their number is how blocks are cut.
TEST_P(EveryAlgorithm, IsProvedForUpTo64RanksWith2Channels) {
  proveFor1To64Ranks(GetParam(), 2, 3);
}
TEST_P(EveryAlgorithm, IsProvedForUpTo64RanksWith4Channels) {
  proveFor1To64Ranks(GetParam(), 4, 5);
}

/// Beyond 128 ranks a node of the binomial tree has more children than one step has operands.
TEST_P(EveryAlgorithm, IsProvedForManyRanks) {
  bool rooted = hasRoot(GetParam().collective);
  bool quick = rooted || std::string_view(GetParam().name) == "tree";  // the others send n*n messages
  for (int n : quick ? std::vector{100, 129, 300} : std::vector{100}) {
    prove(GetParam(), {GetParam().collective, n, rooted ? n / 3 : 0}, 1);
    if (HasFatalFailure()) return;
  }
}

/// Where the ranks are makes no difference to most algorithms: what is the same is not proved again.
TEST_P(EveryAlgorithm, IsProvedWhereverItsRanksAre) {
  int proofs = 0;
  for (int n : {2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 16, 23, 32}) {
    for (int root : rootsToTry(GetParam().collective, n)) {
      const CollectiveShape shape{GetParam().collective, n, root};
      for (int channels : {1, 2}) {
        const std::vector<Program> onOneHost = buildAll(GetParam(), shape, channels);
        for (const Placement& placement : test::placementsOf(n)) {
          const std::vector<Program> programs = buildAll(GetParam(), shape, placement, channels);
          if (programs == onOneHost) continue;
          SCOPED_TRACE("hosts of ranks " + ::testing::PrintToString(placement.host));
          prove(GetParam(), shape, channels, programs);
          if (HasFatalFailure()) return;
          ++proofs;
        }
      }
    }
  }
  EXPECT_EQ(proofs > 0, GetParam().hierarchical());
}

TEST(Hierarchical, HundredsOfRanksWhoseHostsHaveManyAreProved) {
  // More local ranks than a step has operands, and more hosts than a node of the tree has children.
  for (const Algorithm& algorithm : algorithms()) {
    if (!algorithm.hierarchical()) continue;
    for (const auto& [ranks, hosts] : {std::pair(100, 4), std::pair(100, 33)}) {
      const CollectiveShape shape{algorithm.collective, ranks, hasRoot(algorithm.collective) ? 57 : 0};
      prove(algorithm, shape, 1, buildAll(algorithm, shape, Placement::blocks(ranks, hosts), 1));
    }
  }
}

int longestProgram(const Algorithm& algorithm, int ranks) {
  size_t steps = 0;
  for (const Program& program : buildAll(algorithm, {algorithm.collective, ranks, 0}, 1)) {
    steps = std::max(steps, program.steps.size());
  }
  return static_cast<int>(steps);
}

TEST_P(EveryAlgorithm, HasAShortProgram) {
  int log = 0;
  for (int n = 1; n <= 300; n = n < 70 ? n + 1 : n * 2) {
    while (1 << log < n) ++log;
    int most = 6;  // for any number of ranks
    if (std::string_view(GetParam().name) == "recursive") most = 4 * log + 3;
    if (std::string_view(GetParam().name) == "relay") most = 7 + 6 * static_cast<int>(std::sqrt(n));
    const bool deals =
        GetParam().collective == Collective::gather || GetParam().collective == Collective::scatter;
    if (deals && std::string_view(GetParam().name) == "tree") most = log + 1;  // one for each child
    EXPECT_LE(longestProgram(GetParam(), n), most) << n << " ranks";
  }
}

TEST_P(EveryAlgorithm, IsAPureFunction) {
  for (int rank : {0, 3, 6}) {
    CollectiveShape shape{GetParam().collective, 7, 0};
    const Placement placement = Placement::oneHost(7, 7);
    EXPECT_EQ(GetParam().build(shape, placement, rank, 2), GetParam().build(shape, placement, rank, 2));
  }
}

TEST_P(EveryAlgorithm, IsFoundByItsName) {
  const Algorithm* found = findAlgorithm(GetParam().collective, GetParam().name);
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->build, GetParam().build);
}

TEST(Algorithms, NamesAreUniqueWithinACollective) {
  std::set<std::pair<Collective, std::string>> names;
  for (const Algorithm& algorithm : algorithms()) {
    EXPECT_TRUE(names.emplace(algorithm.collective, algorithm.name).second)
        << nameOf(algorithm.collective) << " has " << algorithm.name << " twice";
  }
}

TEST(Algorithms, NamesAreLowerCaseWords) {
  for (const Algorithm& algorithm : algorithms()) {
    std::string_view name = algorithm.name;
    EXPECT_TRUE(!name.empty() && std::all_of(name.begin(), name.end(), [](char c) { return std::islower(c); }))
        << name;
  }
}

TEST(Algorithms, EveryCollectiveButSendAndReceiveHasOne) {
  for (int c = 0; c < kCollectives; ++c) {
    auto collective = static_cast<Collective>(c);
    bool pointToPoint = collective == Collective::send || collective == Collective::receive;
    bool has = std::any_of(algorithms().begin(), algorithms().end(),
                           [&](const Algorithm& a) { return a.collective == collective; });
    EXPECT_EQ(has, !pointToPoint) << nameOf(collective);
  }
}

TEST(Algorithms, UnknownNamesAreNotFound) {
  EXPECT_EQ(findAlgorithm(Collective::allReduce, "chain"), nullptr);
  EXPECT_EQ(findAlgorithm(Collective::broadcast, "ring"), nullptr);
  EXPECT_EQ(findAlgorithm(Collective::send, "direct"), nullptr);
  EXPECT_EQ(findAlgorithm(Collective::allReduce, ""), nullptr);
  EXPECT_EQ(findAlgorithm("AllReduce", "ring"), findAlgorithm(Collective::allReduce, "ring"));
  EXPECT_EQ(findAlgorithm("allreduce", "ring"), nullptr);
  EXPECT_EQ(findAlgorithm("Broadcast", "ring"), nullptr);
}

}  // namespace
}  // namespace eccl::algorithms
