// The verifier: proves a schedule, the Programs of all ranks together.
//
//  - Structure: every program describes the same call, holds the buffers its collective defines, and every
//    connection has two ends, each used by exactly one lane in its direction. No operand leaves its buffer,
//    the input is never written, and all operands of a move are the same parts of the same block.
//  - Sends match receives in order and extent. Nothing that is sent is left over.
//  - Nothing deadlocks with minSlots slots per connection, which is computed.
//  - Conflicting accesses to memory are ordered, whatever pieces of the data are empty.
//  - Every output block ends with exactly the contributions the collective asks for, none twice, each scaled
//    (pre) and finished (post) exactly once.
//  - Every operand claimed stable is: its memory is not written before the receiver has read it. Every
//    operand claimed posted is: its memory is not in use any more when the message for it is sent.
//
// Control is run with 1, 2 and minSlots+1 tiles, and data is followed through as many as can meet in memory.
// docs/schedule.md argues why that suffices for any number of tiles, any slots from minSlots on, any lengths,
// and for ranks of which some are in place and others not, if both are verified.
//
// Threads: all functions are pure. They run on the caller's thread and do not log.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "algorithms/builder/collective.h"
#include "program/program.h"

namespace eccl::algorithms {

/// Bounds on what verify() does for programs that somebody else wrote. The defaults allow a ring over some
/// 5000 ranks, in a few gigabytes.
struct VerifyLimits {
  int64_t moves = 1 << 26;          // of all ranks in the tiles looked at together
  int64_t pieces = 1 << 26;         // blocks times parts
  int64_t work = int64_t{1} << 34;  // elementary operations
};

/// What was proved, or why not.
struct Verdict {
  bool ok = false;
  /// The limits ended it: `reason` says which, and nothing is known about the schedule.
  bool gaveUp = false;
  std::string reason;  // why not: rank, lane, step, tile, and what is wrong
  int minSlots = 0;    // least slots per connection without deadlock
  int64_t moves = 0;   // of all ranks, in one tile
  /// (rank, index into Program::operands) of sources whose memory the receiver may read in place of a copy.
  /// The operands claimed stable are among them.
  std::vector<std::pair<int, int>> stable;
  /// The same of destinations that the sender may write in place of a slot, from the beginning of the tile on.
  std::vector<std::pair<int, int>> posted;
};

/// The most slots a schedule may need; a schedule that needs more is taken for a deadlock.
inline constexpr int kMaxSlots = 8;

/// Proves the programs; `programs[r]` is rank r's. inPlace: input and output are one buffer wherever the API
/// allows it. Any programs may be given, also ones that make no sense: they are refuted.
Verdict verify(const std::vector<Program>& programs, bool inPlace, const VerifyLimits& limits = {});

/// The part of verify() that needs no execution. Returns "" or what is wrong.
std::string verifyStructure(const std::vector<Program>& programs);

}  // namespace eccl::algorithms
