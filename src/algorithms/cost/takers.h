// How receivers take messages, which senders have to know to deliver them: part of the simulation.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <vector>

#include "program/delivery.h"
#include "program/program.h"

namespace eccl::algorithms::simulation {

/// Whether some operand of a step is in scratch.
inline bool usesScratch(const Program& program, const Step& step) {
  const auto first = program.operands.begin() + step.firstOperand;
  return std::any_of(first, first + step.sources + step.destinations,
                     [](const Operand& operand) { return operand.space == Space::scratch; });
}

/// The move that takes a message.
struct Taker {
  Incoming message;      // but for its length, and whether it is whole
  bool scratch = false;  // see usesScratch()
  bool answers = false;  // its rank sends to the message's, too, by the same channel and tag: see ExchangeAreas
};

/// The moves that take the messages of a tile, by the operand that sends them. Constant; keeps nothing of the
/// programs. For a message that nobody takes it is a Taker that offers no memory.
class Takers {
 public:
  /// `programs`: one per rank, in order, that verifyStructure() accepts.
  explicit Takers(const std::vector<Program>& programs) {
    // Both ends of a connection list its messages of a tile in the same order.
    std::map<std::array<int, 4>, std::vector<Taker>> taken;  // by sender, receiver, channel, tag
    std::vector<std::vector<std::vector<Taker>*>> endsOf;    // the same, by rank and connection
    for (const Program& program : programs) {
      auto& its = endsOf.emplace_back();
      for (const ConnectionSpec& spec : program.connections) {
        const int from = spec.sends ? program.rank : spec.peer, to = spec.sends ? spec.peer : program.rank;
        its.push_back(&taken[{from, to, spec.channel, spec.tag}]);
      }
    }
    for (size_t rank = 0; rank < programs.size(); ++rank) {
      forMessages(programs[rank], false, [&](const Step& step, size_t, size_t connection) {
        endsOf[rank][connection]->push_back(takerOf(programs[rank], step));
      });
    }
    for (auto& [ends, takers] : taken) {
      const auto& [from, to, channel, tag] = ends;
      const auto back = taken.find({to, from, channel, tag});
      for (Taker& taker : takers) taker.answers = back != taken.end() && !back->second.empty();
    }
    for (size_t rank = 0; rank < programs.size(); ++rank) {
      auto& its = takers_.emplace_back(programs[rank].operands.size());
      std::vector<size_t> sent(programs[rank].connections.size());
      forMessages(programs[rank], true, [&](const Step&, size_t operand, size_t connection) {
        const std::vector<Taker>& takers = *endsOf[rank][connection];
        const size_t number = sent[connection]++;
        its[operand].push_back(number < takers.size() ? takers[number] : Taker{});
      });
    }
  }

  /// Of the message that a rank sends by an operand, an index of Program::operands, in a repetition.
  const Taker& of(int rank, ptrdiff_t operand, int repeat) const {
    return takers_[static_cast<size_t>(rank)][static_cast<size_t>(operand)][static_cast<size_t>(repeat)];
  }

 private:
  static Taker takerOf(const Program& program, const Step& step) {
    const Operand* destination = program.operands.data() + step.firstOperand + step.sources;
    Taker taker;
    taker.message.sources = step.sources;
    taker.message.destinations = step.destinations;
    taker.message.finished = step.post;
    taker.message.toMemory = step.destinations > 0 && destination->space != Space::connection;
    taker.message.posted = step.destinations > 0 && destination->posted;
    taker.scratch = usesScratch(program, step);
    return taker;
  }

  /// Calls visit(step, operand, connection) for each message that a program sends, or receives, in a tile.
  template <class Visit>
  static void forMessages(const Program& program, bool sends, Visit&& visit) {
    for (const Step& step : program.steps) {
      const int first = step.firstOperand + (sends ? step.sources : 0);
      for (int repeat = 0; repeat < step.repeat; ++repeat) {
        for (int i = first; i < first + (sends ? step.destinations : step.sources); ++i) {
          const Operand& operand = program.operands[static_cast<size_t>(i)];
          if (operand.space != Space::connection) continue;
          visit(step, static_cast<size_t>(i), static_cast<size_t>(operand.index.at(repeat)));
        }
      }
    }
  }

  std::vector<std::vector<std::vector<Taker>>> takers_;  // by rank, operand and repetition
};

}  // namespace eccl::algorithms::simulation
