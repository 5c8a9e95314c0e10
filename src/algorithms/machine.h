// All ranks' Programs executed together, one move at a time, in any order the caller likes.
//
// The Machine knows control: lanes, tiles, repeats, waits, slots, streams, and that both ends of a message
// agree about what it carries. What a move does to data is the Domain's business: nothing or a record of it
// in the verifier, numbers in the tests' oracles. A Domain provides
//
//   struct Payload;                                  // what a message carries; default-constructible
//   const char* execute(const Move<Payload>& move);  // nullptr, or why the program is wrong (a static text)
//   void waited(const Wait& wait);                   // a lane has seen a step of another one finished
//
// A move happens at once: it needs every message it takes and every slot it fills. So lanes are a Kahn network
// with bounded channels (G. Kahn, "The semantics of a simple language for parallel programming", 1974), and
// whether it comes to an end does not depend on the order.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "algorithms/move.h"
#include "base/status.h"

namespace eccl {

enum class Advance { moved, blocked, finished, failed };

/// Not thread-safe; belongs to whoever runs it.
template <class Domain>
class Machine {
 public:
  using Payload = typename Domain::Payload;

  /// `programs`: one per rank, and verifyStructure() has found nothing wrong with them. Kept by reference, as
  /// is `domain`.
  Machine(const std::vector<Program>& programs, Domain& domain, MachineSize size)
      : domain_(domain), size_(std::move(size)) {
    connect(programs);
    for (const Program& program : programs) {
      int first = static_cast<int>(lanes_.size());
      for (const Lane& lane : program.lanes) {
        const Step* step = program.steps.data() + lane.firstStep;
        lanes_.push_back({&program, &lane, step, wiresOf_[program.rank].data(), first});
        if (program.streams) lanes_.back().relays.resize(instances(program, lane));
        if (lane.steps == 0) finish(lanes_.back());
      }
    }
  }

  int lanes() const { return static_cast<int>(lanes_.size()); }
  bool finished() const { return finished_ == lanes(); }
  /// Why advance() answered failed.
  const std::string& failure() const { return failure_; }

  /// Executes the next move of a lane, if it can.
  Advance advance(int lane) {
    State& state = lanes_[lane];
    while (!state.finished) {
      if (state.stuck != nullptr && stuck(*state.stuck, state.stuckReceiving)) return Advance::blocked;
      const Step& step = *state.at;
      if (!state.entered) {
        if (step.waitLane != kNoLane && !(step.waitPreviousTile && state.tile == 0)) {
          const Wait wait = {lane,
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

  /// Round-robin until everything has finished or nothing moves. "" or why it went wrong. After `attempts`
  /// calls of advance() it gives up.
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

  /// A random interleaving. "" or why it went wrong.
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

  /// Nothing can move, and no rule was broken: more slots might help.
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
  /// What a relay has seen of the stream that passes through one repetition of one step.
  struct Relay {
    int32_t block = -1, part = 0, count = 0;
    bool done = false;
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
    bool identified = false;  // of the next move: a memory operand (the others are the same parts) or null
    const Operand* memory = nullptr;
    int32_t block = 0, part = 0;
    const Wire* stuck = nullptr;     // the connection that blocked the last attempt
    std::vector<Relay> relays = {};  // by instance; streams only
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

  bool over(const Wait& wait) const {
    const State& other = lanes_[wait.onLane];
    return other.finished || other.tile > wait.onTile ||
           (other.tile == wait.onTile && other.step > wait.onStep);
  }
  bool stuck(const Wire& wire, bool receiving) const { return wire.used == (receiving ? 0 : size_.slots); }

  /// What the memory operands of the next move say.
  static void identify(State& state, const Operand* operands, int total) {
    state.identified = true;
    state.memory = std::find_if(operands, operands + total,
                                [](const Operand& operand) { return operand.space != Space::connection; });
    if (state.memory == operands + total) {
      state.memory = nullptr;
      return;
    }
    state.block = state.memory->index.at(state.repeat);
    state.part = state.memory->part.at(state.repeat);
  }

  /// Fills move_ with the lane's next move.
  Readiness resolve(State& state, const Step& step) {
    const Program& program = *state.program;
    move_.rank = program.rank;
    move_.tile = state.tile;
    move_.stepInLane = state.step;
    move_.repeat = state.repeat;
    move_.step = &step;
    move_.empty = false;
    const Operand* operands = &program.operands[step.firstOperand];
    const int total = step.sources + step.destinations;
    for (int i = 0; i < total; ++i) move_.terms[i] = {&operands[i], nullptr};
    if (!state.identified) identify(state, operands, total);
    bool last = true;
    if (state.memory != nullptr) {
      move_.block = state.block;
      move_.part = state.part;
      move_.count = state.memory->count;
      if (program.streams) {
        int tiles = size_.streamTiles ? size_.streamTiles(move_.block) : size_.tiles;
        if (state.tile >= (tiles > 0 ? tiles : 1)) return Readiness::skip;
        move_.empty = tiles == 0;
        last = state.tile + 1 >= tiles;
      } else if (size_.empty && allEmpty()) {
        return Readiness::skip;
      }
    } else if (state.relays[state.instance].done) {
      return Readiness::skip;
    }

    for (int i = 0; i < total; ++i) {
      if (operands[i].space != Space::connection) continue;
      Wire& wire = wires_[state.wires[operands[i].index.at(state.repeat)]];
      const bool receiving = i < step.sources;
      if (stuck(wire, receiving)) {
        state.stuck = &wire;
        state.stuckReceiving = receiving;
        return Readiness::blocked;
      }
      move_.terms[i].message = &slots_[wire.first + (receiving ? wire.head : wire.tail)];
    }
    state.stuck = nullptr;
    if (state.memory == nullptr) {
      const Message<Payload>& message = *move_.terms[0].message;
      last = message.last;
      if (const char* wrong = relay(state, message)) return fail(state, wrong);
    } else if (const Message<Payload>* other = mismatch(last)) {
      return fail(state,
                  format("expects block %d part %d+%d tile %d but the message is block %d part %d+%d tile %d",
                         move_.block, move_.part, move_.count, move_.tile, other->block, other->part,
                         other->count, other->tile));
    }
    if (!last) state.live = true;
    for (const Term<Payload>& term : move_.destinations()) {
      if (term.message == nullptr) continue;
      term.message->block = move_.block;
      term.message->part = move_.part;
      term.message->count = move_.count;
      term.message->tile = move_.tile;
      term.message->last = last;
      term.message->empty = move_.empty;
    }
    return Readiness::ready;
  }

  bool allEmpty() const {
    for (int j = 0; j < move_.count; ++j) {
      if (!size_.empty(move_.block, move_.part + j, move_.tile)) return false;
    }
    return true;
  }

  /// The first message among the sources that is not what the memory operands say; nullptr if all are.
  const Message<Payload>* mismatch(bool last) const {
    for (const Term<Payload>& term : move_.sources()) {
      const Message<Payload>* message = term.message;
      if (message != nullptr &&
          (message->block != move_.block || message->part != move_.part || message->count != move_.count ||
           message->tile != move_.tile || message->last != last || message->empty != move_.empty)) {
        return message;
      }
    }
    return nullptr;
  }

  /// A step without memory passes on what comes, but always of one stream: else whether two ranks agree about
  /// which tiles there are would depend on the lengths.
  const char* relay(State& state, const Message<Payload>& message) {
    Relay& seen = state.relays[state.instance];
    if (seen.block < 0) seen = {message.block, message.part, message.count, false};
    if (seen.block != message.block || seen.part != message.part || seen.count != message.count) {
      return "relays another block than in the tile before";
    }
    if (message.tile != state.tile) return "relays a message of another tile";
    seen.done = message.last;
    move_.block = message.block;
    move_.part = message.part;
    move_.count = message.count;
    move_.empty = message.empty;
    return nullptr;
  }

  void commit(const State& state, const Step& step) {
    for (int i = 0; i < step.sources + step.destinations; ++i) {
      const Term<Payload>& term = move_.terms[i];
      if (term.message == nullptr) continue;
      Wire& wire = wires_[state.wires[term.operand->index.at(state.repeat)]];
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
  const MachineSize size_;
  Move<Payload> move_;  // the one under way
  std::vector<State> lanes_;
  std::vector<Wire> wires_;
  std::vector<Message<Payload>> slots_;
  std::vector<std::vector<int>> wiresOf_;  // rank, connection index → wire
  int finished_ = 0;
  bool gaveUp_ = false;
  std::string failure_;
};

}  // namespace eccl
