// Runs lanes. One source for the host and for CUDA.
//
//   advance(run, lane, budget, device) → progress | blocked | done | failed
//
// Nothing is held between calls but the LaneState, so any number of lanes runs on any number of workers. A
// lane is advanced by one worker at a time. The device does the moves:
//
//   bool submit(int32_t lane, const MoveTask&);  // false: it cannot; the lane fails
//
// may be called several times for one move. Tasks of one lane have their effect as if each began when the one
// before had ended; those of different lanes in any order. A device with kCompletesInSubmit is done with a task
// when submit() returns. Another one is asked later, never waited for, and keeps what is under way:
//
//   MovesInFlight& inFlight(int32_t lane);
//   MoveState test(int32_t lane, uint64_t tasks);  // pending | complete | failed: the lane's first `tasks`
//
// With such a device the lane runs ahead: moves are resolved and submitted while others are under way, reserve
// their slots, and are committed in their order. Peers and other lanes see what is committed only.
#pragma once

#include "program/offers.h"
#include "program/submit.h"

namespace eccl {

/// What advance() says of a lane.
///   progress  something was submitted or committed, or an empty move passed over: call again
///   blocked   nothing could be done: a peer, another lane or the device has to go on first
///   done      all moves are complete and committed
///   failed    LaneState::fault says why; the lane is not advanced any more
enum class LaneAnswer : uint8_t { progress, blocked, done, failed };
/// What a device says of tasks. failed: LaneFault::device, for the whole lane.
enum class MoveState : uint8_t { pending, complete, failed };

// The life of a move: resolve() finds its operands and whether it can be made, submit() hands it to the
// device, commit() publishes its messages and releases what it took, and next() goes on to the one after it.
// With a device that runs later settle() commits.
namespace interpreter {

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

/// Streams: remembers what goes on in the next tile and what is over, so that the next moves of the lane are
/// resolved as if this one were complete.
ECCL_DEVICE inline void account(const RunView& run, LaneState& lane, const Resolved& move) {
  if (!run.plan->streams) return;
  if (!move.last)
    lane.live = true;
  else if (move.relayed != nullptr)
    *move.relayed = 1;
}

/// Notes the fault that the sender of this source has failed and taken its memory back.
ECCL_DEVICE inline void lost(LaneState& lane, const PlanView& plan, const SubmittedMove& move, int source) {
  const Operand& operand = plan.operands[plan.steps[move.step].firstOperand + source];
  fail(lane, LaneFault::poisoned, operand.index.at(move.repeat), 0, 0);
}

/// For a move that is complete: publishes its messages and releases what it took. False: its result is worth
/// nothing, because a sender took back the memory that was read. Then nothing is published, and the fault is
/// noted.
ECCL_DEVICE inline bool commit(const RunView& run, LaneState& lane, const MoveEnds& ends,
                               const SubmittedMove& move) {
  if (const int source = endReading(ends, move.reads); source >= 0) {
    abandon(ends, move.passed);
    lost(lane, *run.plan, move, source);
    return false;
  }
  const uint16_t flags = move.last ? kSlotLast : 0;
  commit(ends, move.passed, move.length, flags, run.signature);
  ++lane.moves;
  return true;
}

/// `steps` more steps of the lane are over. Pairs with waitOver() of other lanes.
ECCL_DEVICE inline void finish(LaneState& lane, uint64_t steps) {
  storeRelease(&lane.done, lane.done + steps);
}

/// Commits the moves under way that are complete, as far as those before them are. `committed`: any.
template <class Device>
ECCL_DEVICE bool settle(const RunView& run, int32_t laneIndex, Device& device, bool& committed) {
  LaneState& lane = run.lanes[laneIndex];
  MovesInFlight& inFlight = device.inFlight(laneIndex);
  while (inFlight.count > 0) {
    const SubmittedMove& oldest = inFlight.oldest();
    const MoveState state = device.test(laneIndex, oldest.tasks);
    if (state == MoveState::pending) break;
    if (state == MoveState::failed) {
      fail(lane, LaneFault::device, -1, 0, 0);
      return false;
    }
    MoveEnds ends;
    findEnds(*run.plan, run.plan->steps[oldest.step], oldest.repeat, ends);
    runAhead(ends, -1);
    if (!commit(run, lane, ends, oldest)) return false;
    finish(lane, oldest.steps);
    inFlight.pop();
    committed = true;
  }
  return true;
}

/// Whether the tile's input is there, and the other lane has come as far as the step waits for. Pairs with
/// finish().
ECCL_DEVICE inline bool waitOver(const RunView& run, const LaneState& lane, const Step& step) {
  if (lane.tile >= run.readyTiles) return false;
  if (step.waitLane == kNoLane || (step.waitPreviousTile && lane.tile == 0)) return true;
  uint64_t tile = step.waitPreviousTile ? lane.tile - 1 : lane.tile;
  uint64_t steps = static_cast<uint64_t>(run.plan->lanes[step.waitLane].steps);
  // Pairs with the storeRelease of `done` in finish().
  return loadAcquire(&run.lanes[step.waitLane].done) > tile * steps + static_cast<uint64_t>(step.waitStep);
}

/// Goes on to the next move, and finds out whether the lane is finished. True: this was the last repetition
/// of a step.
ECCL_DEVICE inline bool next(const RunView& run, LaneState& lane, const Lane& form, const Step& step) {
  if (++lane.repeat < step.repeat) return false;
  lane.repeat = 0;
  lane.entered = false;
  if (++lane.step == form.steps) {
    lane.step = 0;
    ++lane.tile;
    bool more = run.plan->streams ? lane.live : lane.tile < run.plan->tiles;
    lane.live = false;
    if (!more) lane.finished = true;
  }
  return true;
}

/// Calls visit(connection) for each that the lane's next move waits for: none where that is another lane's
/// turn.
template <class Visit>
void forAwaited(const RunView& run, int32_t laneIndex, Visit&& visit) {
  const PlanView& plan = *run.plan;
  const LaneState& lane = run.lanes[laneIndex];
  if (lane.finished) return;
  const Step& step = plan.steps[plan.lanes[laneIndex].firstStep + lane.step];
  if (!lane.entered && !waitOver(run, lane, step)) return;
  const Operand* operands = plan.operands + step.firstOperand;
  Resolved move;
  // Of a relay only the message says how long it is.
  const uint32_t length =
      identify(plan, lane, step, move) ? static_cast<uint32_t>(lengthOf(plan, move, lane.tile)) : UINT32_MAX;
  for (int i = 0; i < step.sources + step.destinations; ++i) {
    if (operands[i].space != Space::connection) continue;
    const int32_t connection = operands[i].index.at(lane.repeat);
    Received received;
    if (i < step.sources ? !plan.receivers[connection]->peek(received)
                         : plan.senders[connection]->reserve(length) == nullptr)
      visit(connection);
  }
}

}  // namespace interpreter

/// Long moves use up a budget faster, so that other lanes, and what waits for them, get their turn. So many
/// bytes, as a power of two, count as one move.
inline constexpr int kBudgetShift = 13;

/// Submits up to `budget` moves of one lane, fewer if they are long, and commits those that are complete. One
/// thread at a time for each lane. The connections of the lane are ready, and no other Run uses them. `run`
/// and what it points to stay where they are until the lane is done or has failed.
template <class Device>
ECCL_DEVICE LaneAnswer advance(const RunView& run, int32_t laneIndex, int budget, Device& device) {
  using namespace interpreter;
  constexpr bool kRunsAhead = !Device::kCompletesInSubmit;
  LaneState& lane = run.lanes[laneIndex];
  const Lane& form = run.plan->lanes[laneIndex];
  if (lane.fault != LaneFault::none) return LaneAnswer::failed;
  if (form.steps == 0 || (!run.plan->streams && run.plan->tiles == 0)) lane.finished = true;
  bool progress = false;
  bool alone = true;
  if constexpr (kRunsAhead) {
    if (!settle(run, laneIndex, device, progress)) return LaneAnswer::failed;
    alone = device.inFlight(laneIndex).count == 0;
  }
  while (!lane.finished && budget > 0) {
    if constexpr (kRunsAhead) {
      if (device.inFlight(laneIndex).full()) break;
    }
    int32_t stepIndex = form.firstStep + lane.step;
    const Step& step = run.plan->steps[stepIndex];
    if (!lane.entered) {
      if (!waitOver(run, lane, step)) break;
      lane.entered = true;
      if (lane.step == 0) post(run, laneIndex, lane);
    }
    Resolved move;
    Readiness readiness = resolve(run, lane, step, stepIndex, alone, move);
    if (readiness == Readiness::failed) return LaneAnswer::failed;
    if (readiness == Readiness::blocked) break;
    if (readiness == Readiness::ready) {
      SubmittedMove submitted;
      submitted.step = stepIndex;
      submitted.repeat = lane.repeat;
      submitted.length = move.length;
      submitted.last = move.last;
      submitted.reads = referring(move.ends, move.received);
      if (const int source = beginReading(move.ends, submitted.reads); source >= 0) {
        lost(lane, *run.plan, submitted, source);
        return LaneAnswer::failed;
      }
      uint64_t bytes = 0;
      if (!submit(run, laneIndex, step, move, device, submitted, &bytes)) return LaneAnswer::failed;
      account(run, lane, move);
      if constexpr (kRunsAhead) {
        MovesInFlight& inFlight = device.inFlight(laneIndex);
        submitted.tasks = inFlight.tasks += submitted.tasks;
        inFlight.push(submitted);
        runAhead(move.ends, 1);
        alone = false;
      } else if (!commit(run, lane, move.ends, submitted)) {
        return LaneAnswer::failed;
      }
      budget -= 1 + static_cast<int>(bytes >> kBudgetShift);
    }
    progress = true;
    if (!next(run, lane, form, step)) continue;
    if (alone)
      finish(lane, 1);
    else if constexpr (kRunsAhead)
      ++device.inFlight(laneIndex).newest().steps;  // even one without a move is over after those before
  }
  if (lane.finished && alone) return LaneAnswer::done;
  return progress ? LaneAnswer::progress : LaneAnswer::blocked;
}

}  // namespace eccl
