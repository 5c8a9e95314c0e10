// A message that grows: it is published before its data is in the slot, and the receiver copies what is there
// while the sender writes the rest. So a copy in two steps takes little longer than one step. For the host
// alone, between two processors that look at one ring.
//
// Only who follows a message sees it before it is whole. Everybody else finds it when it is (ReceiveEnd::peek),
// so whoever has followed it in vain leaves no trace, but for bytes in memory that the message is for.
#pragma once

#include <algorithm>

#include "base/atomics.h"
#include "program/slot_ring.h"

namespace eccl {

/// Messages of at least so many bytes grow.
inline constexpr uint32_t kGrowFrom = 16384;
/// Messages of a Broadcast grow if they have at most so many bytes. A Broadcast of 64 KiB, in two messages,
/// took .94 of the time in a common cache and as long without one, one of 128 KiB .94 and 1.08 (AMD EPYC,
/// family 26 model 2, 2026-12-01).
inline constexpr uint32_t kBroadcastGrowsTo = 32768;
/// By so many bytes at a time a message of `length` bytes grows. Each piece takes a turn of the line that tells
/// of it; the first and the last are those in which only one side works.
constexpr uint32_t growthOf(uint32_t length) {
  return length < 65536 ? 8192 : 16384;
}
/// So far behind what is written the reader stays, until all is: the processor fetches lines ahead, which the
/// writer would have to take back. With it 256 KiB took 10.4 us in pieces of 8 KiB, without 13.7
/// (perf/results/single_copy.md).
inline constexpr uint32_t kGrowthMargin = 2048;

/// After SendEnd::grow(), and before finish(): has `copy(at, bytes)` write the data piece by piece.
template <class Copy>
void writeGrowing(SendEnd& end, uint32_t length, const Copy& copy) {
  for (uint32_t at = 0; at < length;) {
    const uint32_t bytes = std::min(growthOf(length), length - at);
    copy(at, bytes);
    at += bytes;
    if (at < length) end.grown(at);
  }
}

/// Has `copy(at, bytes)` take the coming message, which peekGrowing() found and nothing is wrong with, until it
/// is whole. False: for so many looks nothing, or next to nothing, has come.
template <class Copy>
bool readGrowing(const ReceiveEnd& end, uint32_t length, int looks, const Copy& copy) {
  constexpr uint32_t kLeast = 4096;  // less than a piece is without the margin
  int idle = 0;
  for (uint32_t at = 0; at < length;) {
    auto there = static_cast<uint32_t>(std::min<uint64_t>(end.grownTo(), length));
    if (there < length) there -= std::min(there, kGrowthMargin);
    if (there == length || there >= at + kLeast) {
      copy(at, there - at);
      at = there;
      idle = 0;
    } else if (++idle > looks) {
      return false;
    } else {
      relaxProcessor();
    }
  }
  return true;
}

}  // namespace eccl
