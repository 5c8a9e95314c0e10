// Runs lanes. One source for the host and for CUDA.
//
//   advance(run, lane, budget, device) → progress | blocked | done | failed
//
// Nothing is held between calls but the LaneState, so any number of lanes runs on any number of workers. A
// lane is advanced by one worker at a time. The device is asked by submit() and test(), never waited for:
//
//   void submit(int32_t lane, const MoveTask&);  // may be called several times for one move
//   bool test(int32_t lane);                     // true when all tasks of the lane's move are complete
#pragma once

#include "program/offers.h"

namespace eccl {

enum class LaneAnswer : uint8_t { progress, blocked, done, failed };

namespace interpreter {

enum class Readiness : uint8_t { ready, blocked, skip, failed };

ECCL_DEVICE inline Readiness fail(LaneState& lane, LaneFault fault, int32_t connection, uint64_t expected,
                                  uint64_t found) {
  lane.fault = fault;
  lane.faultConnection = connection;
  lane.expected = expected;
  lane.found = found;
  return Readiness::failed;
}

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

ECCL_DEVICE inline Readiness resolve(const RunView& run, LaneState& lane, const Step& step, int32_t stepIndex,
                                     Resolved& move) {
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
      if (!end.answered() && offerOf(plan, step, move, end) != Offer::never)
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

/// Hands the move to the device, piece by piece; nothing where references say it all. Returns the device's
/// bytes.
template <class Device>
ECCL_DEVICE uint64_t submit(const RunView& run, int32_t laneIndex, const Step& step, const Resolved& move,
                            Device& device) {
  const PlanView& plan = *run.plan;
  LaneState& lane = run.lanes[laneIndex];
  std::byte* messages[kMaxOperands];
  lane.passed = placeMessages(move.ends, outgoing(plan, step, move, run.scales),
                              SourceOf{run, step, move, lane.tile}, messages);
  const Operand* operands = plan.operands + step.firstOperand;
  bool whole = onePiece(plan, move);
  int32_t pieces = whole ? 1 : move.count;
  uint64_t messageAt = 0;  // bytes into messages
  uint64_t submitted = 0;
  for (int32_t j = 0; j < pieces; ++j) {
    Slice slice = plan.partition.slice(move.elements, move.part + j, lane.tile);
    MoveTask task;
    task.elements = whole ? move.length / plan.elementBytes : slice.size();
    task.post = step.post;
    uint64_t part = static_cast<uint64_t>(move.part + j);
    for (int i = 0; i < step.destinations; ++i) {
      const Operand& operand = operands[step.sources + i];
      if (operand.space != Space::connection) {
        if (operand.space != Space::scratch) task.userMask |= static_cast<uint8_t>(1u << task.destinations);
        task.destination[task.destinations++] =
            memoryAt(run, operand, move.extent[step.sources + i], part, slice);
        continue;
      }
      if ((lane.passed.puts >> i & 1) != 0) task.userMask |= static_cast<uint8_t>(1u << task.destinations);
      if (messages[i] != nullptr) task.destination[task.destinations++] = messages[i] + messageAt;
    }
    for (int i = 0; i < step.sources; ++i) {
      const Operand& operand = operands[i];
      const std::byte* written = task.destination[0];  // only whole messages for memory are offered a place
      task.source[i] = operand.space != Space::connection
                           ? memoryAt(run, operand, move.extent[i], part, slice)
                           : dataOf(*move.ends.from[i], move.received[i], messageAt, written);
      if (operand.pre) task.preMask |= static_cast<uint8_t>(1u << i);
    }
    task.sources = step.sources;
    messageAt += slice.size() * plan.elementBytes;
    if (task.elements == 0 || task.destinations == 0) continue;
    device.submit(laneIndex, task);
    submitted += task.elements * plan.elementBytes;
  }
  return submitted;
}

/// The move is complete: its messages go out, and what it took is given back.
ECCL_DEVICE inline void commit(const RunView& run, LaneState& lane, const Resolved& move) {
  if (run.plan->streams) {
    if (!move.last)
      lane.live = true;
    else if (move.relayed != nullptr)
      *move.relayed = 1;
  }
  const uint16_t flags = move.last ? kSlotLast : 0;
  commit(move.ends, lane.passed, move.length, flags, run.signature);
}

/// The sender of that source of the move has failed and taken its memory back.
ECCL_DEVICE inline LaneAnswer lost(LaneState& lane, const PlanView& plan, const Step& step, int source) {
  fail(lane, LaneFault::poisoned, plan.operands[step.firstOperand + source].index.at(lane.repeat), 0, 0);
  return LaneAnswer::failed;
}

ECCL_DEVICE inline bool waitOver(const RunView& run, const LaneState& lane, const Step& step) {
  if (step.waitLane == kNoLane || (step.waitPreviousTile && lane.tile == 0)) return true;
  uint64_t tile = step.waitPreviousTile ? lane.tile - 1 : lane.tile;
  uint64_t steps = static_cast<uint64_t>(run.plan->lanes[step.waitLane].steps);
  // Pairs with the storeRelease of `done` in next().
  return loadAcquire(&run.lanes[step.waitLane].done) > tile * steps + static_cast<uint64_t>(step.waitStep);
}

ECCL_DEVICE inline void next(const RunView& run, LaneState& lane, const Lane& form, const Step& step) {
  if (++lane.repeat < step.repeat) return;
  lane.repeat = 0;
  lane.entered = false;
  if (++lane.step == form.steps) {
    lane.step = 0;
    ++lane.tile;
    bool more = run.plan->streams ? lane.live : lane.tile < run.plan->tiles;
    lane.live = false;
    if (!more) lane.finished = true;
  }
  storeRelease(&lane.done, lane.done + 1);
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
  for (int i = 0; i < step.sources + step.destinations; ++i) {
    if (operands[i].space != Space::connection) continue;
    const int32_t connection = operands[i].index.at(lane.repeat);
    Received received;
    if (i < step.sources ? !plan.receivers[connection]->peek(received)
                         : plan.senders[connection]->reserve() == nullptr)
      visit(connection);
  }
}

}  // namespace interpreter

/// What others wait for must not wait for long moves: so many bytes, as a power of two, count as a move.
inline constexpr int kBudgetShift = 13;

/// Executes up to `budget` moves of one lane, fewer if they are long.
template <class Device>
ECCL_DEVICE LaneAnswer advance(const RunView& run, int32_t laneIndex, int budget, Device& device) {
  using namespace interpreter;
  LaneState& lane = run.lanes[laneIndex];
  const Lane& form = run.plan->lanes[laneIndex];
  if (lane.fault != LaneFault::none) return LaneAnswer::failed;
  if (form.steps == 0 || (!run.plan->streams && run.plan->tiles == 0)) lane.finished = true;
  bool progress = false;
  while (!lane.finished && budget > 0) {
    int32_t stepIndex = form.firstStep + lane.step;
    const Step& step = run.plan->steps[stepIndex];
    if (!lane.entered) {
      if (!waitOver(run, lane, step)) break;
      lane.entered = true;
      if (lane.step == 0) post(run, laneIndex, lane);
    }
    Resolved move;
    Readiness readiness = resolve(run, lane, step, stepIndex, move);
    if (readiness == Readiness::failed) return LaneAnswer::failed;
    if (readiness == Readiness::blocked) break;
    if (readiness == Readiness::ready) {
      if (!lane.submitted) {
        if (const int source = beginReading(move.ends, move.received); source >= 0)
          return lost(lane, *run.plan, step, source);
        budget -= static_cast<int>(submit(run, laneIndex, step, move, device) >> kBudgetShift);
        lane.submitted = true;
      }
      if (!device.test(laneIndex)) break;  // resolving again finds the same move
      lane.submitted = false;
      if (const int source = endReading(move.ends, move.received); source >= 0) {
        abandon(move.ends, lane.passed);
        return lost(lane, *run.plan, step, source);
      }
      commit(run, lane, move);
      ++lane.moves;
      --budget;
    }
    progress = true;
    next(run, lane, form, step);
  }
  if (lane.finished) return LaneAnswer::done;
  return progress ? LaneAnswer::progress : LaneAnswer::blocked;
}

}  // namespace eccl
