// The event queue of a simulation, and how the time of many tiles follows from that of some.
#include "algorithms/cost/simulate.h"

#include <queue>
#include <tuple>

#include "algorithms/cost/simulation.h"

namespace eccl::algorithms {
namespace {

using simulation::Clocks;
using simulation::CriticalPath;
using simulation::Time;

/// A lane that may be able to go on.
struct Event {
  double at = 0;
  bool handsOver = false;  // a core that goes on with the same rank does so first
  double since = 0;        // of a rank's lanes the one that has waited longest is next, as in the engine
  int64_t order = 0;
  int lane = 0;
  double ready = -1;  // when its messages and slots are, so that it only waits for a core; -1: not known
  bool operator>(const Event& other) const {
    return std::tie(at, handsOver, since, order) >
           std::tie(other.at, other.handsOver, other.since, other.order);
  }
};

/// Executes all lanes, always the one that can begin first. One that cannot begin when its event comes is put
/// off until it can, as far as is known.
template <class Moment>
Result<Moment> run(const std::vector<Program>& programs, const CallSize& size, const Placement& placement,
                   const Partition& partition, const CostParameters& parameters, int tiles) {
  Clocks<Moment> clocks(programs, size, placement, partition, parameters);
  ExecutionSize executionSize;
  executionSize.tiles = tiles;
  executionSize.slots = size.slots;
  executionSize.empty = [&](int, int part, int tile) {
    return partition.slice(size.elements, part, static_cast<uint64_t>(tile)).size() == 0;
  };
  executionSize.streamTiles = [tiles](int) { return tiles; };
  AbstractExecutor<Clocks<Moment>> executor(programs, clocks, executionSize);

  std::priority_queue<Event, std::vector<Event>, std::greater<>> events;
  int64_t order = 0;
  const auto add = [&](int lane, double at, bool handsOver = false, double ready = -1) {
    events.push({at, handsOver, clocks.clockOf(lane), order++, lane, ready});
  };
  std::vector<std::vector<int>> blocked(programs.size());
  for (int lane = 0; lane < executor.lanes(); ++lane) add(lane, clocks.clockOf(lane));
  while (!events.empty()) {
    const Event event = events.top();
    events.pop();
    const int rank = clocks.rankOf(event.lane);
    if (event.ready >= 0) {
      const double at = clocks.beginning(rank, event.at, event.ready);
      if (at > event.at) {
        add(event.lane, at, clocks.handsOver(rank), event.ready);
        continue;
      }
    }
    clocks.begin(rank, event.at);
    switch (executor.advance(event.lane)) {
      case Advance::moved:
        add(event.lane, std::max(event.at, clocks.clockOf(event.lane)));
        for (int other : clocks.concerned()) {
          for (int lane : blocked[static_cast<size_t>(other)]) add(lane, event.at);
          blocked[static_cast<size_t>(other)].clear();
        }
        break;
      case Advance::putOff:
        add(event.lane, clocks.later(), clocks.handsOver(rank), clocks.ready());
        break;
      case Advance::blocked:
        blocked[static_cast<size_t>(rank)].push_back(event.lane);
        break;
      case Advance::finished:
        for (int lane : blocked[static_cast<size_t>(rank)]) add(lane, event.at);
        blocked[static_cast<size_t>(rank)].clear();
        break;
      case Advance::failed:
        return Status::error(Code::internal, "a schedule to be simulated is wrong: %s",
                             executor.failure().c_str());
    }
  }
  if (!executor.finished()) return Status::error(Code::internal, "a schedule to be simulated comes to no end");
  return clocks.end();
}

int64_t movesPerTile(const std::vector<Program>& programs) {
  int64_t moves = 0;
  for (const Program& program : programs)
    for (const Step& step : program.steps) moves += step.repeat;
  return moves;
}

template <class Moment>
Result<Moment> simulate(const std::vector<Program>& programs, const CallSize& size, const Placement& placement,
                        const CostParameters& parameters, int64_t mostTiles) {
  const Partition partition = partitionFor(programs[0], size.elements, size.elementBytes, size.slotBytes);
  const auto tiles = static_cast<int64_t>(partition.tiles(size.elements));
  // A pipeline is full after as many tiles as it is long, and a sender is held up once all slots are.
  constexpr int64_t kMoves = 6000, kMax = 64;
  const int64_t fewest = 2 * size.slots + 2;
  const int64_t longest =
      mostTiles != kEnoughTiles
          ? mostTiles
          : std::clamp(kMoves / std::max<int64_t>(1, movesPerTile(programs)), std::min(fewest, kMax), kMax);
  auto after = [&](int64_t some) {
    return run<Moment>(programs, size, placement, partition, parameters, static_cast<int>(some));
  };
  ECCL_ASSIGN(Moment end, after(std::min(tiles, longest)));
  if (tiles > longest) {
    ECCL_ASSIGN(const Moment half, after(longest / 2));
    const double more =
        static_cast<double>(partition.longestPart(size.elements)) / static_cast<double>(partition.tile) -
        static_cast<double>(longest);
    end.goOn(parameters, half, more / static_cast<double>(longest - longest / 2));
  }
  return end;
}

}  // namespace

Result<double> simulatedTime(const std::vector<Program>& programs, const CallSize& size,
                             const Placement& placement, const CostParameters& parameters, int64_t mostTiles) {
  ECCL_ASSIGN(const Time end, simulate<Time>(programs, size, placement, parameters, mostTiles));
  return end.at;
}

Result<CostAmounts> simulatedAmounts(const std::vector<Program>& programs, const CallSize& size,
                                     const Placement& placement, const CostParameters& parameters) {
  ECCL_ASSIGN(const CriticalPath end,
              simulate<CriticalPath>(programs, size, placement, parameters, kEnoughTiles));
  return end.amounts;
}

}  // namespace eccl::algorithms
