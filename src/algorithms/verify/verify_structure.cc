// The checks that need no execution: one call, the collective's buffers, connections with two ends, operands
// inside their buffers. What passes can be executed without further checks.
#include <array>
#include <map>

#include "algorithms/verify/verify.h"
#include "base/status.h"

namespace eccl::algorithms {
namespace {

constexpr int kMaxRanks = 1 << 15;  // blocks, their square, are counted in 32 bits
constexpr int kMaxParts = 1 << 20, kMaxRepeats = 1 << 20;

bool copiesAMessage(const Program& program, const Step& step) {
  return step.sources == 1 && !step.post && program.operands[step.firstOperand].space == Space::connection;
}

/// What holds for an operand in every repetition.
std::string checkOperand(const Program& program, const Step& step, int i) {
  const Operand& operand = program.operands[step.firstOperand + i];
  const bool source = i < step.sources;
  if (operand.space > Space::connection) return "no such space";
  if (operand.index.wrap < 0 || operand.part.wrap < 0) return "a walk wraps at a negative number";
  if (operand.pushed && !operand.placed) return "pushed belongs to a message that is placed";
  if (operand.pre && (!reduces(program.collective) || !source || operand.space != Space::input)) {
    return "pre belongs to an input source of a reduction";
  }
  if (operand.space == Space::connection) {
    if (operand.stable || operand.posted || operand.count != 1 || operand.part != Walk{})
      return "parts belong to memory";
    if (operand.placed && (source || program.streams)) return "placed belongs to a message that is sent";
    return "";
  }
  if (operand.placed) return "placed belongs to a message that is sent";
  if (operand.stable && (!source || step.sources != 1 || step.post)) {
    return "stable belongs to the only source of a step without post";
  }
  if (operand.posted && (i != step.sources || !copiesAMessage(program, step) || program.streams)) {
    return "posted belongs to the first destination of a step that copies a message";
  }
  if (operand.count < 1 || operand.count > program.parts) {
    return format("count %d is out of range", operand.count);
  }
  if (operand.count > program.messageParts) {
    return format("count %d is more than the %d parts a message may carry", operand.count,
                  program.messageParts);
  }
  if (!source && operand.space == Space::input) return "writes the input";
  // In place, input and output are the same memory: two sources would be one contribution twice, and is found.
  for (int j = source ? 0 : step.sources; j < i; ++j) {
    if (program.operands[step.firstOperand + j].space == operand.space) return "names one place twice";
  }
  return "";
}

std::string checkStep(const Program& program, const Step& step) {
  if (step.sources < 1 || step.sources > kMaxOperands || step.destinations > kMaxOperands) {
    return "a step has 1 to 8 sources and at most 8 destinations";
  }
  if (step.repeat < 1 || step.repeat > kMaxRepeats) return format("repeat %d is out of range", step.repeat);
  if (step.waitLane != kNoLane) {
    if (step.waitLane < 0 || step.waitLane >= static_cast<int>(program.lanes.size())) return "waits on no lane";
    if (step.waitStep < 0 || step.waitStep >= program.lanes[step.waitLane].steps) return "waits on no step";
    if (program.streams) return "streams run different numbers of tiles: a step cannot wait";
  } else if (step.waitStep != 0 || step.waitPreviousTile) {
    return "waits on a step of no lane";
  }
  const bool reducing = reduces(program.collective);
  if (!reducing && step.sources != 1) return "only a reduction has several sources";
  if (!reducing && step.post) return "only a reduction has a final result";
  bool memory = false;
  for (int i = 0; i < step.sources + step.destinations; ++i) {
    if (std::string wrong = checkOperand(program, step, i); !wrong.empty()) return wrong;
    memory |= program.operands[step.firstOperand + i].space != Space::connection;
  }
  if (!memory && !program.streams) return "no operand says which parts the step moves";
  return "";
}

/// A connection operand in one repetition. Marks the connection as used by `lane`.
std::string checkConnection(const Program& program, const Step& step, int i, int repeat, int lane,
                            std::vector<int>& owner) {
  const Operand* operands = &program.operands[step.firstOperand];
  const int index = operands[i].index.at(repeat);
  if (index < 0 || index >= static_cast<int>(owner.size()))
    return format("connection %d does not exist", index);
  if (owner[index] >= 0 && owner[index] != lane) return format("connection %d is used by two lanes", index);
  owner[index] = lane;
  if (program.connections[index].sends != (i >= step.sources)) return "connection used against its direction";
  for (int j = 0; j < i; ++j) {
    if (operands[j].space == Space::connection && operands[j].index.at(repeat) == index) {
      return "one step uses a connection twice";
    }
  }
  return "";
}

/// The repetitions of a step: connections exist, memory is inside its buffer, and all is the same parts. Looked
/// at once and here, so that the AbstractExecutor can rely on it in every tile.
std::string checkRepeats(const Program& program, const Step& step, int blocks, int lane,
                         std::vector<int>& owner) {
  const Operand* operands = &program.operands[step.firstOperand];
  const int total = step.sources + step.destinations;
  bool walks = false;
  for (int i = 0; i < total; ++i) walks |= operands[i].index.stride != 0 || operands[i].part.stride != 0;
  for (int repeat = 0; repeat < (walks ? step.repeat : 1); ++repeat) {
    int block = -1, part = 0, count = 0;
    for (int i = 0; i < total; ++i) {
      const Operand& operand = operands[i];
      if (operand.space == Space::connection) {
        std::string wrong = checkConnection(program, step, i, repeat, lane, owner);
        if (!wrong.empty()) return wrong;
        continue;
      }
      const int32_t b = operand.index.at(repeat), p = operand.part.at(repeat);
      if (b < 0 || b >= blocks || program.map(operand.space).position(b) < 0) {
        return format("repeat %d: block %d is not in the buffer", repeat, b);
      }
      if (p < 0 || p > program.parts - operand.count) {
        return format("repeat %d: part %d is out of range", repeat, p);
      }
      if (block >= 0 && (b != block || p != part || operand.count != count)) {
        return format("repeat %d: operands are different parts", repeat);
      }
      block = b;
      part = p;
      count = operand.count;
    }
  }
  return "";
}

/// Lanes, steps and operands lie one after the other, as Builders lay them out and the text form can say it;
/// each step makes sense.
std::string checkLanes(const Program& program, int blocks, std::vector<int>& owner) {
  size_t nextStep = 0, nextOperand = 0;
  for (size_t lane = 0; lane < program.lanes.size(); ++lane) {
    const Lane& at = program.lanes[lane];
    if (at.steps < 0 || static_cast<size_t>(at.steps) > program.steps.size() - nextStep ||
        at.firstStep != static_cast<int64_t>(nextStep)) {
      return format("lane %zu does not follow the one before it", lane);
    }
    if (at.channel < 0 || at.channel >= program.channels) return format("lane %zu is on no channel", lane);
    for (int s = 0; s < at.steps; ++s, ++nextStep) {
      const Step& step = program.steps[nextStep];
      std::string wrong;
      if (step.firstOperand != static_cast<int64_t>(nextOperand) ||
          program.operands.size() - nextOperand < size_t{step.sources} + step.destinations) {
        wrong = "operands do not follow those of the step before";
      }
      nextOperand += size_t{step.sources} + step.destinations;
      if (wrong.empty()) wrong = checkStep(program, step);
      if (wrong.empty()) wrong = checkRepeats(program, step, blocks, static_cast<int>(lane), owner);
      if (!wrong.empty()) return format("lane %zu step %d: %s", lane, s, wrong.c_str());
    }
  }
  if (nextStep != program.steps.size()) return "steps belong to no lane";
  if (nextOperand != program.operands.size()) return "operands belong to no step";
  return "";
}

std::string checkProgram(const Program& program, const Program& first, const CollectiveShape& shape, int rank) {
  if (program.rank != rank) return "its rank field is another's";
  if (program.collective != first.collective || program.ranks != first.ranks || program.root != first.root ||
      program.parts != first.parts || program.channels != first.channels || program.streams != first.streams ||
      program.messageParts != first.messageParts) {
    return "it describes another call than rank 0's";
  }
  if (program.map(Space::input) != shape.input(rank) || program.map(Space::output) != shape.output(rank)) {
    return "its buffers are not the collective's";
  }
  const BlockMap& scratch = program.map(Space::scratch);
  if (scratch.number < 0 || scratch.stride < 1 || scratch.first < 0 ||
      scratch.first + (scratch.number - int64_t{1}) * scratch.stride >= shape.blocks()) {
    return "its scratch mirrors blocks that do not exist";
  }
  std::vector<int> owner(program.connections.size(), -1);
  if (std::string wrong = checkLanes(program, shape.blocks(), owner); !wrong.empty()) return wrong;
  for (size_t c = 0; c < owner.size(); ++c) {
    const ConnectionSpec& spec = program.connections[c];
    if (spec.peer < 0 || spec.peer >= program.ranks || spec.peer == rank)
      return format("connection %zu has no such peer", c);
    if (spec.channel < 0 || spec.channel >= program.channels)
      return format("connection %zu is on no channel", c);
    if (owner[c] < 0) return format("connection %zu is never used", c);
  }
  return "";
}

std::string checkCall(const Program& first, size_t programs) {
  if (first.ranks != static_cast<int64_t>(programs)) {
    return format("%zu programs for %d ranks", programs, first.ranks);
  }
  if (first.ranks > kMaxRanks) return format("more than %d ranks", kMaxRanks);
  if (static_cast<int>(first.collective) >= kCollectives || first.root < 0 || first.root >= first.ranks) {
    return "no such collective or root";
  }
  if (first.parts < 1 || first.parts > kMaxParts) return format("%d parts are out of range", first.parts);
  if (first.channels < 1 || first.channels > INT16_MAX) {
    return format("%d channels are out of range", first.channels);
  }
  if (first.streams && reduces(first.collective)) return "streams cannot reduce";
  return "";
}

}  // namespace

std::string verifyStructure(const std::vector<Program>& programs) {
  if (programs.empty()) return "no programs";
  const Program& first = programs[0];
  if (std::string wrong = checkCall(first, programs.size()); !wrong.empty()) return wrong;
  CollectiveShape shape{first.collective, first.ranks, first.root};
  std::map<std::array<int, 4>, int> ends;  // 1 = sender seen, 2 = receiver seen
  for (int rank = 0; rank < first.ranks; ++rank) {
    std::string wrong = checkProgram(programs[rank], first, shape, rank);
    for (const ConnectionSpec& spec : programs[rank].connections) {
      if (!wrong.empty()) break;
      int from = spec.sends ? rank : spec.peer, to = spec.sends ? spec.peer : rank;
      int& seen = ends[{from, to, spec.channel, spec.tag}];
      int bit = spec.sends ? 1 : 2;
      if ((seen & bit) != 0) wrong = "two connections with one name";
      seen |= bit;
    }
    if (!wrong.empty()) return format("rank %d: %s", rank, wrong.c_str());
  }
  for (const auto& [key, seen] : ends) {
    if (seen == 3) continue;
    return format("connection %d->%d channel %d tag %d has no %s", key[0], key[1], key[2], key[3],
                  seen == 1 ? "receiver" : "sender");
  }
  return "";
}

}  // namespace eccl::algorithms
