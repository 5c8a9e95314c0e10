// Small mistakes put into schedules at random, as somebody who writes an algorithm could make them.
#pragma once

#include <algorithm>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "base/status.h"
#include "program/program.h"

namespace eccl::test {

/// A Program whose steps own their operands, for editing.
struct Draft {
  struct Move {
    Step step;
    std::vector<Operand> sources, destinations;
  };
  struct LaneOf {
    int32_t channel = 0;
    std::vector<Move> steps;
  };
  Program head;  // all but the lanes
  std::vector<LaneOf> lanes;

  explicit Draft(const Program& program) : head(program) {
    for (const Lane& lane : program.lanes) {
      lanes.push_back({lane.channel, {}});
      for (int s = lane.firstStep; s < lane.firstStep + lane.steps; ++s) {
        const Step& step = program.steps[s];
        const Operand* operands = program.operands.data() + step.firstOperand;
        lanes.back().steps.push_back({step,
                                      {operands, operands + step.sources},
                                      {operands + step.sources, operands + step.sources + step.destinations}});
      }
    }
  }
  Program program() const {
    Program made = head;
    made.lanes.clear();
    made.steps.clear();
    made.operands.clear();
    for (const LaneOf& lane : lanes) {
      made.lanes.push_back(
          {static_cast<int32_t>(made.steps.size()), static_cast<int32_t>(lane.steps.size()), lane.channel});
      for (const Move& move : lane.steps) {
        Step step = move.step;
        step.firstOperand = static_cast<int32_t>(made.operands.size());
        step.sources = static_cast<uint8_t>(move.sources.size());
        step.destinations = static_cast<uint8_t>(move.destinations.size());
        made.operands.insert(made.operands.end(), move.sources.begin(), move.sources.end());
        made.operands.insert(made.operands.end(), move.destinations.begin(), move.destinations.end());
        made.steps.push_back(step);
      }
    }
    return made;
  }
};

/// Makes mistakes. Each is drawn once and made either in one rank's program or, where it fits, in all of them:
/// the latter keep both ends of a connection consistent and get much further.
class Mutator {
 public:
  explicit Mutator(uint64_t seed) : random_(seed) {}

  /// Changes the programs; returns what was done. They are never the same as before.
  std::string mutate(std::vector<Program>& programs) {
    const std::vector<Program> before = programs;
    std::string done;
    while (programs == before) {
      programs = before;
      done.clear();
      for (size_t mistakes = 1 + (below(4) == 0); mistakes > 0; --mistakes) done += mistake(programs);
    }
    return done;
  }

 private:
  /// Where a mistake is made; numbers are taken modulo what there is.
  struct Place {
    size_t lane, step, operand, other;
    int amount;
  };
  using Change = void (*)(Draft&, const Place&);
  struct Kind {
    const char* name;
    Change change;
  };

  size_t below(size_t limit) { return random_() % limit; }

  std::string mistake(std::vector<Program>& programs) {
    const std::vector<Kind>& kinds = allKinds();
    const Kind& kind = kinds[below(kinds.size())];
    static constexpr int kAmounts[] = {1, -1, 2};
    const Place place = {below(64), below(64), below(64), below(64), kAmounts[below(3)]};
    const size_t only = below(2) == 0 ? below(programs.size()) : programs.size();
    for (size_t rank = 0; rank < programs.size(); ++rank) {
      if (only < programs.size() && rank != only) continue;
      Draft draft(programs[rank]);
      if (!draft.lanes.empty()) kind.change(draft, place);
      programs[rank] = draft.program();
    }
    const std::string where = only < programs.size() ? format("rank %zu", only) : "all ranks";
    return format("%s: %s at %zu.%zu.%zu, %zu by %d; ", where.c_str(), kind.name, place.lane, place.step,
                  place.operand, place.other, place.amount);
  }

  static Draft::LaneOf& lane(Draft& draft, const Place& at) {
    return draft.lanes[at.lane % draft.lanes.size()];
  }
  /// nullptr if the lane has no steps.
  static Draft::Move* step(Draft& draft, const Place& at) {
    auto& steps = lane(draft, at).steps;
    return steps.empty() ? nullptr : &steps[at.step % steps.size()];
  }
  static Operand* operand(Draft& draft, const Place& at, bool memory, bool connection) {
    Draft::Move* move = step(draft, at);
    std::vector<Operand*> fitting;
    if (move == nullptr) return nullptr;
    for (auto* side : {&move->sources, &move->destinations}) {
      for (Operand& found : *side) {
        if (found.space == Space::connection ? connection : memory) fitting.push_back(&found);
      }
    }
    return fitting.empty() ? nullptr : fitting[at.operand % fitting.size()];
  }
  static void change(int32_t& field, const Place& at) { field += at.amount; }

  static const std::vector<Kind>& allKinds() {
    static const std::vector<Kind> kinds = [] {
      std::vector<Kind> all;
      addStepKinds(all);
      addOperandKinds(all);
      addWaitKinds(all);
      addConnectionKinds(all);
      return all;
    }();
    return kinds;
  }

  static void addStepKinds(std::vector<Kind>& all) {
    all.push_back({"drop a step", [](Draft& draft, const Place& at) {
                     auto& steps = lane(draft, at).steps;
                     if (!steps.empty()) steps.erase(steps.begin() + static_cast<long>(at.step % steps.size()));
                   }});
    all.push_back({"swap two steps", [](Draft& draft, const Place& at) {
                     auto& steps = lane(draft, at).steps;
                     if (steps.size() < 2) return;
                     const size_t first = at.step % (steps.size() - 1);
                     std::swap(steps[first], steps[first + 1]);
                   }});
    all.push_back({"duplicate a step", [](Draft& draft, const Place& at) {
                     auto& steps = lane(draft, at).steps;
                     if (steps.empty()) return;
                     const size_t from = at.step % steps.size();
                     const Draft::Move copy = steps[from];
                     steps.insert(steps.begin() + static_cast<long>(from), copy);
                   }});
    all.push_back({"put the rest of a lane into a lane of its own", [](Draft& draft, const Place& at) {
                     auto& steps = lane(draft, at).steps;
                     if (steps.size() < 2) return;
                     const long from = 1 + static_cast<long>(at.step % (steps.size() - 1));
                     Draft::LaneOf rest = {lane(draft, at).channel, {steps.begin() + from, steps.end()}};
                     steps.resize(static_cast<size_t>(from));
                     draft.lanes.push_back(rest);
                   }});
    all.push_back({"append a lane to another", [](Draft& draft, const Place& at) {
                     const size_t to = at.lane % draft.lanes.size(), from = at.other % draft.lanes.size();
                     if (to == from) return;
                     auto& steps = draft.lanes[from].steps;
                     draft.lanes[to].steps.insert(draft.lanes[to].steps.end(), steps.begin(), steps.end());
                     steps.clear();
                   }});
    all.push_back({"change the repeat", [](Draft& draft, const Place& at) {
                     if (auto* found = step(draft, at)) change(found->step.repeat, at);
                   }});
    all.push_back({"flip post", [](Draft& draft, const Place& at) {
                     if (auto* found = step(draft, at)) found->step.post = !found->step.post;
                   }});
    all.push_back({"swap two sources", [](Draft& draft, const Place& at) {
                     auto* found = step(draft, at);
                     if (found == nullptr || found->sources.size() < 2) return;
                     std::swap(found->sources[at.operand % found->sources.size()],
                               found->sources[at.other % found->sources.size()]);
                   }});
    all.push_back({"swap a source and a destination", [](Draft& draft, const Place& at) {
                     auto* found = step(draft, at);
                     if (found == nullptr || found->sources.empty() || found->destinations.empty()) return;
                     std::swap(found->sources[at.operand % found->sources.size()],
                               found->destinations[at.other % found->destinations.size()]);
                   }});
    all.push_back({"swap two destinations", [](Draft& draft, const Place& at) {
                     auto* found = step(draft, at);
                     if (found == nullptr || found->destinations.size() < 2) return;
                     std::swap(found->destinations[at.operand % found->destinations.size()],
                               found->destinations[at.other % found->destinations.size()]);
                   }});
  }

  static void addOperandKinds(std::vector<Kind>& all) {
    all.push_back({"drop a source", [](Draft& draft, const Place& at) {
                     auto* found = step(draft, at);
                     if (found == nullptr || found->sources.empty()) return;
                     found->sources.erase(found->sources.begin() +
                                          static_cast<long>(at.operand % found->sources.size()));
                   }});
    all.push_back({"drop a destination", [](Draft& draft, const Place& at) {
                     auto* found = step(draft, at);
                     if (found == nullptr || found->destinations.empty()) return;
                     found->destinations.erase(found->destinations.begin() +
                                               static_cast<long>(at.operand % found->destinations.size()));
                   }});
    all.push_back({"add the output as a destination", [](Draft& draft, const Place& at) {
                     auto* found = step(draft, at);
                     const Operand* like = operand(draft, at, true, false);
                     if (found == nullptr || like == nullptr) return;
                     Operand added = *like;
                     added.space = Space::output;
                     added.pre = added.stable = added.posted = false;
                     found->destinations.push_back(added);
                   }});
    all.push_back({"mis-stride a walk over parts", [](Draft& draft, const Place& at) {
                     if (auto* found = operand(draft, at, true, false)) change(found->part.stride, at);
                   }});
    all.push_back({"begin a walk over parts elsewhere", [](Draft& draft, const Place& at) {
                     if (auto* found = operand(draft, at, true, false)) change(found->part.start, at);
                   }});
    all.push_back({"wrap a walk over parts elsewhere", [](Draft& draft, const Place& at) {
                     if (auto* found = operand(draft, at, true, false)) change(found->part.wrap, at);
                   }});
    all.push_back({"mis-stride a walk over blocks", [](Draft& draft, const Place& at) {
                     if (auto* found = operand(draft, at, true, false)) change(found->index.stride, at);
                   }});
    all.push_back({"change a block", [](Draft& draft, const Place& at) {
                     if (auto* found = operand(draft, at, true, false)) change(found->index.base, at);
                   }});
    // The same change to all operands of a step keeps them the same parts, as they must be.
    all.push_back({"shift a step's parts", [](Draft& draft, const Place& at) {
                     eachMemory(draft, at, [&](Operand& found) { change(found.part.base, at); });
                   }});
    all.push_back({"mis-stride a step's parts", [](Draft& draft, const Place& at) {
                     eachMemory(draft, at, [&](Operand& found) { change(found.part.stride, at); });
                   }});
    all.push_back({"shift a step's blocks", [](Draft& draft, const Place& at) {
                     eachMemory(draft, at, [&](Operand& found) { change(found.index.start, at); });
                   }});
    all.push_back({"change a step's count", [](Draft& draft, const Place& at) {
                     eachMemory(draft, at, [&](Operand& found) { change(found.count, at); });
                   }});
    all.push_back({"change a count", [](Draft& draft, const Place& at) {
                     if (auto* found = operand(draft, at, true, false)) change(found->count, at);
                   }});
    all.push_back({"flip pre", [](Draft& draft, const Place& at) {
                     if (auto* found = operand(draft, at, true, false)) found->pre = !found->pre;
                   }});
    all.push_back({"flip stable", [](Draft& draft, const Place& at) {
                     auto* found = step(draft, at);
                     if (found != nullptr && !found->sources.empty()) {
                       found->sources[0].stable = !found->sources[0].stable;
                     }
                   }});
    all.push_back({"flip posted", [](Draft& draft, const Place& at) {
                     auto* found = step(draft, at);
                     if (found != nullptr && !found->destinations.empty()) {
                       found->destinations[0].posted = !found->destinations[0].posted;
                     }
                   }});
    all.push_back({"flip pushed", [](Draft& draft, const Place& at) {
                     if (auto* found = operand(draft, at, false, true)) found->pushed = !found->pushed;
                   }});
    all.push_back({"flip placed", [](Draft& draft, const Place& at) {
                     if (auto* found = operand(draft, at, false, true)) found->placed = !found->placed;
                   }});
    all.push_back({"claim everything posted", [](Draft& draft, const Place&) {
                     for (auto& of : draft.lanes) {
                       for (auto& move : of.steps) {
                         if (move.sources.size() == 1 && move.sources[0].space == Space::connection &&
                             !move.destinations.empty() && !move.step.post && !draft.head.streams) {
                           move.destinations[0].posted = move.destinations[0].space != Space::connection;
                         }
                       }
                     }
                   }});
    all.push_back({"claim everything stable", [](Draft& draft, const Place&) {
                     for (auto& of : draft.lanes) {
                       for (auto& move : of.steps) {
                         if (move.sources.size() == 1 && move.sources[0].space != Space::connection) {
                           move.sources[0].stable = !move.step.post;
                         }
                       }
                     }
                   }});
    all.push_back({"take another buffer", [](Draft& draft, const Place& at) {
                     auto* found = operand(draft, at, true, false);
                     if (found == nullptr) return;
                     found->space = static_cast<Space>((static_cast<int>(found->space) + 1 + at.other % 2) %
                                                       kMemorySpaces);
                     if (found->space != Space::input) found->pre = false;
                   }});
    all.push_back({"put scratch in place of the output", [](Draft& draft, const Place& at) {
                     if (draft.head.map(Space::output).number == 0) return;
                     draft.head.map(Space::scratch) = draft.head.map(Space::output);
                     eachMemory(draft, at, [](Operand& found) {
                       if (found.space == Space::output) found.space = Space::scratch;
                     });
                   }});
  }

  static void addWaitKinds(std::vector<Kind>& all) {
    all.push_back({"remove a wait", [](Draft& draft, const Place& at) {
                     std::vector<Step*> waiting;
                     for (auto& of : draft.lanes) {
                       for (auto& move : of.steps) {
                         if (move.step.waitLane != kNoLane) waiting.push_back(&move.step);
                       }
                     }
                     if (waiting.empty()) return;
                     Step& step = *waiting[at.step % waiting.size()];
                     step.waitLane = kNoLane;
                     step.waitStep = 0;
                     step.waitPreviousTile = false;
                   }});
    all.push_back({"wait for something", [](Draft& draft, const Place& at) {
                     auto* found = step(draft, at);
                     const auto& other = draft.lanes[at.other % draft.lanes.size()];
                     if (found == nullptr || other.steps.empty() || draft.head.streams) return;
                     found->step.waitLane = static_cast<int32_t>(at.other % draft.lanes.size());
                     found->step.waitStep = static_cast<int32_t>(at.operand % other.steps.size());
                     found->step.waitPreviousTile = at.amount == 2;
                   }});
    all.push_back({"wait for another step", [](Draft& draft, const Place& at) {
                     auto* found = step(draft, at);
                     if (found != nullptr && found->step.waitLane != kNoLane) change(found->step.waitStep, at);
                   }});
    all.push_back({"wait for another tile", [](Draft& draft, const Place& at) {
                     auto* found = step(draft, at);
                     if (found != nullptr && found->step.waitLane != kNoLane) {
                       found->step.waitPreviousTile = !found->step.waitPreviousTile;
                     }
                   }});
  }

  static void addConnectionKinds(std::vector<Kind>& all) {
    all.push_back({"re-aim a connection", [](Draft& draft, const Place& at) {
                     auto& specs = draft.head.connections;
                     if (specs.empty()) return;
                     ConnectionSpec& spec = specs[at.operand % specs.size()];
                     spec.peer = (spec.peer + at.amount + draft.head.ranks) % draft.head.ranks;
                   }});
    all.push_back({"swap two connections", [](Draft& draft, const Place& at) {
                     auto& specs = draft.head.connections;
                     if (!specs.empty())
                       std::swap(specs[at.operand % specs.size()], specs[at.other % specs.size()]);
                   }});
    all.push_back({"turn a connection", [](Draft& draft, const Place& at) {
                     auto& specs = draft.head.connections;
                     if (!specs.empty()) specs[at.operand % specs.size()].sends ^= true;
                   }});
    all.push_back({"move a connection to another tag", [](Draft& draft, const Place& at) {
                     auto& specs = draft.head.connections;
                     if (!specs.empty()) specs[at.operand % specs.size()].tag += 1;
                   }});
    all.push_back({"use another connection", [](Draft& draft, const Place& at) {
                     if (auto* found = operand(draft, at, false, true)) change(found->index.base, at);
                   }});
    all.push_back({"mis-stride a walk over connections", [](Draft& draft, const Place& at) {
                     if (auto* found = operand(draft, at, false, true)) change(found->index.stride, at);
                   }});
  }

  static void eachMemory(Draft& draft, const Place& at, const std::function<void(Operand&)>& change) {
    Draft::Move* move = step(draft, at);
    if (move == nullptr) return;
    for (auto* side : {&move->sources, &move->destinations}) {
      for (Operand& found : *side) {
        if (found.space != Space::connection) change(found);
      }
    }
  }

  std::mt19937_64 random_;
};

}  // namespace eccl::test
