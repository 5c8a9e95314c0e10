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

#include "program/direct_memory.h"

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
  if (received.epoch != end.epoch) return fail(lane, LaneFault::epoch, connection, end.epoch, received.epoch);
  if (received.signature != run.signature) {
    return fail(lane, LaneFault::signature, connection, run.signature, received.signature);
  }
  if (received.length != move.length || ((received.flags & kSlotLast) != 0) != move.last) {
    return fail(lane, LaneFault::length, connection, move.length, received.length);
  }
  if (received.length > end.shape.slotBytes) {
    return fail(lane, LaneFault::length, connection, end.shape.slotBytes, received.length);
  }
  if ((received.flags & kSlotReference) != 0 && !end.theirs.holds(received.offset, received.length)) {
    return fail(lane, LaneFault::reference, connection, end.theirs.size, received.offset);
  }
  if ((received.flags & kSlotPlaced) != 0 && !end.granted()) {
    return fail(lane, LaneFault::reference, connection, 0, received.length);
  }
  return Readiness::ready;
}

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
      uint64_t tiles = plan.cut.tiles(move.elements);
      if (lane.tile >= (tiles > 0 ? tiles : 1)) return Readiness::skip;
      move.last = lane.tile + 1 >= tiles;
    } else if (move.length == 0) {
      return Readiness::skip;
    }
  }
  // Look at every connection before touching any: a blocked move leaves no trace.
  bool blocked = false;
  for (int i = 0; i < step.sources; ++i) {
    if (operands[i].space != Space::connection) continue;
    int32_t connection = operands[i].index.at(lane.repeat);
    ReceiveEnd& end = *plan.receivers[connection];
    if (!end.peek(move.received[i])) {
      if (end.poisoned()) return fail(lane, LaneFault::poisoned, connection, 0, 0);
      if (identified && !end.answered()) grantDestination(run, step, move, lane.tile, end, end.next);
      blocked = true;
      continue;
    }
    if (!identified) {  // a relay: the message says what it is
      move.length = move.received[i].length;
      move.last = (move.received[i].flags & kSlotLast) != 0;
    }
    if (Readiness checked = checkReceived(run, lane, connection, move.received[i], move, end);
        checked != Readiness::ready) {
      return checked;
    }
  }
  for (int i = step.sources; i < step.sources + step.destinations; ++i) {
    if (operands[i].space != Space::connection) continue;
    int32_t connection = operands[i].index.at(lane.repeat);
    SendEnd& end = *plan.senders[connection];
    if (end.reserve() != nullptr && !(run.patient && operands[i].placed && end.mayBeGranted(move.length)))
      continue;
    if (end.poisoned()) return fail(lane, LaneFault::poisoned, connection, 0, 0);
    blocked = true;
  }
  return blocked ? Readiness::blocked : Readiness::ready;
}

/// Brackets the use of memory that received references name. False: a sender has revoked its references.
ECCL_DEVICE inline bool beginReading(const PlanView& plan, LaneState& lane, const Step& step,
                                     const Resolved& move) {
  for (int i = 0; i < step.sources; ++i) {
    const Operand& operand = plan.operands[step.firstOperand + i];
    if (operand.space != Space::connection || (move.received[i].flags & kSlotReference) == 0) continue;
    int32_t connection = operand.index.at(lane.repeat);
    if (plan.receivers[connection]->beginReading()) continue;
    for (int j = 0; j < i; ++j) {
      const Operand& held = plan.operands[step.firstOperand + j];
      if (held.space == Space::connection) plan.receivers[held.index.at(lane.repeat)]->endReading();
    }
    fail(lane, LaneFault::poisoned, connection, 0, 0);
    return false;
  }
  return true;
}

/// False: a sender has revoked its references since beginReading(), so the result is worth nothing.
ECCL_DEVICE inline bool endReading(const PlanView& plan, LaneState& lane, const Step& step,
                                   const Resolved& move) {
  bool intact = true;
  for (int i = 0; i < step.sources; ++i) {
    const Operand& operand = plan.operands[step.firstOperand + i];
    if (operand.space != Space::connection || (move.received[i].flags & kSlotReference) == 0) continue;
    const int32_t connection = operand.index.at(lane.repeat);
    if (plan.receivers[connection]->endReading()) continue;
    fail(lane, LaneFault::poisoned, connection, 0, 0);
    intact = false;
  }
  return intact;
}

/// Hands the move to the device, piece by piece; nothing where references say it all. Returns the device's
/// bytes.
template <class Device>
ECCL_DEVICE uint64_t submit(const RunView& run, int32_t laneIndex, const Step& step, const Resolved& move,
                            Device& device) {
  const PlanView& plan = *run.plan;
  LaneState& lane = run.lanes[laneIndex];
  std::byte* messages[kMaxOperands];
  placeMessages(run, lane, step, move, messages);
  const Operand* operands = plan.operands + step.firstOperand;
  bool whole = onePiece(plan, move);
  int32_t pieces = whole ? 1 : move.count;
  uint64_t messageAt = 0;  // bytes into messages
  uint64_t submitted = 0;
  for (int32_t j = 0; j < pieces; ++j) {
    Slice slice = plan.cut.slice(move.elements, move.part + j, lane.tile);
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
      if ((lane.placed >> i & 1) != 0) task.userMask |= static_cast<uint8_t>(1u << task.destinations);
      if (messages[i] != nullptr) task.destination[task.destinations++] = messages[i] + messageAt;
    }
    for (int i = 0; i < step.sources; ++i) {
      const Operand& operand = operands[i];
      const std::byte* from;
      if (operand.space == Space::connection) {
        const Received& received = move.received[i];
        if ((received.flags & kSlotPlaced) != 0) {
          from = task.destination[0];  // only whole messages for memory are granted a place
        } else if ((received.flags & kSlotReference) != 0) {
          from = plan.receivers[operand.index.at(lane.repeat)]->theirs.at(received.offset) + messageAt;
        } else {
          from = received.data + messageAt;
        }
      } else {
        from = memoryAt(run, operand, move.extent[i], part, slice);
      }
      task.source[i] = from;
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

/// Publishes what was produced and returns what was consumed.
ECCL_DEVICE inline void commit(const RunView& run, LaneState& lane, const Step& step, const Resolved& move) {
  const PlanView& plan = *run.plan;
  const Operand* operands = plan.operands + step.firstOperand;
  if (plan.streams) {
    if (!move.last)
      lane.live = true;
    else if (move.relayed != nullptr)
      *move.relayed = 1;
  }
  for (int i = step.sources; i < step.sources + step.destinations; ++i) {
    if (operands[i].space != Space::connection) continue;
    SendEnd& end = *plan.senders[operands[i].index.at(lane.repeat)];
    uint16_t flags = move.last ? kSlotLast : 0;
    if ((lane.placed >> (i - step.sources) & 1) != 0) {
      end.endWriting();
      flags |= kSlotPlaced;
    } else if (uint64_t offset; byReference(run, lane, step, move, end, &offset)) {
      end.reserve()->offset = offset;
      flags |= kSlotReference;
    }
    end.publish(move.length, flags, run.signature);
  }
  for (int i = 0; i < step.sources; ++i) {
    if (operands[i].space != Space::connection) continue;
    plan.receivers[operands[i].index.at(lane.repeat)]->release();
  }
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
        if (!beginReading(*run.plan, lane, step, move)) return LaneAnswer::failed;
        budget -= static_cast<int>(submit(run, laneIndex, step, move, device) >> kBudgetShift);
        lane.submitted = true;
      }
      if (!device.test(laneIndex)) break;  // resolving again finds the same move
      lane.submitted = false;
      if (!endReading(*run.plan, lane, step, move)) return LaneAnswer::failed;
      commit(run, lane, step, move);
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
