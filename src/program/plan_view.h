// A Program bound to sizes and connections, and one execution of it, as the interpreter sees them: plain
// data, on the host or on a device. Nothing here owns what it points to: that is the Plan's and the Run's
// (runtime/execution/plan.h and run.h).
#pragma once

#include "program/delivery.h"
#include "program/partition.h"
#include "program/program.h"
#include "program/slot_ring.h"

namespace eccl {

/// Where a block lies in its buffer, in elements.
struct BlockExtent {
  uint64_t offset, elements;
};

/// A Program with sizes and connections. Constant while Runs use it, so any thread may read it; the
/// connections' ends are the driver's.
struct PlanView {
  const Lane* lanes = nullptr;
  const Step* steps = nullptr;
  const Operand* operands = nullptr;
  BlockMap maps[kMemorySpaces];
  bool streams = false;
  uint32_t elementBytes = 1;
  uint64_t tiles = 1;  // of a pass over all steps; streams end by themselves
  Partition partition;
  /// By position in the buffer; nullptr: every block has blockElements, one after the other.
  const BlockExtent* extents[kMemorySpaces] = {};
  uint64_t blockElements = 0;
  /// By lane: for how many tiles after the current one memory is offered ahead; -1: nothing is posted. nullptr:
  /// nothing in any lane.
  const int8_t* ahead = nullptr;
  /// By lane: not 0 where several tiles may be made together (program/joined_tiles.h). nullptr: nowhere.
  const uint8_t* joins = nullptr;
  /// By connection of the Program. Of each the end that this side has counts; the other one is not used.
  SendEnd* const* senders = nullptr;
  ReceiveEnd* const* receivers = nullptr;

  /// Where a block of a space lies. The space's map has the block; not for scratch.
  ECCL_DEVICE BlockExtent extent(Space space, int32_t block) const {
    int s = static_cast<int>(space);
    int32_t position = maps[s].position(block);
    if (extents[s] != nullptr) return extents[s][position];
    return {static_cast<uint64_t>(position) * blockElements, blockElements};
  }
};

/// Why a lane has failed. LaneState has the details.
enum class LaneFault : uint8_t {
  none,
  signature,  // the peer is in another call
  length,     // the message is not as long as this side expects
  epoch,      // a message of an earlier life of the communicator
  poisoned,   // the peer has failed
  window,     // the message names memory outside every window
  device,     // what runs the moves has refused one, or failed
};

/// Where a lane is: at the next move to be submitted. Owner: the Run. Written by the one thread that advances
/// the lane. Other lanes read `done` alone, by an acquiring load.
struct LaneState {
  uint64_t tile = 0;
  int32_t step = 0, repeat = 0;
  bool entered = false;  // the current step's wait is over
  bool live = false;     // streams: something goes on in the next tile
  uint64_t postedTiles = 0;
  bool finished = false;
  uint64_t done = 0;  // steps completed: tile * steps + step
  uint64_t moves = 0;
  LaneFault fault = LaneFault::none;
  int32_t faultConnection = -1;      // none: the fault is this rank's own
  uint64_t expected = 0, found = 0;  // of what the fault is about: lengths or signatures
};

/// One execution of a PlanView. Owner: the Run. `buffers` may be null where the plan has no bytes in them.
struct RunView {
  const PlanView* plan = nullptr;
  std::byte* buffers[kMemorySpaces] = {};
  LaneState* lanes = nullptr;
  uint8_t* relayed = nullptr;          // streams: a flag per repetition of every step
  const int32_t* relayedAt = nullptr;  // streams: first flag of each step
  uint32_t signature = 0;
  bool scales = false;   // raw contributions are scaled as they are read
  bool patient = false;  // places for long messages are worth waiting for
  /// Tiles from this one on are not begun yet: their input is not there. May grow while the Run goes on.
  uint64_t readyTiles = UINT64_MAX;
};

/// A move that a device has been given, and what is to be done when it is complete.
struct SubmittedMove {
  int32_t step = 0, repeat = 0;  // step: into PlanView::steps
  uint32_t length = 0;           // of its messages, bytes
  bool last = true;              // they are
  uint32_t tiles = 1;            // that are made together; more only if nothing is sent
  uint64_t bytes = 0;            // of them all
  Passed passed;                 // how they go
  uint8_t reads = 0;             // sources in memory that received messages name
  uint32_t steps = 0;            // of the lane that are over with it
  uint64_t tasks = 0;            // of the lane, up to its last
};

/// The moves of one lane that have been submitted and not committed, oldest first. Owner: a device that
/// completes moves later, which keeps one for each lane. push() needs one that is not full(); the others need
/// count > 0.
struct MovesInFlight {
  static constexpr uint32_t kMax = 8;
  SubmittedMove moves[kMax];
  uint32_t first = 0, count = 0;
  uint64_t tasks = 0;  // submitted so far

  ECCL_DEVICE bool full() const { return count == kMax; }
  ECCL_DEVICE SubmittedMove& oldest() { return moves[first % kMax]; }
  ECCL_DEVICE SubmittedMove& newest() { return moves[(first + count - 1) % kMax]; }
  ECCL_DEVICE void push(const SubmittedMove& move) { moves[(first + count++) % kMax] = move; }
  ECCL_DEVICE void pop() {
    ++first;
    --count;
  }
};

/// What a device is asked to do: every destination = the reduction of the sources (kernels/reduce.h). Raw
/// contributions are scaled first, a final result is divided last. A destination may be the same address as a
/// source; nothing else overlaps.
struct MoveTask {
  int sources = 0, destinations = 0;
  bool post = false;
  uint8_t preMask = 0;     // bit i: source i is a raw contribution
  uint8_t userMask = 0;    // bit i: destination i is memory of a user, this rank's or the receiver's
  uint8_t claimMask = 0;   // bit i: source i is a slot, that is to be claimed
  uint8_t streamMask = 0;  // bit i: destination i is a message that is better written past the caches
  uint64_t elements = 0;
  const std::byte* source[kMaxOperands] = {};
  std::byte* destination[kMaxOperands] = {};
};

}  // namespace eccl
