// The event queue of a simulation, and how the time of many tiles follows from that of some.
#include "algorithms/cost/simulate.h"

#include <algorithm>
#include <limits>
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
  int lane = 0, rank = 0;
  double ready = -1;  // when its messages and slots are, so that it only waits for a core; -1: not known
  bool operator<(const Event& other) const {
    return std::tie(at, handsOver, since, order) <
           std::tie(other.at, other.handsOver, other.since, other.order);
  }
  bool operator>(const Event& other) const { return other < *this; }
};

constexpr Event kNever = {.at = std::numeric_limits<double>::infinity(), .lane = -1};

/// All lanes that may be able to go on, in order.
///
/// With more ranks than cores nearly all lanes wait for nothing but a core, and whenever it has taken another
/// move all of them are put off. So they stand in a line, one for each machine, and that is one pass over it.
template <class Moment>
class Events {
 public:
  /// `clocks` and `placement` are kept by reference.
  Events(Clocks<Moment>& clocks, const Placement& placement)
      : clocks_(clocks),
        placement_(placement),
        lines_(placement.oversubscribed() ? placement.cores.size() : 0) {}

  void add(int lane, double at) {
    others_.push({at, false, clocks_.clockOf(lane), order_++, lane, clocks_.rankOf(lane)});
  }
  /// The lane cannot begin before a time, as far as is known.
  void putOff(int lane, double at, double ready) {
    const int rank = clocks_.rankOf(lane);
    const Event event{at, clocks_.handsOver(rank), clocks_.clockOf(lane), order_++, lane, rank, ready};
    if (!event.handsOver || at <= ready) return others_.push(event);
    Line& line = lines_[static_cast<size_t>(placement_.machine[static_cast<size_t>(rank)])];
    line.insert(std::upper_bound(line.begin(), line.end(), event), event);
  }
  /// Takes the first whose lane does not have to wait for a core. False: there is none.
  bool next(Event& event) {
    while (true) {
      const Event *first = others_.empty() ? &kNever : &others_.top(), *another = &kNever;
      Line* line = nullptr;
      for (Line& other : lines_) {
        if (other.empty()) continue;
        const Event* its = &other.front();
        if (*its < *first) std::swap(its, first), line = &other;
        if (*its < *another) another = its;  // the first that is not in the same line
      }
      event = *first;
      if (event.lane < 0) return false;
      const double at = event.ready < 0 ? event.at : clocks_.beginning(event.rank, event.at, event.ready);
      if (line != nullptr && at > event.at) {
        putOff(*line, at, *another);
        continue;
      }
      if (line != nullptr) {
        line->erase(line->begin());
      } else {
        others_.pop();
      }
      if (at <= event.at) return true;
      putOff(event.lane, at, event.ready);
    }
  }

 private:
  using Line = std::vector<Event>;  // in order; of lanes that wait for a core which was another rank's last

  /// Those who are next before another event. The lanes of the rank that had the core last leave the line.
  void putOff(Line& line, double at, const Event another) {
    auto kept = line.begin(), event = line.begin();
    for (; event != line.end() && event->at < at && *event < another; ++event) {
      event->at = at;
      event->handsOver = clocks_.handsOver(event->rank);
      event->order = order_++;
      if (event->handsOver) {
        *kept++ = *event;
      } else {
        others_.push(*event);
      }
    }
    kept = line.erase(kept, event);
    std::inplace_merge(line.begin(), kept, line.end());
  }

  Clocks<Moment>& clocks_;
  const Placement& placement_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> others_;
  std::vector<Line> lines_;  // by machine; none where each rank has a core
  int64_t order_ = 0;
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

  Events<Moment> events(clocks, placement);
  std::vector<std::vector<int>> blocked(programs.size());
  for (int lane = 0; lane < executor.lanes(); ++lane) events.add(lane, clocks.clockOf(lane));
  for (Event event; events.next(event);) {
    const int rank = event.rank;
    clocks.begin(rank, event.at);
    switch (executor.advance(event.lane)) {
      case Advance::moved:
        events.add(event.lane, std::max(event.at, clocks.clockOf(event.lane)));
        for (int other : clocks.concerned()) {
          for (int lane : blocked[static_cast<size_t>(other)]) events.add(lane, event.at);
          blocked[static_cast<size_t>(other)].clear();
        }
        break;
      case Advance::putOff:
        events.putOff(event.lane, clocks.later(), clocks.ready());
        break;
      case Advance::blocked:
        blocked[static_cast<size_t>(rank)].push_back(event.lane);
        break;
      case Advance::finished:
        for (int lane : blocked[static_cast<size_t>(rank)]) events.add(lane, event.at);
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
