#include <array>
#include <map>

#include "algorithms/verify.h"
#include "base/status.h"

namespace eccl {
namespace {

constexpr int kMostParts = 1 << 20, kMostRepeats = 1 << 20;

std::string checkStep(const Program& program, const Step& step) {
  if (step.sources < 1 || step.sources > kMaxOperands || step.destinations > kMaxOperands) {
    return "a step has 1 to 8 sources and at most 8 destinations";
  }
  if (step.repeat < 1 || step.repeat > kMostRepeats) return format("repeat %d is out of range", step.repeat);
  if (step.firstOperand < 0 ||
      step.firstOperand + step.sources + step.destinations > static_cast<int>(program.operands.size())) {
    return "operands out of range";
  }
  if (step.waitLane != kNoLane) {
    if (step.waitLane < 0 || step.waitLane >= static_cast<int>(program.lanes.size())) return "waits on no lane";
    if (step.waitStep < 0 || step.waitStep >= program.lanes[step.waitLane].steps) return "waits on no step";
    if (program.streams) return "streams run different numbers of tiles: a step cannot wait";
  }
  bool reducing = reduces(program.collective);
  if (!reducing && step.sources != 1) return "only a reduction has several sources";
  if (!reducing && step.post) return "only a reduction has a final result";
  if (program.streams && reducing) return "streams cannot reduce";
  for (int i = 0; i < step.sources + step.destinations; ++i) {
    const Operand& operand = program.operands[step.firstOperand + i];
    if (operand.space > Space::connection) return "no such space";
    if (operand.pre && (!reducing || i >= step.sources || operand.space != Space::input)) {
      return "pre belongs to an input source of a reduction";
    }
    bool canBeStable =
        i < step.sources && step.sources == 1 && operand.space != Space::connection && !step.post;
    if (operand.stable && !canBeStable) return "stable belongs to the only source of a step, in memory";
    if (operand.space != Space::connection && (operand.count < 1 || operand.count > program.parts)) {
      return format("count %d is out of range", operand.count);
    }
  }
  return "";
}

/// Marks the connections a step touches as used by `lane`.
std::string claimConnections(const Program& program, const Step& step, int lane, std::vector<int>& owner) {
  for (int i = 0; i < step.sources + step.destinations; ++i) {
    const Operand& operand = program.operands[step.firstOperand + i];
    if (operand.space != Space::connection) continue;
    for (int repeat = 0; repeat < step.repeat; ++repeat) {
      int index = operand.index.at(repeat);
      if (index < 0 || index >= static_cast<int>(owner.size()))
        return format("connection %d does not exist", index);
      if (owner[index] >= 0 && owner[index] != lane) return format("connection %d is used by two lanes", index);
      owner[index] = lane;
      if (operand.index.stride == 0) break;
    }
  }
  return "";
}

std::string checkProgram(const Program& program, const Program& first, const CollectiveShape& shape, int rank) {
  if (program.rank != rank) return "its rank field is another's";
  if (program.collective != first.collective || program.ranks != first.ranks || program.root != first.root ||
      program.parts != first.parts || program.channels != first.channels || program.streams != first.streams) {
    return "it describes another call than rank 0's";
  }
  if (program.map(Space::input) != shape.input(rank) || program.map(Space::output) != shape.output(rank)) {
    return "its buffers are not the collective's";
  }
  const BlockMap& scratch = program.map(Space::scratch);
  if (scratch.number < 0 || scratch.stride < 1 || scratch.first < 0 ||
      (scratch.number > 0 && scratch.block(scratch.number - 1) >= shape.blocks())) {
    return "its scratch mirrors blocks that do not exist";
  }
  std::vector<int> owner(program.connections.size(), -1);
  int nextStep = 0;
  for (size_t lane = 0; lane < program.lanes.size(); ++lane) {
    const Lane& at = program.lanes[lane];
    if (at.firstStep != nextStep || at.steps < 0 ||
        at.firstStep + at.steps > static_cast<int>(program.steps.size())) {
      return format("lane %zu does not follow the one before it", lane);
    }
    nextStep += at.steps;
    if (at.channel < 0 || at.channel >= program.channels) return format("lane %zu is on no channel", lane);
    for (int s = 0; s < at.steps; ++s) {
      const Step& step = program.steps[at.firstStep + s];
      std::string wrong = checkStep(program, step);
      if (wrong.empty()) wrong = claimConnections(program, step, static_cast<int>(lane), owner);
      if (!wrong.empty()) return format("lane %zu step %d: %s", lane, s, wrong.c_str());
    }
  }
  if (nextStep != static_cast<int>(program.steps.size())) return "steps belong to no lane";
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

}  // namespace

std::string verifyStructure(const std::vector<Program>& programs) {
  if (programs.empty()) return "no programs";
  const Program& first = programs[0];
  if (first.ranks != static_cast<int>(programs.size())) {
    return format("%zu programs for %d ranks", programs.size(), first.ranks);
  }
  if (first.parts < 1 || first.parts > kMostParts || first.channels < 1) return "parts and channels start at 1";
  if (static_cast<int>(first.collective) >= kCollectives || first.root < 0 || first.root >= first.ranks) {
    return "no such collective or root";
  }
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

}  // namespace eccl
