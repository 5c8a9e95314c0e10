// Where the data of long messages lies in a ring of slots (program/slot_ring.h).
#pragma once

#include "program/ring_layout.h"

namespace eccl {

/// The sender's choice, in lines from where data begins. Messages lie one behind the other, those of
/// kSpreadFrom and more from a page on, and from the beginning again when as much as all of them may hold lies
/// behind, so that what is under way is not met. Where nothing is under way, the latter go round in `spread`
/// lines, and shorter ones to the same place.
///
/// Whether anything is under way is in a line that the receiver has just written, which takes its time to come.
/// Messages of kSpreadFrom and more ask at the end of a round alone, shorter ones each time. How that is
/// written matters: half a round trip of 1 KiB took 7 % longer where both answers ended in one assignment, and
/// 16 % without a common cache (AMD EPYC, family 25 model 17, 2026-11-30; perf/results/epyc-25-17/ways.md).
struct DataPlaces {
  uint64_t line = 0;    // behind the last message
  uint64_t turn = 0;    // where shorter ones begin if nothing is under way: behind the last other
  uint64_t spread = 0;  // <= RingShape::areaLines()

  /// Where the next message begins. `needed`: RingShape::neededLines(). `idle()`: whether nothing is under way.
  template <class Idle>
  ECCL_DEVICE uint64_t take(uint32_t length, uint64_t needed, Idle&& idle) {
    const uint64_t lines = (length + kCacheLine - 1) / kCacheLine;
    if (length < kSpreadFrom) {
      if (idle()) [[likely]] {
        line = turn + lines;
        return turn;
      }
      return takeFrom(line, lines, needed);
    }
    const uint64_t next = pageFrom(line);
    const uint64_t begin = takeFrom(next >= spread && idle() ? 0 : next, lines, needed);
    turn = pageFrom(line) < spread ? pageFrom(line) : 0;
    return begin;
  }

 private:
  ECCL_DEVICE uint64_t takeFrom(uint64_t begin, uint64_t lines, uint64_t needed) {
    if (begin >= spread && begin >= needed) begin = 0;
    line = begin + lines;
    return begin;
  }
  /// The first line of a page that does not lie before this one.
  ECCL_DEVICE static constexpr uint64_t pageFrom(uint64_t at) {
    constexpr uint64_t kPageLines = kDataPage / kCacheLine;
    return (at + kPageLines - 1) / kPageLines * kPageLines;
  }
};

}  // namespace eccl
