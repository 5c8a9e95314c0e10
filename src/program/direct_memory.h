// Which messages go from memory to memory instead of through slots: references to what the sender holds, and
// grants of what the receiver wants filled.
#pragma once

#include "program/resolved_move.h"

namespace eccl::interpreter {

/// Grants the user's memory to message number `message`, if that only has to be copied there.
ECCL_DEVICE inline void grantDestination(const RunView& run, const Step& step, const Resolved& move,
                                         uint64_t tile, ReceiveEnd& end, uint64_t message) {
  const PlanView& plan = *run.plan;
  const Operand& destination = plan.operands[step.firstOperand + step.sources];
  if (step.sources != 1 || step.destinations == 0 || step.post || destination.space == Space::connection ||
      move.length <= kInlineBytes || !onePiece(plan, move)) {
    return;
  }
  Slice slice = plan.cut.slice(move.elements, move.part, tile);
  end.grant(message, memoryAt(run, destination, move.extent[step.sources], move.part, slice), move.length);
}

/// Grants what the lane's steps claim to be posted in a tile.
ECCL_DEVICE inline void postTile(const RunView& run, const Lane& form, uint64_t tile) {
  const PlanView& plan = *run.plan;
  LaneState at;
  for (int32_t i = 0; i < form.steps; ++i) {
    const Step& step = plan.steps[form.firstStep + i];
    const Operand* operands = plan.operands + step.firstOperand;
    bool receives = false;
    for (int s = 0; s < step.sources; ++s) receives |= operands[s].space == Space::connection;
    if (!receives) continue;
    const bool posted = step.destinations > 0 && operands[step.sources].posted;
    for (at.repeat = 0; at.repeat < step.repeat; ++at.repeat) {
      Resolved move;
      identify(plan, at, step, move);
      move.length = static_cast<uint32_t>(lengthOf(plan, move, tile));
      if (move.length == 0) continue;  // nothing will be sent
      for (int s = 0; s < step.sources; ++s) {
        if (operands[s].space != Space::connection) continue;
        ReceiveEnd& end = *plan.receivers[operands[s].index.at(at.repeat)];
        const uint64_t message = end.considered > end.next ? end.considered : end.next;
        end.considered = message + 1;
        if (posted && message - end.next < end.shape.grants())
          grantDestination(run, step, move, tile, end, message);
      }
    }
  }
}

/// At the beginning of a tile: a sender that is ahead of this rank finds grants for the tiles to come too.
ECCL_DEVICE inline void post(const RunView& run, int32_t laneIndex, LaneState& lane) {
  const PlanView& plan = *run.plan;
  if (plan.ahead == nullptr || plan.ahead[laneIndex] < 0) return;
  const uint64_t until = lane.tile + static_cast<uint64_t>(plan.ahead[laneIndex]) + 1;
  for (; lane.postedTiles < until && lane.postedTiles < plan.tiles; ++lane.postedTiles) {
    postTile(run, plan.lanes[laneIndex], lane.postedTiles);
  }
}

/// Whether a destination connection can be given a reference to the only source instead of its data; *offset:
/// for the slot.
ECCL_DEVICE inline bool byReference(const RunView& run, const LaneState& lane, const Step& step,
                                    const Resolved& move, const SendEnd& end, uint64_t* offset) {
  const PlanView& plan = *run.plan;
  const Operand& source = plan.operands[step.firstOperand];
  // What has to be scaled before it is sent is not in memory as the receiver has to see it.
  if (!source.stable || (source.pre && run.scales) || move.length < end.directFrom || !onePiece(plan, move))
    return false;
  Slice slice = plan.cut.slice(move.elements, move.part, lane.tile);
  return end.reaches(memoryAt(run, source, move.extent[0], move.part, slice), move.length, offset);
}

/// Where the data of each message goes; nullptr: nowhere, a reference is sent. Remembers what is placed: a
/// grant that comes while the device is at work must not change what was decided.
ECCL_DEVICE inline void placeMessages(const RunView& run, LaneState& lane, const Step& step,
                                      const Resolved& move, std::byte* (&data)[kMaxOperands]) {
  const PlanView& plan = *run.plan;
  lane.placed = 0;
  for (int i = 0; i < step.destinations; ++i) {
    const Operand& operand = plan.operands[step.firstOperand + step.sources + i];
    data[i] = nullptr;
    if (operand.space != Space::connection) continue;
    SendEnd& end = *plan.senders[operand.index.at(lane.repeat)];
    std::byte* place = end.granted(move.length);
    uint64_t offset;
    if (!(operand.placed && place != nullptr) && byReference(run, lane, step, move, end, &offset)) continue;
    data[i] = place;
    if (place != nullptr && end.beginWriting()) {
      lane.placed |= static_cast<uint8_t>(1u << i);
      continue;
    }
    data[i] = end.place(move.length);
  }
}

}  // namespace eccl::interpreter
