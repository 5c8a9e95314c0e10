// What a lane's next move is made of, and whether it can be made: the first part of its life
// (program/interpreter.h).
#pragma once

#include "program/offers.h"

namespace eccl::interpreter {

/// Compares a message that was peeked at with what the move expects. ready, or failed with the fault noted.
ECCL_DEVICE inline Readiness checkReceived(const RunView& run, LaneState& lane, int32_t connection,
                                           const Received& received, const Resolved& move,
                                           const ReceiveEnd& end) {
  const LaneFault fault = faultOf(end, received, run.signature, move.length, move.last);
  switch (fault) {
    case LaneFault::none:
      return Readiness::ready;
    case LaneFault::epoch:
      return fail(lane, fault, connection, end.epoch, received.epoch);
    case LaneFault::signature:
      return fail(lane, fault, connection, run.signature, received.signature);
    case LaneFault::length: {
      const bool fits = received.length <= end.shape.slotBytes;
      return fail(lane, fault, connection, fits ? move.length : end.shape.slotBytes, received.length);
    }
    default:
      return fail(lane, fault, connection, end.theirs.size, received.offset);
  }
}

/// Finds the operands of the lane's next move, and whether it can be made now. Changes no connection, except
/// that it may offer memory for a message that is not there yet.
///
/// `alone`: no move of the lane is under way, so peers may be let into the memory that this one is to write.
ECCL_DEVICE inline Readiness resolve(const RunView& run, LaneState& lane, const Step& step, int32_t stepIndex,
                                     bool alone, Resolved& move) {
  const PlanView& plan = *run.plan;
  const Operand* operands = plan.operands + step.firstOperand;
  bool identified = identify(plan, lane, step, move);
  if (plan.streams && !identified) {
    move.relayed = run.relayed + run.relayedAt[stepIndex] + lane.repeat;
    if (*move.relayed != 0) return Readiness::skip;
  }
  if (identified) {
    move.length = static_cast<uint32_t>(lengthOf(plan, move, lane.tile));
    if (plan.streams) {
      uint64_t tiles = plan.partition.tiles(move.elements);
      if (lane.tile >= (tiles > 0 ? tiles : 1)) return Readiness::skip;
      move.last = lane.tile + 1 >= tiles;
    } else if (move.length == 0) {
      return Readiness::skip;
    }
  }
  // Look at every connection before touching any: a blocked move leaves no trace.
  findEnds(plan, step, lane.repeat, move.ends);
  const auto connection = [&](int operand) { return operands[operand].index.at(lane.repeat); };
  bool blocked = false;
  for (int i = 0; i < step.sources; ++i) {
    if (move.ends.from[i] == nullptr) continue;
    ReceiveEnd& end = *move.ends.from[i];
    if (!end.peek(move.received[i])) {
      if (end.poisoned()) return fail(lane, LaneFault::poisoned, connection(i), 0, 0);
      if (alone && !end.answered() && offerOf(plan, step, move, end) != Offer::never)
        offerDestination(run, step, move, lane.tile, end, end.next);
      blocked = true;
      continue;
    }
    if (!identified) {  // a relay: the message says what it is
      move.length = move.received[i].length;
      move.last = (move.received[i].flags & kSlotLast) != 0;
    }
    if (Readiness checked = checkReceived(run, lane, connection(i), move.received[i], move, end);
        checked != Readiness::ready) {
      return checked;
    }
  }
  const Outgoing message = outgoing(plan, step, move, run.scales);
  for (int i = 0; i < step.destinations; ++i) {
    SendEnd* end = move.ends.to[i];
    if (end == nullptr || canSend(move.ends, i, message, SourceOf{run, step, move, lane.tile}, run.patient))
      continue;
    if (end->poisoned()) return fail(lane, LaneFault::poisoned, connection(step.sources + i), 0, 0);
    blocked = true;
  }
  return blocked ? Readiness::blocked : Readiness::ready;
}

}  // namespace eccl::interpreter
