// All ranks' Programs executed together, one move at a time, in any order the caller likes.
//
// The Machine knows control: lanes, tiles, repeats, waits, slots, streams, and that both ends of a message
// agree about which block it is. What a move does to data is the Domain's business: sets of contributions
// in the verifier, real numbers in the tests' oracle. A Domain provides
//
//   struct Payload;                                        // what a message carries; default-constructible
//   std::string execute(const Move<Payload>& move);        // "" or why the program is wrong
//   void waited(int lane, int onLane, int step, int tile); // `lane` has seen that step of onLane finished
//
// Not thread-safe; belongs to whoever runs it.
#pragma once

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "base/program.h"
#include "base/status.h"

namespace eccl {

template <class Payload>
struct Message {
  int32_t block = 0, part = 0, count = 0, tile = 0;
  bool last = true, empty = false;
  Payload payload;
};

/// One operand of a move, resolved. message is null for memory.
template <class Payload>
struct Term {
  const Operand* operand = nullptr;
  Message<Payload>* message = nullptr;
};

/// One repetition of one step in one tile. All its operands are the same parts of the same block.
template <class Payload>
struct Move {
  int rank = 0, lane = 0, tile = 0;  // lane: global number
  const Step* step = nullptr;
  int stepInLane = 0;
  int32_t block = 0, part = 0, count = 0;
  bool empty = false;  // a stream's block of no elements
  int sources = 0, destinations = 0;
  Term<Payload> source[kMaxOperands], destination[kMaxOperands];
};

/// How long the machine makes things.
struct MachineSize {
  int tiles = 1;
  int slots = 1;
  /// Streams only: tiles of a block, 0 for an empty one.
  std::function<int(int block)> streamTiles;
};

enum class Advance { moved, blocked, finished, failed };

template <class Domain>
class Machine {
 public:
  using Payload = typename Domain::Payload;

  /// `programs`: one per rank, structurally sound (see verify.h). Kept by reference, as is `domain`.
  Machine(const std::vector<Program>& programs, Domain& domain, MachineSize size)
      : programs_(programs), domain_(domain), size_(std::move(size)) {
    for (const Program& program : programs_) {
      firstLane_.push_back(static_cast<int>(lanes_.size()));
      for (const Lane& lane : program.lanes) {
        lanes_.push_back({&program, &lane});
        if (program.streams) lanes_.back().relayed.resize(instances(program, lane), false);
      }
    }
    connect();
  }

  int lanes() const { return static_cast<int>(lanes_.size()); }
  bool finished() const { return finished_ == lanes(); }
  /// Why advance() answered failed.
  const std::string& failure() const { return failure_; }

  /// Executes the next move of a lane, if it can.
  Advance advance(int lane) {
    State& state = lanes_[lane];
    for (;;) {
      if (state.finished) return Advance::finished;
      if (state.lane->steps == 0) {
        finish(state);
        continue;
      }
      const Step& step = state.program->steps[state.lane->firstStep + state.step];
      if (state.repeat == 0 && !state.entered) {
        if (!waitOver(state, step)) return Advance::blocked;
        if (step.waitLane != kNoLane && !(step.waitPreviousTile && state.tile == 0)) {
          domain_.waited(lane, firstLane_[state.program->rank] + step.waitLane, step.waitStep,
                         step.waitPreviousTile ? state.tile - 1 : state.tile);
        }
        state.entered = true;
      }
      Move<Payload>& move = move_;
      switch (resolve(state, lane, step, move)) {
        case Readiness::skip:
          next(state, step);
          continue;
        case Readiness::blocked:
          return Advance::blocked;
        case Readiness::failed:
          return Advance::failed;
        case Readiness::ready:
          break;
      }
      failure_ = domain_.execute(move);
      if (!failure_.empty()) {
        failure_ = where(state) + failure_;
        return Advance::failed;
      }
      commit(state, step, move);
      next(state, step);
      return Advance::moved;
    }
  }

  /// Round-robin until everything has finished. "" or why not.
  std::string runFair() {
    for (bool progress = true; progress && !finished();) {
      progress = false;
      for (int lane = 0; lane < lanes(); ++lane) {
        Advance advanced;
        while ((advanced = advance(lane)) == Advance::moved) progress = true;
        if (advanced == Advance::failed) return failure_;
      }
    }
    return finished() ? "" : deadlock();
  }

  /// A random interleaving. "" or why not.
  template <class Random>
  std::string runRandom(Random& random) {
    std::vector<int> able(lanes_.size());
    for (int i = 0; i < lanes(); ++i) able[i] = i;
    std::vector<int> blocked;
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
          blocked.push_back(lane);
          [[fallthrough]];
        case Advance::finished:
          able[pick] = able.back();
          able.pop_back();
          break;
      }
    }
    return finished() ? "" : deadlock();
  }

  /// Which lane's move a lane of a rank is, for messages.
  std::string deadlock() const {
    std::string text = format("deadlock with %d tile(s) and %d slot(s):", size_.tiles, size_.slots);
    int shown = 0;
    for (const State& state : lanes_) {
      if (!state.finished && shown++ < 4) text += " " + where(state) + "blocked;";
    }
    return text;
  }
  bool deadlocked() const { return failure_.empty() && !finished(); }

 private:
  struct State {
    const Program* program;
    const Lane* lane;
    int tile = 0, step = 0, repeat = 0;
    bool entered = false;  // the current step's wait is over
    bool live = false;     // some stream of this pass goes on in the next tile
    bool finished = false;
    std::vector<bool> relayed = {};  // streams: this instance has passed its last message on
  };
  /// The slots between two ends; sent and received count messages.
  struct Wire {
    std::vector<Message<Payload>> slots;
    int64_t sent = 0, received = 0;
  };
  enum class Readiness { ready, blocked, skip, failed };

  static size_t instances(const Program& program, const Lane& lane) {
    size_t count = 0;
    for (int s = 0; s < lane.steps; ++s) count += program.steps[lane.firstStep + s].repeat;
    return count;
  }

  void connect() {
    std::map<std::array<int, 4>, int> wires;
    wireOf_.resize(programs_.size());
    for (const Program& program : programs_) {
      for (const ConnectionSpec& spec : program.connections) {
        int from = spec.sends ? program.rank : spec.peer, to = spec.sends ? spec.peer : program.rank;
        auto [at, added] =
            wires.try_emplace({from, to, spec.channel, spec.tag}, static_cast<int>(wires_.size()));
        if (added) wires_.push_back({std::vector<Message<Payload>>(size_.slots)});
        wireOf_[program.rank].push_back(at->second);
      }
    }
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

  bool waitOver(const State& state, const Step& step) const {
    if (step.waitLane == kNoLane || (step.waitPreviousTile && state.tile == 0)) return true;
    const State& other = lanes_[firstLane_[state.program->rank] + step.waitLane];
    int tile = step.waitPreviousTile ? state.tile - 1 : state.tile;
    return other.finished || other.tile > tile || (other.tile == tile && other.step > step.waitStep);
  }

  int instance(const State& state) const {
    int at = state.repeat;
    for (int s = 0; s < state.step; ++s) at += state.program->steps[state.lane->firstStep + s].repeat;
    return at;
  }

  Readiness resolve(State& state, int laneNumber, const Step& step, Move<Payload>& move) {
    const Program& program = *state.program;
    move.rank = program.rank;
    move.lane = laneNumber;
    move.tile = state.tile;
    move.step = &step;
    move.stepInLane = state.step;
    move.sources = step.sources;
    move.destinations = step.destinations;
    move.empty = false;
    if (program.streams && state.relayed[instance(state)]) return Readiness::skip;
    bool identified = false;
    int total = step.sources + step.destinations;
    for (int i = 0; i < total; ++i) {
      const Operand& operand = program.operands[step.firstOperand + i];
      (i < step.sources ? move.source[i] : move.destination[i - step.sources]) = {&operand, nullptr};
      if (operand.space == Space::connection) continue;
      int block = operand.index.at(state.repeat), part = operand.part.at(state.repeat);
      if (program.map(operand.space).position(block) < 0)
        return fail(state, format("block %d is not in the buffer", block));
      if (part < 0 || part + operand.count > program.parts)
        return fail(state, format("part %d is out of range", part));
      if (identified && (block != move.block || part != move.part || operand.count != move.count)) {
        return fail(state, "operands of one step are different parts");
      }
      identified = true;
      move.block = block;
      move.part = part;
      move.count = operand.count;
    }
    if (!identified && !program.streams) return fail(state, "no operand says which parts the step moves");
    bool last = true;
    if (program.streams && identified) {
      int tiles = size_.streamTiles(move.block);
      if (state.tile >= std::max(1, tiles)) return Readiness::skip;
      move.empty = tiles == 0;
      last = state.tile + 1 >= tiles;
      if (!last) state.live = true;
    }
    for (int i = 0; i < total; ++i) {
      bool isSource = i < step.sources;
      auto& term = isSource ? move.source[i] : move.destination[i - step.sources];
      if (term.operand->space != Space::connection) continue;
      int index = term.operand->index.at(state.repeat);
      if (index < 0 || index >= static_cast<int>(program.connections.size())) {
        return fail(state, format("connection %d does not exist", index));
      }
      if (program.connections[index].sends == isSource)
        return fail(state, "connection used against its direction");
      for (int j = 0; j < i; ++j) {
        const auto& other = j < step.sources ? move.source[j] : move.destination[j - step.sources];
        if (other.operand->space == Space::connection && other.operand->index.at(state.repeat) == index) {
          return fail(state, "one step uses a connection twice");
        }
      }
      Wire& wire = wires_[wireOf_[program.rank][index]];
      if (isSource ? wire.received == wire.sent : wire.sent - wire.received == size_.slots)
        return Readiness::blocked;
      term.message = &wire.slots[(isSource ? wire.received : wire.sent) % size_.slots];
      if (!isSource) continue;
      if (!identified) {
        identified = true;
        move.block = term.message->block;
        move.part = term.message->part;
        move.count = term.message->count;
        move.empty = term.message->empty;
        last = term.message->last;
      } else if (term.message->block != move.block || term.message->part != move.part ||
                 term.message->count != move.count || term.message->tile != move.tile ||
                 term.message->last != last || term.message->empty != move.empty) {
        return fail(
            state, format("expects block %d part %d+%d but the message is block %d part %d+%d", move.block,
                          move.part, move.count, term.message->block, term.message->part, term.message->count));
      }
    }
    if (!identified) return fail(state, "no operand says which parts the step moves");
    for (int i = 0; i < step.destinations; ++i) {
      Message<Payload>* message = move.destination[i].message;
      if (message == nullptr) continue;
      message->block = move.block;
      message->part = move.part;
      message->count = move.count;
      message->tile = move.tile;
      message->last = last;
      message->empty = move.empty;
    }
    if (program.streams) {
      bool memory = false;
      for (int i = 0; i < total; ++i)
        memory |= program.operands[step.firstOperand + i].space != Space::connection;
      if (!memory) {
        if (last)
          state.relayed[instance(state)] = true;
        else
          state.live = true;
      }
    }
    return Readiness::ready;
  }

  void commit(const State& state, const Step& step, const Move<Payload>& move) {
    const Program& program = *state.program;
    for (int i = 0; i < step.sources; ++i) {
      if (move.source[i].message != nullptr)
        ++wires_[wireOf_[program.rank][move.source[i].operand->index.at(state.repeat)]].received;
    }
    for (int i = 0; i < step.destinations; ++i) {
      if (move.destination[i].message != nullptr)
        ++wires_[wireOf_[program.rank][move.destination[i].operand->index.at(state.repeat)]].sent;
    }
  }

  void next(State& state, const Step& step) {
    if (++state.repeat < step.repeat) return;
    state.repeat = 0;
    state.entered = false;
    if (++state.step < state.lane->steps) return;
    state.step = 0;
    ++state.tile;
    bool more = state.program->streams ? state.live : state.tile < size_.tiles;
    state.live = false;
    if (!more) finish(state);
  }
  void finish(State& state) {
    state.finished = true;
    ++finished_;
  }

  const std::vector<Program>& programs_;
  Domain& domain_;
  MachineSize size_;
  Move<Payload> move_;  // the one under way
  std::vector<State> lanes_;
  std::vector<int> firstLane_;  // of each rank
  std::vector<Wire> wires_;
  std::vector<std::vector<int>> wireOf_;  // rank, connection index → wire
  int finished_ = 0;
  std::string failure_;
};

}  // namespace eccl
