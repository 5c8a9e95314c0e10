// The abstract executor: runs the Programs of all ranks together, one move at a time, in the caller's order.
//
// The AbstractExecutor does control: lanes, tiles, repeats, waits, slots and streams. It checks that both ends
// of a message agree about what the message carries. The Domain does data, as in abstract interpretation: the
// verifier's domains keep nothing or a trace, the cost model's keeps time, the tests' keep numbers. A Domain
// provides
//
//   struct Payload;                                  // what a message carries; default-constructible
//   const char* execute(const Move<Payload>& move);  // nullptr, or why the program is wrong (a static text)
//   void waited(const LaneWait& wait);               // a lane has seen a step of another lane finished
//   bool putOff(const Move<Payload>& move);          // optional: the move is possible, but not now
//
// A move happens at once: it needs every message it takes and every slot it fills. So the lanes are a Kahn
// network with bounded channels (G. Kahn, "The semantics of a simple language for parallel programming", 1974).
// Whether such a network ends does not depend on the order of the moves.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "algorithms/verify/move.h"
#include "base/status.h"

namespace eccl::algorithms {

enum class Advance { moved, blocked, putOff, finished, failed };  // moved: or skipped a move of nothing

/// Runs Programs to their end, to a deadlock or to the first broken rule. Not thread-safe; owned by its caller.
template <class Domain>
class AbstractExecutor {
 public:
  using Payload = typename Domain::Payload;

  /// `programs`: one per rank; verifyStructure() must have accepted them. `programs` and `domain` must outlive
  /// the executor, which keeps references to both.
  AbstractExecutor(const std::vector<Program>& programs, Domain& domain, ExecutionSize size)
      : domain_(domain), size_(std::move(size)) {
    connect(programs);
    for (const Program& program : programs) {
      int first = static_cast<int>(lanes_.size());
      for (const Lane& lane : program.lanes) {
        const Step* step = program.steps.data() + lane.firstStep;
        lanes_.push_back({&program, &lane, step, wiresOf_[program.rank].data(), first});
        if (program.streams) lanes_.back().relayed.resize(instances(program, lane));
        if (lane.steps == 0) finish(lanes_.back());
      }
    }
  }

  int lanes() const { return static_cast<int>(lanes_.size()); }
  bool finished() const { return finished_ == lanes(); }
  /// Why advance() returned failed, or "".
  const std::string& failure() const { return failure_; }

  /// Executes the next move of `lane` if it is possible. `lane` counts over all ranks.
  Advance advance(int lane) {
    State& state = lanes_[lane];
    if (!state.finished) {
      if (state.stuck != nullptr && stuck(*state.stuck, state.stuckReceiving)) return Advance::blocked;
      const Step& step = *state.at;
      if (!state.entered) {
        if (step.waitLane != kNoLane && !(step.waitPreviousTile && state.tile == 0)) {
          const LaneWait wait = {lane,
                                 state.tile,
                                 state.step,
                                 state.firstLane + step.waitLane,
                                 step.waitPreviousTile ? state.tile - 1 : state.tile,
                                 step.waitStep};
          if (!over(wait)) return Advance::blocked;
          domain_.waited(wait);
        }
        state.entered = true;
      }
      move_.lane = lane;
      switch (resolve(state, step)) {
        case Readiness::skip:  // progress too: somebody may wait for the step
          next(state, step);
          return Advance::moved;
        case Readiness::blocked:
          return Advance::blocked;
        case Readiness::failed:
          return Advance::failed;
        case Readiness::ready:
          break;
      }
      if constexpr (requires { domain_.putOff(move_); }) {
        if (domain_.putOff(move_)) return Advance::putOff;
      }
      if (const char* wrong = domain_.execute(move_)) {
        failure_ = where(state) + wrong;
        return Advance::failed;
      }
      commit(state, step);
      next(state, step);
      return Advance::moved;
    }
    return Advance::finished;
  }

  /// Advances all lanes in turn until all have finished or none can move. Returns "" or what went wrong. Gives
  /// up after `attempts` calls of advance().
  std::string runFair(int64_t attempts = INT64_MAX) {
    for (bool progress = true; progress && !finished();) {
      progress = false;
      for (int lane = 0; lane < lanes(); ++lane) {
        Advance advanced;
        while ((advanced = advance(lane)) == Advance::moved) progress = true, --attempts;
        if (advanced == Advance::failed) return failure_;
        if (--attempts < 0) {
          gaveUp_ = true;
          return failure_ = "too many steps wait for each other to verify";
        }
      }
    }
    return end();
  }

  /// Advances lanes in random order. Returns "" or what went wrong.
  template <class Random>
  std::string runRandom(Random& random) {
    std::vector<int> able(lanes_.size()), blocked;
    for (int i = 0; i < lanes(); ++i) able[i] = i;
    while (!able.empty()) {
      size_t pick = random() % able.size();
      int lane = able[pick];
      switch (advance(lane)) {
        case Advance::failed:
          return failure_;
        case Advance::moved:  // anybody may have become able
          able.insert(able.end(), blocked.begin(), blocked.end());
          blocked.clear();
          break;
        case Advance::blocked:
        case Advance::putOff:
          blocked.push_back(lane);
          [[fallthrough]];
        case Advance::finished:
          able[pick] = able.back();
          able.pop_back();
          break;
      }
    }
    return end();
  }

  /// No lane can move, and no rule was broken: more slots might help.
  bool deadlocked() const { return failure_.empty() && !finished(); }
  /// runFair() has used up its attempts.
  bool gaveUp() const { return gaveUp_; }

 private:
  /// The slots between two ends, a ring of which `used` are full from `head` on.
  struct Wire {
    std::array<int, 4> name;  // from, to, channel, tag
    size_t first;             // slot, of slots_
    int head = 0, tail = 0, used = 0;
  };
  struct State {
    const Program* program;
    const Lane* lane;
    const Step* at;
    const int* wires;  // by connection index, into wires_
    int firstLane;     // of this rank
    int tile = 0, step = 0, repeat = 0;
    int instance = 0;      // repetitions before this one in the tile
    bool entered = false;  // the current step's wait is over
    bool live = false;     // some stream of this pass goes on in the next tile
    bool finished = false;
    bool stuckReceiving = false;
    bool identified = false;  // the following three are the next move's
    bool memory = false;      // has an operand in memory, which gives the label
    Label label = {};
    Wire* ends[2 * kMaxOperands] = {};  // by operand; null for memory
    const Wire* stuck = nullptr;        // the connection that blocked the last attempt
    std::vector<bool> relayed = {};     // streams: by instance, a relay that has passed on the last message
  };
  enum class Readiness { ready, blocked, skip, failed };

  static size_t instances(const Program& program, const Lane& lane) {
    size_t count = 0;
    for (int s = 0; s < lane.steps; ++s) count += program.steps[lane.firstStep + s].repeat;
    return count;
  }

  void connect(const std::vector<Program>& programs) {
    std::map<std::array<int, 4>, int> known;
    wiresOf_.resize(programs.size());
    for (const Program& program : programs) {
      for (const ConnectionSpec& spec : program.connections) {
        int from = spec.sends ? program.rank : spec.peer, to = spec.sends ? spec.peer : program.rank;
        std::array<int, 4> name = {from, to, spec.channel, spec.tag};
        auto [at, added] = known.try_emplace(name, static_cast<int>(wires_.size()));
        if (added) wires_.push_back({name, wires_.size() * size_.slots});
        wiresOf_[program.rank].push_back(at->second);
      }
    }
    slots_.resize(wires_.size() * size_.slots);
  }

  std::string where(const State& state) const {
    return format("rank %d lane %d step %d repeat %d tile %d: ", state.program->rank,
                  static_cast<int>(state.lane - state.program->lanes.data()), state.step, state.repeat,
                  state.tile);
  }
  Readiness fail(const State& state, const std::string& reason) {
    failure_ = where(state) + reason;
    return Readiness::failed;
  }

  /// Everything that was sent must have been received, or the next call would find it.
  std::string end() {
    if (!finished()) return deadlock();
    for (const Wire& wire : wires_) {
      if (wire.used == 0) continue;
      failure_ = format("connection %d->%d channel %d tag %d: %d message(s) are never received", wire.name[0],
                        wire.name[1], wire.name[2], wire.name[3], wire.used);
      break;
    }
    return failure_;
  }
  std::string deadlock() const {
    std::string text = format("deadlock with %d tile(s) and %d slot(s):", size_.tiles, size_.slots);
    int shown = 0;
    for (const State& state : lanes_) {
      if (!state.finished && shown++ < 4) text.append(" ").append(where(state)).append("blocked;");
    }
    return text;
  }

  bool over(const LaneWait& wait) const {
    const State& other = lanes_[wait.onLane];
    return other.finished || other.tile > wait.onTile ||
           (other.tile == wait.onTile && other.step > wait.onStep);
  }
  bool stuck(const Wire& wire, bool receiving) const { return wire.used == (receiving ? 0 : size_.slots); }

  /// What the operands of the lane's next move are.
  void identify(State& state, const Step& step) {
    state.identified = true;
    state.memory = false;
    const Operand* operands = &state.program->operands[step.firstOperand];
    for (int i = 0; i < step.sources + step.destinations; ++i) {
      const Operand& operand = operands[i];
      const bool connects = operand.space == Space::connection;
      state.ends[i] = connects ? &wires_[state.wires[operand.index.at(state.repeat)]] : nullptr;
      if (connects || state.memory) continue;  // all memory operands are the same parts
      state.memory = true;
      state.label = {operand.index.at(state.repeat), operand.part.at(state.repeat), operand.count};
    }
  }

  /// Fills move_ with the lane's next move.
  Readiness resolve(State& state, const Step& step) {
    if (!state.identified) identify(state, step);
    state.label.tile = state.tile;
    if (!state.memory) {
      if (state.relayed[state.instance]) return Readiness::skip;
    } else if (state.program->streams) {
      const int tiles = size_.streamTiles ? size_.streamTiles(state.label.block) : size_.tiles;
      if (state.tile >= std::max(tiles, 1)) return Readiness::skip;
      state.label.empty = tiles == 0;
      state.label.last = state.tile + 1 >= tiles;
    } else if (size_.empty && allEmpty(state.label)) {
      return Readiness::skip;
    }
    const int total = step.sources + step.destinations;
    for (int i = 0; i < total; ++i) {
      if (state.ends[i] != nullptr && stuck(*state.ends[i], i < step.sources)) {
        state.stuck = state.ends[i];
        state.stuckReceiving = i < step.sources;
        return Readiness::blocked;
      }
    }
    state.stuck = nullptr;
    const Operand* operands = &state.program->operands[step.firstOperand];
    for (int i = 0; i < total; ++i) {
      move_.terms[i] = {&operands[i], nullptr};
      if (const Wire* wire = state.ends[i]) {
        move_.terms[i].message = &slots_[wire->first + (i < step.sources ? wire->head : wire->tail)];
      }
    }
    move_.step = &step;
    if (!state.memory) {  // a relay passes on what comes
      state.label = *move_.terms[0].message;
    }
    static_cast<Label&>(move_) = state.label;
    move_.rank = state.program->rank;
    move_.stepInLane = state.step;
    move_.repeat = state.repeat;
    for (const Term<Payload>& term : move_.sources()) {
      const Message<Payload>* message = term.message;
      if (message == nullptr || static_cast<const Label&>(*message) == state.label) continue;
      return fail(state, format("expects %s but the message is %s", textOf(state.label).c_str(),
                                textOf(*message).c_str()));
    }
    for (const Term<Payload>& term : move_.destinations()) {
      if (term.message != nullptr) static_cast<Label&>(*term.message) = state.label;
    }
    if (!state.label.last) state.live = true;
    return Readiness::ready;
  }

  static std::string textOf(const Label& label) {
    return format("block %d part %d+%d tile %d%s", label.block, label.part, label.count, label.tile,
                  label.empty  ? ", empty"
                  : label.last ? ""
                               : ", not the last");
  }

  bool allEmpty(const Label& label) const {
    for (int j = 0; j < label.count; ++j) {
      if (!size_.empty(label.block, label.part + j, label.tile)) return false;
    }
    return true;
  }

  void commit(State& state, const Step& step) {
    if (!state.memory) state.relayed[state.instance] = state.label.last;
    for (int i = 0; i < step.sources + step.destinations; ++i) {
      if (state.ends[i] == nullptr) continue;
      Wire& wire = *state.ends[i];
      const bool receiving = i < step.sources;
      int& end = receiving ? wire.head : wire.tail;
      if (++end == size_.slots) end = 0;
      wire.used += receiving ? -1 : 1;
    }
  }

  void next(State& state, const Step& step) {
    ++state.instance;
    state.identified = false;
    if (++state.repeat < step.repeat) return;
    state.repeat = 0;
    state.entered = false;
    ++state.at;
    if (++state.step < state.lane->steps) return;
    state.at -= state.lane->steps;
    state.step = 0;
    state.instance = 0;
    ++state.tile;
    bool more = state.program->streams ? state.live : state.tile < size_.tiles;
    state.live = false;
    if (!more) finish(state);
  }
  void finish(State& state) {
    state.finished = true;
    ++finished_;
  }

  Domain& domain_;
  const ExecutionSize size_;
  Move<Payload> move_;  // the one under way
  std::vector<State> lanes_;
  std::vector<Wire> wires_;
  std::vector<Message<Payload>> slots_;
  std::vector<std::vector<int>> wiresOf_;  // rank, connection index → wire
  int finished_ = 0;
  bool gaveUp_ = false;
  std::string failure_;
};

}  // namespace eccl::algorithms
