// The cost model's simulation against times that can be worked out by hand: most constants are zero.
#include "algorithms/cost/simulate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <initializer_list>
#include <map>
#include <string>

#include "algorithms/library/algorithm.h"

namespace eccl::algorithms {
namespace {

using ::testing::DoubleNear;
using ::testing::IsSupersetOf;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

using Constant = std::pair<CostTerm, double>;
/// All others are zero.
CostParameters only(std::initializer_list<Constant> constants) {
  CostParameters parameters;
  for (const auto& [term, value] : constants) parameters[term] = value;
  return parameters;
}

CallSize bytesOf(uint64_t bytes, uint64_t slotBytes = 1 << 20) {
  CallSize size;
  size.elements = bytes;
  size.slotBytes = slotBytes;
  return size;
}

std::vector<Program> programsOf(Collective collective, const char* name, int ranks) {
  const Algorithm* algorithm = findAlgorithm(collective, name);
  EXPECT_NE(algorithm, nullptr) << name;
  return buildAll(*algorithm, {collective, ranks, 0}, 1);
}

double timeOf(Collective collective, const char* name, const CallSize& size, const Placement& placement,
              const CostParameters& parameters) {
  auto time = simulatedTime(programsOf(collective, name, placement.ranks()), size, placement, parameters);
  EXPECT_TRUE(time.ok()) << time.status().message();
  return time.ok() ? *time : -1;
}

/// What is not zero of them, by name.
std::map<std::string, double> amountsOf(Collective collective, const char* name, const CallSize& size,
                                        const Placement& placement, const CostParameters& parameters) {
  auto amounts = simulatedAmounts(programsOf(collective, name, placement.ranks()), size, placement, parameters);
  EXPECT_TRUE(amounts.ok()) << amounts.status().message();
  std::map<std::string, double> named;
  for (int term = 0; amounts.ok() && term < kCostTerms; ++term) {
    const double amount = (*amounts)[static_cast<size_t>(term)];
    if (amount != 0) named[nameOf(static_cast<CostTerm>(term))] = amount;
  }
  return named;
}
auto amount(const char* name, double value) {
  return Pair(name, DoubleNear(value, 1e-9));
}

// Ranks on hosts of their own, with the textbook's a + b·bytes.

constexpr double kLatency = 7, kPerMegabyte = 100;
const CostParameters kNetwork =
    only({{CostTerm::networkLatency, kLatency}, {CostTerm::portBytes, kPerMegabyte}});

TEST(SimulatedNetwork, OneMessageIsLatencyAndLength) {
  EXPECT_DOUBLE_EQ(timeOf(Collective::broadcast, "direct", bytesOf(500'000), Placement::hosts(2), kNetwork),
                   kLatency + 0.5 * kPerMegabyte);
}

TEST(SimulatedNetwork, ElementsCountByTheirBytes) {
  CallSize size = bytesOf(1000);
  size.elementBytes = 8;
  EXPECT_DOUBLE_EQ(timeOf(Collective::broadcast, "direct", size, Placement::hosts(2), kNetwork),
                   kLatency + 0.008 * kPerMegabyte);
}

TEST(SimulatedNetwork, ARingIsTheTextbooks) {
  for (int n : {2, 3, 5, 8}) {
    const double part = 0.064 * kPerMegabyte;  // of a block of n times 64,000 bytes
    EXPECT_NEAR(timeOf(Collective::allReduce, "ring", bytesOf(64'000 * static_cast<uint64_t>(n)),
                       Placement::hosts(n), kNetwork),
                2 * (n - 1) * (kLatency + part), 1e-9)
        << n;
  }
}

TEST(SimulatedNetwork, MessagesThroughOnePortFollowOneAnother) {
  // The root's port takes in all three, of which two come while others do, then lets out all three.
  constexpr double kCrowding = 1.3;
  EXPECT_DOUBLE_EQ(timeOf(Collective::gather, "direct", bytesOf(100'000), Placement::hosts(4), kNetwork),
                   kLatency + (1 + 2 * kCrowding) * 0.1 * kPerMegabyte);
  EXPECT_DOUBLE_EQ(timeOf(Collective::scatter, "direct", bytesOf(100'000), Placement::hosts(4), kNetwork),
                   kLatency + 3 * 0.1 * kPerMegabyte);
}

TEST(SimulatedNetwork, MessagesOfOnePortDoNotCrowdAnother) {
  const std::vector<RankLocation> locations = {
      {"root", "", "root", 1}, {"host", "", "port", 3}, {"host", "", "port", 3}, {"host", "", "port", 3}};
  EXPECT_DOUBLE_EQ(timeOf(Collective::gather, "direct", bytesOf(100'000), Placement(locations), kNetwork),
                   kLatency + 3 * 0.1 * kPerMegabyte);
}

TEST(SimulatedNetwork, APortWorksInBothDirectionsAtOnce) {
  EXPECT_DOUBLE_EQ(timeOf(Collective::allGather, "direct", bytesOf(100'000), Placement::hosts(2), kNetwork),
                   kLatency + 0.1 * kPerMegabyte);
}

TEST(SimulatedNetwork, TilesOfAChainFollowOneAnother) {
  constexpr double kTile = 0.1 * kPerMegabyte;
  for (int n : {2, 4}) {
    for (int tiles : {1, 2, 10, 64, 65, 1000}) {  // from 65 on it is extrapolated, here exactly
      EXPECT_NEAR(
          timeOf(Collective::broadcast, "chain", bytesOf(100'000 * static_cast<uint64_t>(tiles), 100'000),
                 Placement::hosts(n), kNetwork),
          (n - 1) * (kLatency + kTile) + (tiles - 1) * kTile, 1e-6)
          << n << " hosts, " << tiles << " tiles";
    }
  }
}

TEST(SimulatedNetwork, OneSlotWaitsForEveryMessageToBeTaken) {
  CallSize size = bytesOf(1'000'000, 100'000);
  size.slots = 1;
  EXPECT_NEAR(timeOf(Collective::broadcast, "chain", size, Placement::hosts(2), kNetwork),
              10 * (kLatency + 0.1 * kPerMegabyte) + 9 * kLatency, 1e-9);
}

TEST(SimulatedNetwork, RanksWithOnePortDoNotUseIt) {
  // They share no memory, so their messages go the long way, but do not leave the machine.
  const std::vector<RankLocation> locations = {{"host", "a", "port", 2}, {"host", "b", "port", 2}};
  EXPECT_DOUBLE_EQ(timeOf(Collective::broadcast, "direct", bytesOf(500'000), Placement(locations), kNetwork),
                   kLatency);
}

TEST(SimulatedNetwork, RanksOfOneHostShareItsPort) {
  // Two ranks each on two hosts: 4 of the 12 messages go each way through each port, the others stay.
  std::vector<RankLocation> locations;
  for (const char* host : {"a", "a", "b", "b"}) locations.push_back({host, host, host, 2});
  EXPECT_DOUBLE_EQ(timeOf(Collective::allGather, "direct", bytesOf(100'000), Placement(locations), kNetwork),
                   kLatency + 4 * 0.1 * kPerMegabyte);
}

TEST(SimulatedNetwork, CoresSendAndReceive) {
  CostParameters parameters = only({{CostTerm::fastCall, 1000},
                                    {CostTerm::fastMove, 1},
                                    {CostTerm::networkLatency, 10},
                                    {CostTerm::networkSend, 2},
                                    {CostTerm::networkReceive, 3},
                                    {CostTerm::networkSendBytes, 20},
                                    {CostTerm::networkReceiveBytes, 30},
                                    {atLevel(CostTerm::write, 0), 500}});
  // What leaves first is on its way while the rest is passed to the kernel, so the slower of both counts.
  for (const auto& [port, slower] : {std::pair(19, "network-send-bytes"), std::pair(21, "port-bytes")}) {
    parameters[CostTerm::portBytes] = port;
    // The root's copy for itself is not in the critical path.
    EXPECT_THAT(
        amountsOf(Collective::broadcast, "direct", bytesOf(1000), Placement::hosts(2), parameters),
        UnorderedElementsAre(amount("fast-call", 1), amount("fast-move", 2), amount("network-latency", 1),
                             amount("network-send", 1), amount("network-receive", 1), amount(slower, 1e-3),
                             amount("network-receive-bytes", 1e-3), amount("write.64K", 1e-3)));
  }
}

// Constants of their own, where both have it; ports are as they are.
TEST(SimulatedNetwork, ByRdma) {
  CostParameters parameters = only({{CostTerm::networkLatency, 1000},
                                    {CostTerm::networkSend, 1000},
                                    {CostTerm::networkReceive, 1000},
                                    {CostTerm::networkSendBytes, 1000},
                                    {CostTerm::networkReceiveBytes, 1000},
                                    {CostTerm::rdmaLatency, 10},
                                    {CostTerm::rdmaSend, 2},
                                    {CostTerm::rdmaReceive, 3},
                                    {CostTerm::rdmaReceiveBytes, 30},
                                    {CostTerm::portBytes, 40}});
  std::vector<RankLocation> locations;
  for (const char* host : {"a", "b"}) locations.emplace_back(host, host, host);
  const double byTcp =
      timeOf(Collective::broadcast, "direct", bytesOf(100'000), Placement(locations), parameters);
  locations[1].rdma = true;
  EXPECT_EQ(timeOf(Collective::broadcast, "direct", bytesOf(100'000), Placement(locations), parameters), byTcp)
      << "one alone has nobody to talk to";
  locations[0].rdma = true;
  const Placement both(locations);
  EXPECT_THAT(amountsOf(Collective::broadcast, "direct", bytesOf(100'000), both, parameters),
              IsSupersetOf({amount("rdma-latency", 1), amount("rdma-send", 1), amount("rdma-receive", 1),
                            amount("port-bytes", 0.1), amount("rdma-receive-bytes", 0.1)}));
  EXPECT_EQ(both.of(std::vector<int>{1, 0}).rdma, (std::vector<bool>{true, true}));
  // What is known of a port's latency adds to the default constant.
  parameters[CostTerm::rdmaLatency] = CostParameters::defaults()[CostTerm::rdmaLatency];
  const double before = timeOf(Collective::broadcast, "direct", bytesOf(8), both, parameters);
  locations[0].ports[0].microseconds = 0.5;
  EXPECT_NEAR(timeOf(Collective::broadcast, "direct", bytesOf(8), Placement(locations), parameters),
              before + 0.5, 1e-9);
}

// Ranks that share a core.

TEST(SimulatedCores, RanksWithCoresOfTheirOwnWorkAtTheSameTime) {
  const CostParameters parameters = only({{CostTerm::fastMove, 1}});
  // The root sends and keeps; the other takes it meanwhile.
  EXPECT_DOUBLE_EQ(timeOf(Collective::broadcast, "direct", bytesOf(100), Placement::oneHost(2, 2), parameters),
                   2);
  EXPECT_DOUBLE_EQ(timeOf(Collective::broadcast, "direct", bytesOf(100), Placement::oneHost(2, 1), parameters),
                   3);
}

TEST(SimulatedCores, ASharedCoreTakesTheSumOfAllMoves) {
  const CostParameters parameters = only({{CostTerm::fastMove, 1}});
  // Nothing but moves takes time: a core that has something to do is never idle.
  for (int n : {2, 3, 4, 7}) {
    EXPECT_DOUBLE_EQ(
        timeOf(Collective::broadcast, "direct", bytesOf(100), Placement::oneHost(n, 1), parameters), 2 * n - 1)
        << n;
    // Send, n-2 times on, the last one, n-2 times on, the last one: by each rank.
    EXPECT_DOUBLE_EQ(timeOf(Collective::allReduce, "ring", bytesOf(100), Placement::oneHost(n, 1), parameters),
                     n * (2 * n - 1))
        << n;
  }
}

TEST(SimulatedCores, SharedCoresTakeAtLeastTheirPartOfAllMoves) {
  const CostParameters parameters = only({{CostTerm::fastMove, 1}, {CostTerm::notice, 0.25}});
  for (int n : {3, 4, 7, 9}) {
    for (int cores : {1, 2, 3}) {
      if (cores >= n) continue;
      EXPECT_GE(timeOf(Collective::allReduce, "ring", bytesOf(900), Placement::oneHost(n, cores), parameters),
                std::ceil(n * (2.0 * n - 1) / cores))
          << n << " ranks, " << cores << " cores";
    }
  }
}

TEST(SimulatedCores, GoingOnWithAnotherRankIsCharged) {
  const CostParameters parameters = only({{CostTerm::fastMove, 1}, {CostTerm::handOver, 10}});
  // The root does both its moves, then the other rank has its turn. The first rank's first turn is free.
  EXPECT_DOUBLE_EQ(timeOf(Collective::broadcast, "direct", bytesOf(100), Placement::oneHost(2, 1), parameters),
                   3 + 10);
  EXPECT_DOUBLE_EQ(timeOf(Collective::broadcast, "direct", bytesOf(100), Placement::oneHost(2, 2), parameters),
                   2);
  EXPECT_DOUBLE_EQ(timeOf(Collective::broadcast, "direct", bytesOf(100), Placement::oneHost(5, 1), parameters),
                   9 + 4 * 10);
}

TEST(SimulatedCores, LanesOfARankTakeTurns) {
  // A rank that is the root of one tree and passes on what the other tree's root needs has to do both: were one
  // lane served until it is blocked, the roots would work one after the other, or not, as the last bit of a
  // time has it.
  CostParameters parameters = CostParameters::defaults();
  for (CostTerm term : {CostTerm::read, CostTerm::write, CostTerm::fetch, CostTerm::store})
    for (int which = 0; which < kMemoryLevels; ++which) parameters[atLevel(term, which)] = 40;
  for (int n : {3, 4, 5, 6, 8}) {
    auto after = [&](uint64_t tiles) {
      return timeOf(Collective::allReduce, "tree", bytesOf(2 * 65536 * tiles, 65536), Placement::oneHost(n, n),
                    parameters);
    };
    const double tile = (after(60) - after(40)) / 20;
    for (uint64_t tiles = 20; tiles < 60; ++tiles)
      EXPECT_NEAR(after(tiles + 1) - after(tiles), tile, 0.25 * tile) << n << " ranks, " << tiles << " tiles";
  }
}

TEST(SimulatedCores, OnlyMachinesShareThem) {
  const CostParameters parameters = only({{CostTerm::fastMove, 1}, {CostTerm::handOver, 10}});
  EXPECT_DOUBLE_EQ(timeOf(Collective::broadcast, "direct", bytesOf(100), Placement::hosts(3), parameters), 3);
}

// How messages among ranks that share memory go, and what that costs. All working sets are 64 KB a core, the
// lowest level.

/// Everything takes the same time, so that the critical path is the one with most moves.
CostParameters ones() {
  CostParameters parameters;
  parameters.values.fill(1);
  return parameters;
}
constexpr CallSize kBlock32K = {.elements = 32'000, .elementBytes = 1, .slotBytes = 1 << 20};
constexpr double kMB32K = 0.032;

TEST(SimulatedMemory, PlainBuffersAreCopiedThroughSlots) {
  CallSize size = kBlock32K;
  size.registered = false;
  EXPECT_THAT(amountsOf(Collective::broadcast, "direct", size, Placement::oneHost(2, 2), ones()),
              UnorderedElementsAre(amount("fast-call", 1), amount("fast-move", 2), amount("notice", 1),
                                   amount("read.64K", kMB32K), amount("slot-write", kMB32K),
                                   amount("slot-read", kMB32K), amount("write.64K", kMB32K)));
}

TEST(SimulatedMemory, StableSourcesAreFetchedByTheReceiver) {
  EXPECT_THAT(amountsOf(Collective::gather, "direct", kBlock32K, Placement::oneHost(2, 2),
                        only({{CostTerm::fastCall, 1},
                              {CostTerm::fastMove, 1},
                              {CostTerm::notice, 10},
                              {atLevel(CostTerm::fetch, 0), 1},
                              {atLevel(CostTerm::write, 0), 1}})),
              // The sender is told that its buffer has been read, after which it may return.
              UnorderedElementsAre(amount("fast-call", 1), amount("fast-move", 2), amount("notice", 2),
                                   amount("fetch.64K", kMB32K), amount("write.64K", kMB32K)));
}

TEST(SimulatedMemory, PlacedMessagesAreStoredByTheSender) {
  // One step for keeping and sending: both read the source once. The receiver has nothing to copy.
  EXPECT_THAT(
      amountsOf(Collective::allGather, "direct", {.elements = 21'000, .slotBytes = 1 << 20},
                Placement::oneHost(2, 2), ones()),
      UnorderedElementsAre(amount("fast-call", 1), amount("fast-move", 2), amount("notice", 1),
                           amount("read.64K", 0.021), amount("write.64K", 0.021), amount("store.64K", 0.021)));
}

// Unless cores are shared: who is read waits for the reader's turn.
TEST(SimulatedMemory, PlacedMessagesOfStableSourcesAreFetchedWhereThatTakesLess) {
  CostParameters parameters = ones();
  parameters[atLevel(CostTerm::store, 0)] = 2.1;
  const CallSize size{.elements = 20'000, .slotBytes = 1 << 20};
  EXPECT_THAT(
      amountsOf(Collective::allGather, "direct", size, Placement::oneHost(2, 2), parameters),
      UnorderedElementsAre(amount("fast-call", 1), amount("fast-move", 2), amount("notice", 2),
                           amount("read.64K", 0.02), amount("write.64K", 0.04), amount("fetch.64K", 0.02)));
  // What the sender reads it reads in any case, for its copy.
  parameters[atLevel(CostTerm::store, 0)] = 1.9;
  EXPECT_EQ(
      amountsOf(Collective::allGather, "direct", size, Placement::oneHost(2, 2), parameters).count("fetch.64K"),
      0u);
  parameters[atLevel(CostTerm::store, 0)] = 100;
  const auto shared = amountsOf(Collective::allGather, "direct", size, Placement::oneHost(2, 1), parameters);
  EXPECT_GT(shared.count("store.64K"), 0u);
  EXPECT_EQ(shared.count("fetch.64K"), 0u);
}

TEST(SimulatedMemory, OfASplitBroadcastTheRootStoresItsHalfAndTheOtherFetchesTheRest) {
  const CallSize size{.elements = 20'480, .slotBytes = 1 << 20, .inPlace = true};
  const auto amounts = [&](double store) {
    return amountsOf(Collective::broadcast, "split", size, Placement::oneHost(2, 2),
                     only({{atLevel(CostTerm::read, 0), 1},
                           {atLevel(CostTerm::write, 0), 1},
                           {atLevel(CostTerm::fetch, 0), 1},
                           {atLevel(CostTerm::store, 0), store}}));
  };
  // Each has half of it to do, whatever takes less.
  EXPECT_THAT(amounts(0.5), IsSupersetOf({amount("fetch.64K", 0.01024), amount("write.64K", 0.01024)}));
  EXPECT_THAT(amounts(5), IsSupersetOf({amount("read.64K", 0.01024), amount("store.64K", 0.01024)}));
}

TEST(SimulatedMemory, ARingFetchesTheSumsAndStoresTheResults) {
  constexpr CallSize kBlock{.elements = 40'000, .elementBytes = 1, .slotBytes = 1 << 20};
  CostParameters parameters = ones();
  parameters[CostTerm::notice] = 5;
  const auto amounts = amountsOf(Collective::allReduce, "ring", kBlock, Placement::oneHost(2, 2), parameters);
  // Halves, a line more or less: sent by reference; fetched, added to the own, kept and stored; seen to have
  // arrived.
  EXPECT_THAT(amounts, IsSupersetOf({amount("fast-call", 1), amount("fast-move", 3), amount("notice", 2),
                                     amount("combine", 0.020032)}));
  EXPECT_EQ(amounts.size(), 4u + 2 * 4u);
  for (const std::string term : {"fetch", "read", "write", "store"})
    EXPECT_NEAR(amounts.at(term + ".64K") + amounts.at(term + ".1000K"), 0.020032, 1e-9) << term;
}

// What others have read is slow to write again: for each memory once, and not for inputs, which calls do not
// write.
TEST(SimulatedMemory, WhatAProgramWritesAndOthersReadIsStoredTheNextTime) {
  CostParameters stores = only({});
  for (int level = 0; level < kMemoryLevels; ++level)
    stores[atLevel(CostTerm::store, level)] = 1e6;  // a unit per byte
  const auto time = [&](Collective collective, const char* name, int ranks) {
    return timeOf(collective, name, bytesOf(147'456), Placement::oneHost(ranks, ranks), stores);
  };
  // Half of the sums, which the other rank reads.
  EXPECT_DOUBLE_EQ(time(Collective::allReduce, "recursive", 2), 73'728);
  // The inputs of all; a root's.
  EXPECT_DOUBLE_EQ(time(Collective::reduceScatter, "direct", 4), 0);
  EXPECT_DOUBLE_EQ(time(Collective::broadcast, "direct", 4), 0);
  // Of 9 ranks' ninth of the sums, in one place for all eight readers.
  EXPECT_DOUBLE_EQ(time(Collective::allReduce, "direct", 9), 16'384);
}

// In a chain the root copies before the other has all; of direct's two copies it is its own that a core is
// spared.
TEST(SimulatedMemory, InPlaceTheRootOfABroadcastHasItAlready) {
  const CostParameters writes = only({{atLevel(CostTerm::write, 0), 100}});
  CallSize size = bytesOf(20'000);
  for (const auto& [name, cores] : {std::pair{"chain", 2}, {"direct", 1}}) {
    const Placement pair = Placement::oneHost(2, cores);
    size.inPlace = false;
    const double copied = timeOf(Collective::broadcast, name, size, pair, writes);
    size.inPlace = true;
    EXPECT_DOUBLE_EQ(copied - timeOf(Collective::broadcast, name, size, pair, writes), 2) << name;
  }
}

TEST(SimulatedMemory, ReferencesBeginAtAThreshold) {
  const CostParameters slots = only({{CostTerm::slotWrite, 1e6}});  // a unit per byte
  auto inSlots = [&](uint64_t bytes, const Placement& placement) {
    return timeOf(Collective::broadcast, "chain", bytesOf(bytes), placement, slots);
  };
  EXPECT_NEAR(inSlots(4095, Placement::oneHost(2, 2)), 4095, 1e-6);
  EXPECT_EQ(inSlots(4096, Placement::oneHost(2, 2)), 0);
  EXPECT_NEAR(inSlots(8191, Placement::oneHost(2, 1)), 8191, 1e-6);
  EXPECT_EQ(inSlots(8192, Placement::oneHost(2, 1)), 0);
  // Of ranks that send to each other at another one.
  auto bothWays = [&](uint64_t bytes, const Placement& placement) {
    return timeOf(Collective::allGather, "direct", bytesOf(bytes), placement, slots);
  };
  for (const int cores : {1, 2}) {
    EXPECT_NEAR(bothWays(16'383, Placement::oneHost(2, cores)), 2 / cores * 16'383, 1e-6) << cores;
    EXPECT_EQ(bothWays(16'384, Placement::oneHost(2, cores)), 0) << cores;
  }
}

TEST(SimulatedMemory, PlainBuffersAreNeverReferredTo) {
  const CostParameters others = [] {
    CostParameters parameters;
    for (int which = 0; which < kMemoryLevels; ++which) {
      parameters[atLevel(CostTerm::fetch, which)] = 1;
      parameters[atLevel(CostTerm::store, which)] = 1;
    }
    return parameters;
  }();
  for (const Algorithm& algorithm : algorithms()) {
    CallSize size = bytesOf(1 << 20);
    size.registered = false;
    EXPECT_EQ(timeOf(algorithm.collective, algorithm.name, size, Placement::oneHost(5, 2), others), 0)
        << nameOf(algorithm.collective) << " " << algorithm.name;
    if (std::string_view(algorithm.name) == "oneshot") continue;  // claims nothing
    size.registered = true;
    EXPECT_GT(timeOf(algorithm.collective, algorithm.name, size, Placement::oneHost(5, 2), others), 0)
        << nameOf(algorithm.collective) << " " << algorithm.name;
  }
}

TEST(SimulatedMemory, TheFastPathIsOfOneTileAndFewSockets) {
  const CostParameters parameters = only({{CostTerm::call, 1}, {CostTerm::fastCall, 100}});
  auto begun = [&](uint64_t tiles, const Placement& placement) {
    return timeOf(Collective::broadcast, "chain", bytesOf(100 * tiles, 100), placement, parameters);
  };
  EXPECT_EQ(begun(1, Placement::oneHost(2, 2)), 100);
  EXPECT_EQ(begun(2, Placement::oneHost(2, 2)), 1);
  EXPECT_EQ(begun(1, Placement::hosts(2)), 100);
  const auto allToAll = [&](const Placement& placement) {
    return timeOf(Collective::allToAll, "direct", bytesOf(100), placement, parameters);
  };
  EXPECT_EQ(allToAll(Placement::hosts(kMaxPolled + 1)), 100);
  EXPECT_EQ(allToAll(Placement::hosts(kMaxPolled + 2)), 1);
  EXPECT_EQ(allToAll(Placement::oneHost(kMaxPolled + 2, 8)), 100);
}

TEST(SimulatedMemory, LevelsAreInterpolatedOverTheLogarithmOfTheWorkingSet) {
  // A rank alone copies: what it touches is twice its block.
  auto read = [](double workingSet) {
    std::map<std::string, double> levels;
    for (const auto& [name, amount] :
         amountsOf(Collective::allReduce, "ring", bytesOf(static_cast<uint64_t>(workingSet / 2), 1 << 30),
                   Placement::oneHost(1, 1), ones())) {
      if (name.substr(0, 5) == "read.") levels[name.substr(5)] = amount / (workingSet / 2e6);
    }
    return levels;
  };
  EXPECT_THAT(read(1000), UnorderedElementsAre(amount("64K", 1)));
  EXPECT_THAT(read(64e3), UnorderedElementsAre(amount("64K", 1)));
  EXPECT_THAT(read(1e6), UnorderedElementsAre(amount("1000K", 1)));
  EXPECT_THAT(read(2e6), UnorderedElementsAre(amount("1000K", 2.0 / 3), amount("8000K", 1.0 / 3)));
  EXPECT_THAT(read(4e6), UnorderedElementsAre(amount("1000K", 1.0 / 3), amount("8000K", 2.0 / 3)));
  EXPECT_THAT(read(256e6), UnorderedElementsAre(amount("256000K", 1)));
  EXPECT_THAT(read(1e9), UnorderedElementsAre(amount("256000K", 1)));
}

}  // namespace
}  // namespace eccl::algorithms
