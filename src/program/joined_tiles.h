// Tiles that a lane makes together, in one move: where memory goes on in the next tile as it ends in this one,
// one long copy takes less than several short ones. Each has its message all the same, so the sender need not
// know. For the host alone.
#pragma once

#include <algorithm>

#include "program/resolving.h"

namespace eccl::interpreter {

/// At most so many bytes, and half of the long messages that may be on their way, so that the sender goes on
/// meanwhile. Streams of 1 and 4 MiB that were not in halves took .91 and .94 of the time of messages one by
/// one, nearly as with messages of this size (registered memory, AMD EPYC, family 25 model 17, 2026-11-30;
/// perf/results/epyc-25-17/ways.md).
inline constexpr uint64_t kJoinedBytes = 1 << 20;

/// Whether all that the move receives is in memory that its messages name, `at` bytes behind what those of
/// `first`, which may be this move, name.
inline bool isBehind(const Resolved& first, uint64_t at, const Resolved& move) {
  for (int i = 0; i < first.ends.sources; ++i) {
    const ReceiveEnd* end = first.ends.from[i];
    if (end == nullptr) continue;
    const Received& received = move.received[i];
    if ((received.flags & kSlotGet) == 0 || end->isInProcess(received) ||
        received.offset != first.received[i].offset + at)
      return false;
  }
  return true;
}

/// Whether all messages that the move takes may be there. Unlike peek(), takes no note of those that are not.
inline bool haveCome(const MoveEnds& ends) {
  bool come = true;
  for (int i = 0; i < ends.sources; ++i) come &= ends.from[i] == nullptr || ends.from[i]->hasCome();
  return come;
}

/// Joins to a lane's next move, which is ready, those of the tiles behind it, as many as are ready, too.
inline void joinTiles(const RunView& run, int32_t laneIndex, const Step& step, Resolved& move,
                      SubmittedMove& submitted) {
  const PlanView& plan = *run.plan;
  if (plan.joins == nullptr || plan.joins[laneIndex] == 0 || !isBehind(move, 0, move)) return;
  LaneState lane = run.lanes[laneIndex];
  const uint64_t tiles = plan.streams ? plan.partition.tiles(move.elements) : plan.tiles;
  const uint64_t end = tiles < run.readyTiles ? tiles : run.readyTiles;
  uint64_t most = UINT64_MAX;
  for (int i = 0; i < move.ends.sources; ++i)
    if (const ReceiveEnd* from = move.ends.from[i]) most = std::min<uint64_t>(most, from->shape.mostLong() / 2);
  int ahead = 0;
  while (++lane.tile < end && submitted.tiles < most && submitted.bytes + submitted.length <= kJoinedBytes) {
    runAhead(move.ends, 1);
    ++ahead;
    Resolved next;
    if (!haveCome(move.ends) || resolve(run, lane, step, submitted.step, false, next) != Readiness::ready ||
        !isBehind(move, submitted.bytes, next))
      break;
    ++submitted.tiles;
    submitted.bytes += next.length;
    submitted.last = move.last = next.last;
  }
  runAhead(move.ends, -ahead);
}

}  // namespace eccl::interpreter
