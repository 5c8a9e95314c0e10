// Proves a schedule: all ranks' Programs together.
//
//  - Structure: every program describes the same call, holds the buffers its collective defines, and every
//    connection has two ends, each used by exactly one lane in its direction.
//  - Sends match receives in order and extent; no operand leaves its buffer.
//  - Conflicting accesses to memory are ordered (vector clocks over lanes).
//  - Every output block ends with exactly the contributions the collective asks for, none twice, each
//    scaled (pre) and finished (post) exactly once.
//  - No deadlock with minSlots slots per connection, which is computed.
//  - Every operand claimed stable is: its memory is not written before the receiver has read it.
// It runs 1, 2 and minSlots+1 tiles; docs/schedule.md argues why that suffices for any number.
#pragma once

#include <string>
#include <vector>

#include "algorithms/collective.h"
#include "base/program.h"

namespace eccl {

struct Verdict {
  bool ok = false;
  std::string reason;  // why not: rank, lane, step, tile, and what is wrong
  int minSlots = 0;    // least slots per connection without deadlock
  /// Operands (rank, index into Program::operands) that could be marked stable; the claimed ones are a subset.
  std::vector<std::pair<int, int>> stable;
};

/// The most slots a schedule may need; more is taken for a deadlock.
inline constexpr int kMostSlots = 8;

/// `programs[r]` is rank r's. inPlace: input and output are one buffer wherever the API allows it.
Verdict verify(const std::vector<Program>& programs, bool inPlace);

/// The part of verify() that needs no execution. "" or what is wrong.
std::string verifyStructure(const std::vector<Program>& programs);

}  // namespace eccl
