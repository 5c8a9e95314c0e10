// What holds for the simulation of every algorithm, wherever its ranks are.
#include <gtest/gtest.h>

#include <numeric>
#include <random>
#include <string>

#include "algorithms/cost/simulate.h"
#include "algorithms/library/algorithm.h"

namespace eccl::algorithms {
namespace {

struct Where {
  const char* name;
  Placement (*of)(int ranks);
};
constexpr Where kWheres[] = {
    {"one host", [](int ranks) { return Placement::oneHost(ranks, ranks); }},
    {"an oversubscribed host", [](int ranks) { return Placement::oneHost(ranks, 2); }},
    {"hosts", [](int ranks) { return Placement::hosts(ranks); }},
    {"hosts of two",
     [](int ranks) {
       std::vector<RankLocation> locations;
       for (int rank = 0; rank < ranks; ++rank) {
         const std::string host = std::to_string(rank / 2);
         locations.push_back({host, host, host, 1});
       }
       return Placement(locations);
     }},
};
constexpr int kMaxRanks = 9;

/// One of many calls.
struct Case {
  const Algorithm* algorithm;
  const Where* where;
  int ranks;
  std::vector<Program> programs;
  Placement placement;

  double time(const CallSize& size, const CostParameters& parameters = CostParameters::defaults(),
              int64_t mostTiles = kEnoughTiles) const {
    auto time = simulatedTime(programs, size, placement, parameters, mostTiles);
    EXPECT_TRUE(time.ok()) << time.status().message();
    return time.ok() ? *time : -1;
  }
};

template <class Check>
void everyCase(Check check) {
  for (const Algorithm& algorithm : algorithms()) {
    for (const Where& where : kWheres) {
      for (int ranks = 1; ranks <= kMaxRanks; ++ranks) {
        SCOPED_TRACE(std::string(nameOf(algorithm.collective)) + " " + algorithm.name + ", " +
                     std::to_string(ranks) + " ranks, " + where.name);
        check(Case{&algorithm, &where, ranks, buildAll(algorithm, {algorithm.collective, ranks, 0}, 1),
                   where.of(ranks)});
      }
    }
  }
}

/// Blocks of about so many tiles, each as long that messages of one part are below the thresholds from which
/// they are not copied into slots, or above, and those of several parts above.
CallSize tilesOf(const Case& c, double tiles) {
  constexpr uint64_t kPart = kDirectFromExchanged;
  CallSize size;
  size.slotBytes = kPart * static_cast<uint64_t>(c.programs[0].messageParts);
  size.elements = static_cast<uint64_t>(tiles * kPart) * static_cast<uint64_t>(c.programs[0].parts);
  return size;
}

TEST(SimulateEveryAlgorithm, ComesToAnEndThatTheAmountsExplain) {
  everyCase([](const Case& c) {
    for (double tiles : {0.01, 1.0, 3.5, 200.0}) {
      const CallSize size = tilesOf(c, tiles);
      const auto parameters = CostParameters::defaults();
      const double time = c.time(size);
      EXPECT_GT(time, 0);
      const auto amounts = simulatedAmounts(c.programs, size, c.placement, parameters);
      ASSERT_TRUE(amounts.ok()) << amounts.status().message();
      EXPECT_NEAR(std::inner_product(amounts->begin(), amounts->end(), parameters.values.begin(), 0.0), time,
                  1e-9 * time)
          << tiles << " tiles";
      for (double amount : *amounts) EXPECT_GE(amount, 0);
    }
  });
}

TEST(SimulateEveryAlgorithm, ScalesWithTheConstants) {
  everyCase([](const Case& c) {
    for (double tiles : {0.7, 6.0}) {
      for (double scale : {0.25, 2.0}) {  // powers of two change no rounding
        CostParameters scaled = CostParameters::defaults();
        for (double& value : scaled.values) value *= scale;
        EXPECT_DOUBLE_EQ(c.time(tilesOf(c, tiles), scaled), scale * c.time(tilesOf(c, tiles)));
      }
    }
  });
}

TEST(SimulateEveryAlgorithm, FewSlotsAreEnough) {
  everyCase([](const Case& c) {
    CallSize size = tilesOf(c, 20);
    const double many = c.time(size);
    size.slots = 2;
    EXPECT_GT(c.time(size), 0);
    size.slots = 64;
    EXPECT_GT(c.time(size), 0);
    EXPECT_GT(many, 0);
  });
}

TEST(SimulateEveryAlgorithm, MoreBytesTakeNoLessTime) {
  // All memory is as fast, or else a larger working set would change it.
  CostParameters parameters;
  for (CostTerm term : {CostTerm::slotWrite, CostTerm::slotRead, CostTerm::networkSendBytes,
                        CostTerm::networkReceiveBytes, CostTerm::portBytes, CostTerm::combine})
    parameters[term] = 100;
  for (CostTerm term : {CostTerm::read, CostTerm::write, CostTerm::fetch, CostTerm::store}) {
    for (int level = 0; level < kMemoryLevels; ++level)
      parameters.values[static_cast<size_t>(term) + static_cast<size_t>(level)] = 50;
  }
  parameters[CostTerm::notice] = 1;
  parameters[CostTerm::networkLatency] = 10;
  everyCase([&](const Case& c) {
    // Ranks that share cores may take their turns in a better order (R. Graham, "Bounds on multiprocessing
    // timing anomalies", SIAM J. Appl. Math. 17(2), 1969).
    if (c.placement.oversubscribed()) return;
    double last = 0;
    for (double tiles : {3.05, 3.3, 3.6, 3.95}) {
      const double time = c.time(tilesOf(c, tiles), parameters);
      EXPECT_GE(time, last) << tiles << " tiles";
      last = time;
    }
  });
}

TEST(SimulateEveryAlgorithm, LongCallsAreExtrapolated) {
  constexpr int64_t kAll = 1000;
  everyCase([](const Case& c) {
    // Ranks that share cores take turns when slots are full: the time goes up in steps of as many tiles.
    const auto sizes =
        c.placement.oversubscribed() ? std::vector<double>{4, 48, 96} : std::vector<double>{4, 39.5, 54, 90};
    for (double tiles : sizes) {
      const CallSize size = tilesOf(c, tiles);
      const double whole = c.time(size, CostParameters::defaults(), kAll), extrapolated = c.time(size);
      const double allowed = tiles <= 4 ? 1e-12 : c.placement.oversubscribed() ? 0.12 : 0.05;
      EXPECT_NEAR(extrapolated, whole, allowed * whole) << tiles << " tiles";
    }
  });
}

TEST(SimulateEveryAlgorithm, ALongCallTakesItsTimePerTile) {
  // The same at all sizes: as in the shared cache.
  CostParameters parameters = CostParameters::defaults();
  for (CostTerm term : {CostTerm::read, CostTerm::write, CostTerm::fetch, CostTerm::store}) {
    const auto first = static_cast<size_t>(term);
    for (size_t level = 0; level < kMemoryLevels; ++level)
      parameters.values[first + level] = parameters.values[first + 2];
  }
  everyCase([&](const Case& c) {
    if (c.placement.oversubscribed()) return;  // whose turn it is depends on the last bit of a time
    const double some = c.time(tilesOf(c, 1000), parameters), twice = c.time(tilesOf(c, 2000), parameters);
    EXPECT_NEAR(twice, 2 * some, 0.03 * some);
  });
}

}  // namespace
}  // namespace eccl::algorithms
