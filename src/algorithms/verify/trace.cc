// Recording a run: compact moves, and for each lane what its waits told it, which is stored only where it
// changes.
#include "algorithms/verify/trace.h"

#include <algorithm>

#include "base/status.h"

namespace eccl::algorithms {

Trace::Trace(const std::vector<Program>& programs, int64_t most) : parts_(programs[0].parts), left_(most) {
  for (const Program& program : programs) {
    int first = static_cast<int>(lanes_.size()), number = static_cast<int>(program.lanes.size());
    for (const Lane& lane : program.lanes) {
      lanes_.push_back({program.rank, first, number, lane.steps, program.steps.data() + lane.firstStep});
    }
  }
}

/// Only who moved, what was moved and which moves it came from are kept: what it means for data is worked out
/// piece by piece afterwards, when each piece's few moves are together in the cache.
const char* Trace::execute(const Move<Payload>& move) {
  left_ -= move.count;
  if (full()) return "too many moves to verify";
  const LaneOf& lane = lanes_[move.lane];
  moves_.push_back({move.lane, move.tile * lane.steps + move.stepInLane, move.repeat,
                    move.block * parts_ + move.part, move.count, static_cast<int32_t>(arrivals_.size()),
                    static_cast<int32_t>(lane.knowledge.size()) - 1});
  for (const auto& source : move.sources()) {
    if (source.message != nullptr) arrivals_.push_back(source.message->payload.sender);
  }
  for (const auto& destination : move.destinations()) {
    if (destination.message != nullptr) {
      destination.message->payload.sender = static_cast<int32_t>(moves_.size()) - 1;
    }
  }
  return nullptr;
}

/// A wait makes known the step waited for and, with it, all that its lane had learned by waiting until then. A
/// lane's knowledge only grows, so one entry per wait describes it.
void Trace::waited(const LaneWait& wait) {
  LaneOf& lane = lanes_[wait.lane];
  LaneOf& other = lanes_[wait.onLane];
  left_ -= lane.lanesOfRank;
  if (full()) return;  // the next move says so
  std::vector<int32_t> finished(lane.lanesOfRank, -1);
  if (!lane.knowledge.empty()) finished = lane.knowledge.back().finished;
  const int32_t place = wait.onTile * other.steps + wait.onStep;
  // What the other lane knew when it finished there: it may be further by now.
  for (size_t k = other.knowledge.size(); k-- > 0;) {
    if (other.knowledge[k].place > place) continue;
    for (size_t i = 0; i < finished.size(); ++i) {
      finished[i] = std::max(finished[i], other.knowledge[k].finished[i]);
    }
    break;
  }
  int32_t& known = finished[wait.onLane - lane.firstOfRank];
  known = std::max(known, place);
  lane.knowledge.push_back({wait.tile * lane.steps + wait.step, std::move(finished)});
}

std::span<const int32_t> Trace::finished(const TracedMove& move) const {
  if (move.known < 0) return {};
  return lanes_[move.lane].knowledge[move.known].finished;
}

std::string Trace::where(const TracedMove& move) const {
  const LaneOf& lane = lanes_[move.lane];
  return format("rank %d lane %d step %d repeat %d tile %d", lane.rank, move.lane - lane.firstOfRank,
                move.place % lane.steps, move.repeat, tile(move));
}

// A counting sort: pieces are small numbers, and the order of execution within a piece stays as it was.
Trace::ByPiece::ByPiece(const Trace& trace, int32_t pieces) : begin_(static_cast<size_t>(pieces) + 1, 0) {
  for (const TracedMove& move : trace.moves()) {
    for (int32_t j = 0; j < move.count; ++j) ++begin_[move.piece + j + 1];
  }
  for (int32_t piece = 0; piece < pieces; ++piece) begin_[piece + 1] += begin_[piece];
  moves_.resize(begin_[pieces]);
  std::vector<int32_t> free(begin_.begin(), begin_.end() - 1);
  for (size_t i = 0; i < trace.moves().size(); ++i) {
    const TracedMove& move = trace.moves()[i];
    for (int32_t j = 0; j < move.count; ++j) moves_[free[move.piece + j]++] = static_cast<int32_t>(i);
  }
}

}  // namespace eccl::algorithms
