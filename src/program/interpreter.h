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

#include "program/resolving.h"
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
  for (uint32_t tile = 0; tile < move.tiles; ++tile) {
    commit(ends, move.passed, move.length, flags, run.signature);
    ++lane.moves;
  }
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
/// bytes, as a power of two, count as one move. The last move may take more than is left: up to kJoinedBytes.
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
    uint32_t tiles = 1;
    if (readiness == Readiness::ready) {
      SubmittedMove submitted;
      submitted.step = stepIndex;
      submitted.repeat = lane.repeat;
      submitted.bytes = submitted.length = move.length;
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
      tiles = submitted.tiles;
    }
    progress = true;
    lane.tile += tiles - 1;
    if (!next(run, lane, form, step)) continue;
    if (alone)
      finish(lane, tiles);
    else if constexpr (kRunsAhead)
      ++device.inFlight(laneIndex).newest().steps;  // even one without a move is over after those before
  }
  if (lane.finished && alone) return LaneAnswer::done;
  return progress ? LaneAnswer::progress : LaneAnswer::blocked;
}

}  // namespace eccl
