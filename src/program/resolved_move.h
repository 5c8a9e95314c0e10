// One move of a Program with its operands resolved to memory and lengths.
#pragma once

#include "program/move_ends.h"

namespace eccl::interpreter {

/// The current move with its operands resolved.
struct Resolved {
  MoveEnds ends;
  int32_t part = 0, count = 0;
  BlockExtent extent[2 * kMaxOperands];  // of memory operands
  Received received[kMaxOperands];       // of connection sources
  uint64_t elements = 0;                 // of the block
  uint32_t length = 0;                   // of the message, bytes
  bool last = true;
  bool scratch = false;        // some operand is in scratch, where parts do not adjoin
  uint8_t* relayed = nullptr;  // streams: to be set when a relay has passed the last message on
};

/// What resolve() says of the next move. skip: there is nothing to do for it in this tile. failed: the lane
/// has its fault.
enum class Readiness : uint8_t { ready, blocked, skip, failed };

/// Notes the fault in the lane. `connection`: an index of Program::connections; -1 if the fault is this
/// rank's own.
ECCL_DEVICE inline Readiness fail(LaneState& lane, LaneFault fault, int32_t connection, uint64_t expected,
                                  uint64_t found) {
  lane.fault = fault;
  lane.faultConnection = connection;
  lane.expected = expected;
  lane.found = found;
  return Readiness::failed;
}

/// Contiguous in memory: a single part, or all of them because one tile covers every part.
ECCL_DEVICE inline bool onePiece(const PlanView& plan, const Resolved& move) {
  return plan.partition.adjoin(move.elements, move.count, move.scratch);
}

/// Bytes of a tile's share of the move's parts: the length of each of its messages.
ECCL_DEVICE inline uint64_t lengthOf(const PlanView& plan, const Resolved& move, uint64_t tile) {
  uint64_t elements = 0;
  for (int32_t j = 0; j < move.count; ++j)
    elements += plan.partition.slice(move.elements, move.part + j, tile).size();
  return elements * plan.elementBytes;
}

/// Where a slice of a part of a block lies in the Run's buffers. Not for connections.
ECCL_DEVICE inline std::byte* memoryAt(const RunView& run, const Operand& operand, const BlockExtent& extent,
                                       uint64_t part, const Slice& slice) {
  const PlanView& plan = *run.plan;
  // Scratch holds one tile: the slice is all of the part there is.
  const uint64_t within = operand.space == Space::scratch ? part * plan.partition.tile : slice.begin;
  return run.buffers[static_cast<int>(operand.space)] + (extent.offset + within) * plan.elementBytes;
}

/// The memory that a move's messages are made of, to be called where isItsSource().
struct SourceOf {
  const RunView& run;
  const Step& step;
  const Resolved& move;
  uint64_t tile;

  ECCL_DEVICE std::byte* operator()() const {
    const Slice slice = run.plan->partition.slice(move.elements, move.part, tile);
    return memoryAt(run, run.plan->operands[step.firstOperand], move.extent[0], move.part, slice);
  }
};

/// What the memory operands say about the move: its extents, parts and elements. False if all operands are
/// messages, as in a relay: then only a message tells.
ECCL_DEVICE inline bool identify(const PlanView& plan, const LaneState& lane, const Step& step,
                                 Resolved& move) {
  bool identified = false;
  const Operand* operands = plan.operands + step.firstOperand;
  for (int i = 0; i < step.sources + step.destinations; ++i) {
    const Operand& operand = operands[i];
    if (operand.space == Space::connection) continue;
    int32_t block = operand.index.at(lane.repeat);
    if (operand.space == Space::scratch) {
      move.scratch = true;
      // Offsets in scratch are laid out by tile; its blocks' sizes are another operand's to tell.
      int32_t position = plan.maps[static_cast<int>(Space::scratch)].position(block);
      move.extent[i] = {static_cast<uint64_t>(position) * plan.partition.parts * plan.partition.tile,
                        plan.blockElements};
      if (plan.extents[static_cast<int>(Space::scratch)] != nullptr) {
        move.extent[i].elements = plan.extents[static_cast<int>(Space::scratch)][position].elements;
      }
    } else {
      move.extent[i] = plan.extent(operand.space, block);
    }
    if (!identified) {
      move.part = operand.part.at(lane.repeat);
      move.count = operand.count;
      move.elements = move.extent[i].elements;
      identified = true;
    }
  }
  return identified;
}

/// What a step says about the messages that a move of it sends.
ECCL_DEVICE inline Outgoing outgoing(const PlanView& plan, const Step& step, const Resolved& move,
                                     bool scales) {
  const Operand& source = plan.operands[step.firstOperand];
  Outgoing message;
  message.length = move.length;
  message.stable = source.stable;
  message.scaled = source.pre && scales;
  message.whole = source.stable && onePiece(plan, move);  // of no interest where it is not stable
  message.messages = plan.tiles;
  return message;
}

}  // namespace eccl::interpreter
