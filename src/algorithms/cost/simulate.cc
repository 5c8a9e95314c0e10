#include "algorithms/cost/simulate.h"

#include "algorithms/cost/simulation.h"
#include "algorithms/cost/turns.h"

namespace eccl::algorithms {
namespace {

using simulation::Chain;
using simulation::Clocks;
using simulation::Time;
using simulation::Turn;
using simulation::Turns;

/// Executes all lanes, always the one that can begin first.
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
  AbstractExecutor<Clocks<Moment>> machine(programs, clocks, executionSize);

  Turns<Clocks<Moment>> turns(clocks, machine.lanes());
  std::vector<std::vector<int>> blocked(programs.size());
  for (int lane = 0; lane < machine.lanes(); ++lane) turns.add(lane, clocks.clockOf(lane));
  for (Turn turn; turns.next(turn);) {
    const int rank = clocks.rankOf(turn.lane);
    clocks.begin(rank, turn.at);
    switch (machine.advance(turn.lane)) {
      case Advance::moved:
        turns.add(turn.lane, std::max(turn.at, clocks.clockOf(turn.lane)));
        for (int other : clocks.concerned()) {
          for (int lane : blocked[static_cast<size_t>(other)]) turns.add(lane, turn.at);
          blocked[static_cast<size_t>(other)].clear();
        }
        break;
      case Advance::putOff:
        if (clocks.standsInLine(rank)) {
          turns.standInLine(turn);
        } else {
          turns.add(turn.lane, clocks.later(), clocks.handsOver(rank));
        }
        break;
      case Advance::blocked:
        blocked[static_cast<size_t>(rank)].push_back(turn.lane);
        break;
      case Advance::finished:
        for (int lane : blocked[static_cast<size_t>(rank)]) turns.add(lane, turn.at);
        blocked[static_cast<size_t>(rank)].clear();
        break;
      case Advance::failed:
        return Status::error(Code::internal, "a schedule to be simulated is wrong: %s",
                             machine.failure().c_str());
    }
  }
  if (!machine.finished()) return Status::error(Code::internal, "a schedule to be simulated comes to no end");
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
  ECCL_ASSIGN(const Chain end, simulate<Chain>(programs, size, placement, parameters, kEnoughTiles));
  return end.amounts;
}

}  // namespace eccl::algorithms
