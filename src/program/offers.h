// Offers of memory that a receiver makes for messages to come: what SendEnd::offered() finds.
// program/delivery.h has the rule for them.
#pragma once

#include "program/resolved_move.h"

namespace eccl::interpreter {

/// What a move says about the message of its source `from`, in a tile.
ECCL_DEVICE inline Incoming incoming(const PlanView& plan, const Step& step, const Resolved& move) {
  const Operand& destination = plan.operands[step.firstOperand + step.sources];
  Incoming message;
  message.length = move.length;
  message.sources = step.sources;
  message.destinations = step.destinations;
  message.finished = step.post;
  if (step.destinations > 0) {
    message.toMemory = destination.space != Space::connection;
    message.posted = destination.posted;
    message.whole = onePiece(plan, move);
  }
  return message;
}

/// The rule of delivery for what this move receives at `end`.
ECCL_DEVICE inline Offer offerOf(const PlanView& plan, const Step& step, const Resolved& move,
                                 const ReceiveEnd& end) {
  return eccl::offerOf(incoming(plan, step, move), {end.directFrom, end.mine.size > 0});
}

/// Offers the first destination of a move, in memory, for message number `message`.
ECCL_DEVICE inline void offerDestination(const RunView& run, const Step& step, const Resolved& move,
                                         uint64_t tile, ReceiveEnd& end, uint64_t message) {
  const PlanView& plan = *run.plan;
  const Operand& destination = plan.operands[step.firstOperand + step.sources];
  const Slice slice = plan.partition.slice(move.elements, move.part, tile);
  end.offer(message, memoryAt(run, destination, move.extent[step.sources], move.part, slice), move.length);
}

/// Makes the offers of a lane for a tile that can be made ahead.
ECCL_DEVICE inline void postTile(const RunView& run, const Lane& form, uint64_t tile) {
  const PlanView& plan = *run.plan;
  LaneState at;
  for (int32_t i = 0; i < form.steps; ++i) {
    const Step& step = plan.steps[form.firstStep + i];
    const Operand* operands = plan.operands + step.firstOperand;
    bool receives = false;
    for (int s = 0; s < step.sources; ++s) receives |= operands[s].space == Space::connection;
    if (!receives) continue;
    for (at.repeat = 0; at.repeat < step.repeat; ++at.repeat) {
      Resolved move;
      identify(plan, at, step, move);
      move.length = static_cast<uint32_t>(lengthOf(plan, move, tile));
      if (move.length == 0) continue;  // nothing will be sent
      for (int s = 0; s < step.sources; ++s) {
        if (operands[s].space != Space::connection) continue;
        ReceiveEnd& end = *plan.receivers[operands[s].index.at(at.repeat)];
        const uint64_t message = end.consider();
        if (end.mayOffer(message) && offerOf(plan, step, move, end) == Offer::ahead)
          offerDestination(run, step, move, tile, end, message);
      }
    }
  }
}

/// At the beginning of a tile: makes the offers of this tile and of some to come, so that a sender that is
/// ahead of this rank finds them too. Does nothing for a lane that posts nothing.
ECCL_DEVICE inline void post(const RunView& run, int32_t laneIndex, LaneState& lane) {
  const PlanView& plan = *run.plan;
  if (plan.ahead == nullptr || plan.ahead[laneIndex] < 0) return;
  // Those of tiles that were joined to others (program/joined_tiles.h) are over.
  if (lane.postedTiles < lane.tile) lane.postedTiles = lane.tile;
  const uint64_t until = lane.tile + static_cast<uint64_t>(plan.ahead[laneIndex]) + 1;
  for (; lane.postedTiles < until && lane.postedTiles < plan.tiles; ++lane.postedTiles) {
    postTile(run, plan.lanes[laneIndex], lane.postedTiles);
  }
}

}  // namespace eccl::interpreter
