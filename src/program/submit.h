// Handing a resolved move to a device (program/interpreter.h): where its messages go, what is read before, and
// the tasks that it is made of.
#pragma once

#include "program/joined_tiles.h"
#include "program/remote_reads.h"
#include "program/resolved_move.h"
#include "program/timed_move.h"

namespace eccl::interpreter {

/// Hands the move to the device, as one task for each contiguous piece. There is no task where references say
/// it all. Adds the bytes of the device's work to *bytes. False: the device refuses, and the fault is noted.
template <class Device>
ECCL_DEVICE bool submitPieces(const RunView& run, int32_t laneIndex, const Step& step, const Resolved& move,
                              Device& device, std::byte* const (&messages)[kMaxOperands],
                              SubmittedMove& submitted, uint64_t* bytes) {
  const PlanView& plan = *run.plan;
  LaneState& lane = run.lanes[laneIndex];
  const Operand* operands = plan.operands + step.firstOperand;
  bool whole = onePiece(plan, move);
  int32_t pieces = whole ? 1 : move.count;
  uint64_t messageAt = 0;  // bytes into messages
  for (int32_t j = 0; j < pieces; ++j) {
    Slice slice = plan.partition.slice(move.elements, move.part + j, lane.tile);
    MoveTask task;
    task.elements = whole ? submitted.bytes / plan.elementBytes : slice.size();
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
      // Of what the receiver chooses the executor decides nothing.
      const bool chosen = move.ends.to[i]->weighed && plan.tiles <= kMostChosen;
      if ((submitted.passed.puts >> i & 1) != 0 && !chosen)
        task.userMask |= static_cast<uint8_t>(1u << task.destinations);
      if ((submitted.passed.streams >> i & 1) != 0)
        task.streamMask |= static_cast<uint8_t>(1u << task.destinations);
      if (messages[i] != nullptr) task.destination[task.destinations++] = messages[i] + messageAt;
    }
    for (int i = 0; i < step.sources; ++i) {
      const Operand& operand = operands[i];
      const std::byte* written = task.destination[0];  // only whole messages for memory are offered a place
      task.source[i] = operand.space != Space::connection
                           ? memoryAt(run, operand, move.extent[i], part, slice)
                           : dataOf(*move.ends.from[i], move.received[i], messageAt, written);
      if (operand.pre) task.preMask |= static_cast<uint8_t>(1u << i);
      if (operand.space == Space::connection && claims(*move.ends.from[i], move.received[i]))
        task.claimMask |= static_cast<uint8_t>(1u << i);
    }
    task.sources = step.sources;
    messageAt += slice.size() * plan.elementBytes;
    if (task.elements == 0 || task.destinations == 0) continue;
    if (!device.submit(laneIndex, task)) {
      fail(lane, LaneFault::device, -1, 0, 0);
      return false;
    }
    ++submitted.tasks;
    // What a peer has written where it belongs takes no time, and what the kernel has read there has been
    // counted.
    const bool inPlace = task.sources == 1 && task.destinations == 1 && task.destination[0] == task.source[0];
    if (!inPlace) *bytes += task.elements * plan.elementBytes;
  }
  return true;
}

/// Reads these sources, which are in other processes. False: one cannot be read, and the fault is noted.
inline bool readSources(const RunView& run, LaneState& lane, const Step& step, Resolved& move,
                        std::byte* const (&messages)[kMaxOperands], Passed passed, uint8_t which) {
  const PlanView& plan = *run.plan;
  std::byte* whole = (passed.streams & 1) != 0 ? nullptr : messages[0];  // the kernel writes through the caches
  if (const Operand& to = plan.operands[step.firstOperand + step.sources]; to.space != Space::connection) {
    const Slice slice = plan.partition.slice(move.elements, move.part, lane.tile);
    whole = memoryAt(run, to, move.extent[step.sources], static_cast<uint64_t>(move.part), slice);
  }
  LaneFault fault;
  const int lost = readSources(move.ends, move.received, which, onePiece(plan, move) ? whole : nullptr, &fault);
  if (lost < 0) return true;
  const int32_t connection = plan.operands[step.firstOperand + lost].index.at(lane.repeat);
  fail(lane, fault, connection, 0, move.received[lost].offset);
  return false;
}

/// Makes the move, or has the device begin it. Decides how its messages go, which `submitted` remembers. Adds
/// the bytes of the device's work to *bytes. False: it cannot be made, and the fault is noted.
template <class Device>
ECCL_DEVICE bool submit(const RunView& run, int32_t laneIndex, const Step& step, Resolved& move, Device& device,
                        SubmittedMove& submitted, uint64_t* bytes) {
  LaneState& lane = run.lanes[laneIndex];
  std::byte* messages[kMaxOperands];
  const auto place = [&] {
    submitted.passed = placeMessages(move.ends, outgoing(*run.plan, step, move, run.scales),
                                     SourceOf{run, step, move, lane.tile}, messages);
  };
  if constexpr (Device::kCompletesInSubmit) {
    joinTiles(run, laneIndex, step, move, submitted);
    TimedMove timed(move.ends, move.length, run.plan->tiles);
    place();
    const uint8_t which = inProcesses(move.ends, move.received, submitted.reads);
    if (which != 0) *bytes += submitted.bytes;
    if ((which != 0 && !readSources(run, lane, step, move, messages, submitted.passed, which)) ||
        !submitPieces(run, laneIndex, step, move, device, messages, submitted, bytes)) {
      endReading(move.ends, submitted.reads);
      abandon(move.ends, submitted.passed);
      return false;
    }
    timed.complete(submitted.passed, submitted.tiles, submitted.bytes);
    return true;
  } else {
    place();
    return submitPieces(run, laneIndex, step, move, device, messages, submitted, bytes);
  }
}

}  // namespace eccl::interpreter
