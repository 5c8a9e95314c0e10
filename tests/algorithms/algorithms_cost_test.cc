// What every algorithm costs: messages, volume and rounds, counted in an execution and compared with the
// textbook's figures (R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of collective communication
// operations in MPICH", IJHPCA 19(1), 2005, has them in one place; the tree's are Sanders' et al.).
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <tuple>

#include "algorithms/library/algorithm.h"
#include "algorithms/verify/abstract_executor.h"
#include "support/placements.h"

namespace eccl::algorithms {
namespace {

/// A Domain that counts. A message's round is one more than that of the last message its sender had to have.
class Counting {
 public:
  struct Payload {
    int round = 0;
  };

  explicit Counting(const std::vector<Program>& programs) : messages(programs.size()), parts(programs.size()) {
    size_t lanes = 0;
    for (const Program& program : programs) lanes += program.lanes.size();
    round_.resize(lanes);
  }

  const char* execute(const Move<Payload>& move) {
    int& round = round_[move.lane];
    for (const auto& source : move.sources()) {
      if (source.message != nullptr) round = std::max(round, source.message->payload.round);
    }
    for (const auto& destination : move.destinations()) {
      if (destination.message == nullptr) continue;
      destination.message->payload.round = round + 1;
      ++messages[move.rank];
      parts[move.rank] += move.count;
    }
    rounds = std::max(rounds, round);
    finished_[{move.lane, move.stepInLane}] = round;
    return nullptr;
  }
  void waited(const LaneWait& wait) {
    round_[wait.lane] = std::max(round_[wait.lane], finished_[{wait.onLane, wait.onStep}]);
  }

  std::vector<int> messages, parts;  // sent, by rank
  int rounds = 0;

 private:
  std::vector<int> round_;
  std::map<std::pair<int, int>, int> finished_;
};

struct Cost {
  int leastMessages, mostMessages, allMessages, rounds;  // per rank, per rank, together
  double mostVolume, allVolume;                          // in blocks
  int mostNeighbours;                                    // connection ends of a rank
};

Cost costOf(Collective collective, const char* name, int n, int root = 0) {
  const Algorithm* algorithm = findAlgorithm(collective, name);
  EXPECT_NE(algorithm, nullptr) << name;
  std::vector<Program> programs = buildAll(*algorithm, {collective, n, root}, 1);
  Counting counting(programs);
  AbstractExecutor<Counting> executor(programs, counting, {.tiles = 1, .slots = 2});
  EXPECT_EQ(executor.runFair(), "");
  Cost cost{};
  cost.leastMessages = *std::min_element(counting.messages.begin(), counting.messages.end());
  cost.rounds = counting.rounds;
  for (int rank = 0; rank < n; ++rank) {
    double volume = static_cast<double>(counting.parts[rank]) / programs[rank].parts;
    cost.mostMessages = std::max(cost.mostMessages, counting.messages[rank]);
    cost.allMessages += counting.messages[rank];
    cost.mostVolume = std::max(cost.mostVolume, volume);
    cost.allVolume += volume;
    cost.mostNeighbours = std::max(cost.mostNeighbours, static_cast<int>(programs[rank].connections.size()));
  }
  return cost;
}

int log2Up(int n) {
  return std::bit_width(static_cast<unsigned>(n - 1));
}
int log2Down(int n) {
  return std::bit_width(static_cast<unsigned>(n)) - 1;
}

/// A node of the binomial tree is as deep as its number has bits set.
int binomialDepth(int n) {
  int depth = 0;
  for (int node = 0; node < n; ++node) depth = std::max(depth, std::popcount(static_cast<unsigned>(node)));
  return depth;
}

class Costs : public ::testing::TestWithParam<int> {
 protected:
  const int n = GetParam();

  /// Every rank sends the same. leastRounds: if the rounds are only known to lie between.
  void expectEach(Collective collective, const char* name, int messages, double volume, int rounds,
                  int neighbours, int leastRounds = -1) {
    SCOPED_TRACE(std::string(nameOf(collective)) + " " + name);
    Cost cost = costOf(collective, name, n);
    EXPECT_EQ(cost.leastMessages, messages);
    EXPECT_EQ(cost.mostMessages, messages);
    EXPECT_NEAR(cost.mostVolume, volume, 1e-9);
    EXPECT_NEAR(cost.allVolume, n * volume, 1e-6);
    EXPECT_LE(cost.rounds, rounds);
    EXPECT_GE(cost.rounds, leastRounds < 0 ? rounds : leastRounds);
    EXPECT_EQ(cost.mostNeighbours, neighbours);
  }
  /// The ranks together; the busiest rank sends `most`.
  void expectTogether(Collective collective, const char* name, int messages, int most, int rounds) {
    for (int root : {0, n / 2, n - 1}) {
      SCOPED_TRACE(std::string(nameOf(collective)) + " " + name + " root " + std::to_string(root));
      Cost cost = costOf(collective, name, n, root);
      EXPECT_EQ(cost.allMessages, messages);
      EXPECT_EQ(cost.mostMessages, most);
      EXPECT_NEAR(cost.allVolume, messages, 1e-9);
      EXPECT_EQ(cost.rounds, rounds);
    }
  }
};

INSTANTIATE_TEST_SUITE_P(Ranks, Costs, ::testing::Values(2, 3, 4, 5, 7, 8, 9, 16, 23, 32, 49, 64));

TEST_P(Costs, AllReduce) {
  const double bandwidthOptimal = 2.0 * (n - 1) / n;
  expectEach(Collective::allReduce, "ring", 2 * (n - 1), bandwidthOptimal, 2 * (n - 1), 2);
  expectEach(Collective::allReduce, "direct", 2 * (n - 1), bandwidthOptimal, 2, 4 * (n - 1));
  expectEach(Collective::allReduce, "oneshot", n - 1, n - 1, 1, 2 * (n - 1));
}

TEST_P(Costs, AllReduceRecursive) {
  const int power = 1 << log2Down(n), rounds = 2 * log2Down(n);
  if (n == power) {
    expectEach(Collective::allReduce, "recursive", rounds, 2.0 * (n - 1) / n, rounds, rounds);
    return;
  }
  // Ranks beyond the power of two send and get the whole block once, over two more rounds.
  Cost cost = costOf(Collective::allReduce, "recursive", n);
  EXPECT_EQ(cost.leastMessages, 1);
  EXPECT_EQ(cost.mostMessages, rounds + 1);
  EXPECT_EQ(cost.rounds, rounds + 2);
  EXPECT_NEAR(cost.allVolume, power * 2.0 * (power - 1) / power + 2 * (n - power), 1e-9);
}

TEST_P(Costs, AllReduceTree) {
  // Two trees of n-1 edges, each passed up and down by half of the block.
  Cost cost = costOf(Collective::allReduce, "tree", n);
  EXPECT_EQ(cost.allMessages, 4 * (n - 1));
  EXPECT_NEAR(cost.allVolume, 2 * (n - 1), 1e-9);
  // Interior in one tree only: up and to two children there, up in the other. Full bandwidth.
  EXPECT_LE(cost.mostMessages, 4);
  EXPECT_LE(cost.mostVolume, 2);
  EXPECT_LE(cost.rounds, 2 * log2Down(n));
}

TEST_P(Costs, AllGatherAndBarrier) {
  for (Collective collective : {Collective::allGather, Collective::allGatherv}) {
    expectEach(collective, "ring", n - 1, n - 1, n - 1, 2);
  }
  for (Collective collective : {Collective::allGather, Collective::allGatherv, Collective::barrier}) {
    expectEach(collective, "recursive", n - 1, n - 1, log2Up(n), 2 * log2Up(n));
    expectEach(collective, "direct", n - 1, n - 1, 1, 2 * (n - 1));
  }
}

TEST_P(Costs, ReduceScatter) {
  for (Collective collective : {Collective::reduceScatter, Collective::reduceScatterv}) {
    expectEach(collective, "ring", n - 1, n - 1, n - 1, 2);
    // A rank's own contributions need not wait for the rounds before: some rounds may fall together.
    expectEach(collective, "recursive", n - 1, n - 1, log2Up(n), 2 * log2Up(n), binomialDepth(n));
    expectEach(collective, "direct", n - 1, n - 1, 1, 2 * (n - 1));
  }
}

TEST_P(Costs, BroadcastAndReduce) {
  const int depth = binomialDepth(n);
  expectTogether(Collective::broadcast, "chain", n - 1, 1, n - 1);
  expectTogether(Collective::broadcast, "tree", n - 1, log2Up(n), depth);
  expectTogether(Collective::broadcast, "direct", n - 1, n - 1, 1);
  // Two messages to everybody, of one part and of all the others.
  const Cost split = costOf(Collective::broadcast, "split", n, n / 2);
  EXPECT_EQ(split.mostMessages, 2 * (n - 1));
  EXPECT_EQ(split.allMessages, 2 * (n - 1));
  EXPECT_NEAR(split.allVolume, n - 1, 1e-9);
  EXPECT_EQ(split.rounds, 1);
  expectTogether(Collective::reduce, "chain", n - 1, 1, n - 1);
  expectTogether(Collective::reduce, "tree", n - 1, 1, depth);
  expectTogether(Collective::reduce, "direct", n - 1, 1, 1);
}

TEST_P(Costs, GatherScatterAndAllToAll) {
  expectTogether(Collective::gather, "direct", n - 1, 1, 1);
  expectTogether(Collective::scatter, "direct", n - 1, n - 1, 1);
  // All blocks but the root's own, once for each edge on their way.
  int hops = 0;
  for (int node = 1; node < n; ++node) hops += std::popcount(static_cast<unsigned>(node));
  for (Collective collective : {Collective::gather, Collective::scatter})
    EXPECT_EQ(costOf(collective, "tree", n).allMessages, hops) << nameOf(collective);
  expectEach(Collective::allToAll, "direct", n - 1, n - 1, 1, 2 * (n - 1));
  expectEach(Collective::allToAllv, "direct", n - 1, n - 1, 1, 2 * (n - 1));
}

TEST_P(Costs, AllToAllRelay) {
  // At most twice the messages, over some 2 sqrt(n) neighbours in each direction; a substitute relay has
  // one more per group.
  Cost cost = costOf(Collective::allToAllv, "relay", n);
  const int groups = static_cast<int>(std::sqrt(n)), largest = (n + groups - 1) / groups;
  EXPECT_LE(cost.allMessages, 2 * n * (n - 1));
  EXPECT_EQ(cost.rounds, groups == 1 ? 1 : 2);
  EXPECT_LE(cost.mostNeighbours, 2 * (largest - 1) + 3 * (groups - 1));
  if (n == 64) {
    // 49 of a rank's 63 blocks have another place in another group: two hops.
    EXPECT_EQ(cost.allMessages, 64 * (63 + 49));
    EXPECT_EQ(cost.mostMessages, 63 + 49);
    EXPECT_EQ(cost.mostNeighbours, 28);
  }
}

/// A Domain whose values are the expressions they were made by: equal numbers, equal expressions.
class Expressions {
 public:
  struct Payload {
    std::vector<size_t> values;
  };

  const char* execute(const Move<Payload>& move) {
    std::vector<size_t> values(move.count);
    for (int j = 0; j < move.count; ++j) {
      std::vector<size_t> sources;
      for (const auto& source : move.sources()) {
        const int part = move.part + j;
        if (source.message != nullptr) {
          sources.push_back(source.message->payload.values[j]);
        } else if (source.operand->space == Space::input) {
          sources.push_back(number({static_cast<size_t>(move.rank), static_cast<size_t>(part)}));
        } else {
          sources.push_back(memory_[{move.rank, source.operand->space, part}]);
        }
      }
      values[j] = sources.size() == 1 ? sources[0] : number(sources);
    }
    for (const auto& destination : move.destinations()) {
      if (destination.message != nullptr) {
        destination.message->payload.values = values;
        continue;
      }
      for (int j = 0; j < move.count; ++j) {
        memory_[{move.rank, destination.operand->space, move.part + j}] = values[j];
      }
    }
    return nullptr;
  }
  void waited(const LaneWait&) {}
  size_t output(int rank, int part) { return memory_.at({rank, Space::output, part}); }

 private:
  /// Leaves are made of small numbers, expressions of large ones.
  size_t number(const std::vector<size_t>& made) {
    return numbers_.try_emplace(made, 1'000'000 + numbers_.size()).first->second;
  }

  std::map<std::vector<size_t>, size_t> numbers_;
  std::map<std::tuple<int, Space, int>, size_t> memory_;
};

void expectOneOrder(const Algorithm& algorithm, const std::vector<Program>& programs) {
  Expressions expressions;
  AbstractExecutor<Expressions> executor(programs, expressions, {.tiles = 1, .slots = 2});
  ASSERT_EQ(executor.runFair(), "");
  for (size_t rank = 1; rank < programs.size(); ++rank) {
    for (int part = 0; part < programs[0].parts; ++part) {
      ASSERT_EQ(expressions.output(static_cast<int>(rank), part), expressions.output(0, part))
          << algorithm.name << " with " << programs.size() << " ranks, rank " << rank << " part " << part;
    }
  }
}

TEST(AllReduceOrder, AllRanksSumInTheSameOrder) {
  for (const Algorithm& algorithm : algorithms()) {
    if (algorithm.collective != Collective::allReduce) continue;
    for (int n : {2, 3, 7, 8, 9, 15, 16, 17, 22, 23, 40}) {
      const CollectiveShape shape{Collective::allReduce, n, 0};
      expectOneOrder(algorithm, buildAll(algorithm, shape, 2));
      if (!algorithm.hierarchical()) continue;
      for (const Placement& placement : test::placementsOf(n))
        expectOneOrder(algorithm, buildAll(algorithm, shape, placement, 2));
    }
  }
}

/// Blocks that each host sends to others.
std::vector<double> volumeBetween(const std::vector<Program>& programs, const Placement& placement) {
  std::vector<double> sent(static_cast<size_t>(placement.ranks()));
  for (const Program& program : programs) {
    const auto hostOf = [&](int rank) {
      return static_cast<size_t>(placement.host[static_cast<size_t>(rank)]);
    };
    for (const Step& step : program.steps) {
      const Operand* operands = &program.operands[static_cast<size_t>(step.firstOperand)];
      for (int i = step.sources; i < step.sources + step.destinations; ++i) {
        for (int repeat = 0; operands[i].space == Space::connection && repeat < step.repeat; ++repeat) {
          const int peer = program.connections[static_cast<size_t>(operands[i].index.at(repeat))].peer;
          if (hostOf(peer) != hostOf(program.rank))
            sent[hostOf(program.rank)] += static_cast<double>(operands[0].count) / program.parts;
        }
      }
    }
  }
  return sent;
}

TEST(Hierarchical, LittleCrossesTheNetworkInFewRounds) {
  const Algorithm& algorithm = *findAlgorithm(Collective::allReduce, "hierarchical");
  for (const auto& [hosts, each, rounds] : {std::tuple(2, 4, 4), std::tuple(3, 3, 4), std::tuple(4, 8, 6)}) {
    const Placement placement = Placement::blocks(hosts * each, hosts);
    const auto programs = buildAll(algorithm, {Collective::allReduce, hosts * each, 0}, placement, 1);
    double together = 0;
    for (double blocks : volumeBetween(programs, placement)) {
      together += blocks;
      // As many trees have their root on each host, so that all ports are busy alike.
      if (each % hosts != 0 || blocks == 0) continue;
      EXPECT_NEAR(blocks, 2.0 * (hosts - 1) / hosts, 1e-9);
    }
    EXPECT_NEAR(together, 2 * (hosts - 1), 1e-9);
    Counting counting(programs);
    AbstractExecutor<Counting> executor(programs, counting, {.tiles = 1, .slots = 2});
    EXPECT_EQ(executor.runFair(), "");
    EXPECT_EQ(counting.rounds, rounds) << hosts << " hosts of " << each;
  }
}

TEST(Hierarchical, DoublingTakesHalfTheRoundsOfTheTree) {
  const Algorithm& algorithm = *findAlgorithm(Collective::allReduce, "doubling");
  // To and from the carriers, and one round for each bit; up to two more for hosts beyond the power
  // of two, where those with a partner wait for each other.
  for (const auto& [hosts, each, rounds] : {std::tuple(1, 8, 2), std::tuple(2, 4, 3), std::tuple(4, 3, 4),
                                            std::tuple(8, 2, 5), std::tuple(7, 2, 6)}) {
    const auto programs = buildAll(algorithm, {Collective::allReduce, hosts * each, 0},
                                   Placement::blocks(hosts * each, hosts), 1);
    Counting counting(programs);
    AbstractExecutor<Counting> executor(programs, counting, {.tiles = 1, .slots = 2});
    EXPECT_EQ(executor.runFair(), "");
    EXPECT_EQ(counting.rounds, rounds) << hosts << " hosts of " << each;
  }
}

}  // namespace
}  // namespace eccl::algorithms
