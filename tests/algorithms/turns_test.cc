// Lines of lanes that wait for a core are only a faster way to take turns: times are those of the plain one.
#include "algorithms/cost/turns.h"

#include <gtest/gtest.h>

#include <queue>
#include <string>
#include <tuple>

#include "algorithms/cost/simulation.h"
#include "algorithms/library/algorithm.h"

namespace eccl::algorithms {
namespace {

using simulation::Clocks;
using simulation::Time;

/// The plain way: every lane that waits for a core takes its turn whenever one might be free.
class PlainTurns {
 public:
  struct Turn {
    double at;
    bool handsOver;
    double since;
    int order, lane;
    bool operator>(const Turn& other) const {
      return std::tie(at, handsOver, since, order) >
             std::tie(other.at, other.handsOver, other.since, other.order);
    }
  };
  explicit PlainTurns(const simulation::Clocks<Time>& clocks) : clocks_(clocks) {}
  void add(int lane, double at, bool handsOver = false) {
    turns_.push({at, handsOver, clocks_.clockOf(lane), order_++, lane});
  }
  bool next(Turn& turn) {
    if (turns_.empty()) return false;
    turn = turns_.top();
    turns_.pop();
    return true;
  }

 private:
  const simulation::Clocks<Time>& clocks_;
  std::priority_queue<Turn, std::vector<Turn>, std::greater<>> turns_;
  int order_ = 0;
};

double plainTime(const std::vector<Program>& programs, const CallSize& size, const Placement& placement,
                 const CostParameters& parameters) {
  const Partition partition = partitionFor(programs[0], size.elements, size.elementBytes, size.slotBytes);
  simulation::Clocks<Time> clocks(programs, size, placement, partition, parameters);
  ExecutionSize executionSize;
  executionSize.tiles = static_cast<int>(partition.tiles(size.elements));
  executionSize.slots = size.slots;
  executionSize.empty = [&](int, int part, int tile) {
    return partition.slice(size.elements, part, static_cast<uint64_t>(tile)).size() == 0;
  };
  AbstractExecutor<simulation::Clocks<Time>> machine(programs, clocks, executionSize);
  PlainTurns turns(clocks);
  std::vector<std::vector<int>> blocked(programs.size());
  for (int lane = 0; lane < machine.lanes(); ++lane) turns.add(lane, clocks.clockOf(lane));
  for (PlainTurns::Turn turn{}; turns.next(turn);) {
    const int rank = clocks.rankOf(turn.lane);
    clocks.begin(rank, turn.at);
    const Advance advanced = machine.advance(turn.lane);
    if (advanced == Advance::moved) turns.add(turn.lane, std::max(turn.at, clocks.clockOf(turn.lane)));
    if (advanced == Advance::putOff) turns.add(turn.lane, clocks.later(), clocks.handsOver(rank));
    if (advanced == Advance::blocked) blocked[static_cast<size_t>(rank)].push_back(turn.lane);
    if (advanced != Advance::moved && advanced != Advance::finished) continue;
    for (int other : clocks.concerned()) {
      for (int lane : blocked[static_cast<size_t>(other)]) turns.add(lane, turn.at);
      blocked[static_cast<size_t>(other)].clear();
    }
  }
  EXPECT_TRUE(machine.finished()) << machine.failure();
  return clocks.end().at;
}

/// Ranks on so many hosts, in turn, so that hosts often do the same at the same time.
Placement spread(int ranks, int hosts, double cores) {
  std::vector<Seat> seats;
  for (int rank = 0; rank < ranks; ++rank) {
    const std::string host = std::to_string(rank % hosts);
    seats.push_back({host, host, host, cores});
  }
  return Placement(seats);
}

/// Of every algorithm, however ranks share cores.
void compare(int ranks, int channels) {
  const auto parameters = CostParameters::defaults();
  for (const Algorithm& algorithm : algorithms()) {
    const auto programs = buildAll(algorithm, {algorithm.collective, ranks, 0}, channels);
    if (programs[0].streams) continue;  // simulatedTime() makes their tiles in another way
    for (const int hosts : {1, 2, 3, 5}) {
      for (const double cores : {1.0, 2.0, 3.0}) {
        for (const uint64_t elements : {1, 10000}) {
          CallSize size;
          size.elements = elements;
          size.elementBytes = 4;
          size.slotBytes = 8192;
          size.slots = 2;
          size.registered = channels == 1;
          const Placement placement = spread(ranks, hosts, cores);
          const auto time = simulatedTime(programs, size, placement, parameters, 1000);
          ASSERT_TRUE(time.ok()) << time.status().message();
          EXPECT_EQ(*time, plainTime(programs, size, placement, parameters))
              << nameOf(algorithm.collective) << " " << algorithm.name << " of " << elements
              << " elements among " << ranks << " ranks on " << hosts << " hosts of " << cores << " cores";
        }
      }
    }
  }
}

TEST(SimulateTurns, LinesChangeNoTime) {
  for (const int ranks : {4, 7, 9}) compare(ranks, 1);
  for (const int ranks : {8, 17}) compare(ranks, 2);
}

}  // namespace
}  // namespace eccl::algorithms
