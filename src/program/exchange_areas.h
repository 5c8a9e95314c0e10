// Memory that two ranks of a host hand to and fro with their messages.
//
// Who has written a line that another processor has read writes it again slowly; who has read it does not. An
// AMD EPYC (family 25 model 17) took 4.6 us for 32 KiB of the former, 0.8 for the latter
// (perf/results/epyc-25-17/ways.md). So the data of long messages lies in areas that change hands: whoever has
// taken a message owns the area that it came in, and its next message the other way goes there. Both sides know
// from the messages who owns which. A rank that owns none, because it sends more than it receives, writes into
// the ring itself, and so does one to which nothing comes back.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/atomics.h"

namespace eccl {

/// Memory that the other side sees is not named or written directly for less, while areas change hands: they
/// are as good as slots can be. In a common cache half a round trip of 4 and 8 KiB takes .21 and .26 us instead
/// of .29 and .31, AllGather of 8 and 16 KiB .29 and .38 instead of .42 and .48; without one .60 and .78
/// instead of .83 and .89, .75 and 1.14 instead of 1.17 and 1.22. Half a round trip of 16 KiB took .45 instead
/// of .37 (AMD EPYC, family 26 model 2, 2026-12-01).
inline constexpr uint32_t kDirectFromExchanged = 16384;

/// One side's part, which its ends of both rings share. Areas are numbered as this side sees them: first those
/// in the memory of the ring that it sends through, which it owns at first, then those of the other ring.
/// Plain data.
///
/// Owner: who has the memory of both rings. Threads: one at a time, the driver's.
struct ExchangeAreas {
  static constexpr uint32_t kEach = 4;  // in each ring
  static constexpr uint32_t kAll = 2 * kEach;
  static constexpr uint32_t kNone = UINT32_MAX;

  std::byte* memory[2] = {};  // where the areas of each ring begin; null: there is no such ring yet
  uint32_t areaBytes = 0;
  uint32_t count = 0;        // of those that this side owns
  uint8_t owned[kAll] = {};  // of them the last one was read last

  /// The number that the other side has for an area.
  ECCL_DEVICE static constexpr uint32_t turned(uint32_t area) { return area ^ kEach; }
  /// Whether this side owns one, and something comes back.
  ECCL_DEVICE bool gives() const { return count > 0 && memory[1] != nullptr; }
  /// Gives the one that this side has read last, as it is in the caches still. kNone: see gives().
  ECCL_DEVICE uint32_t give() { return gives() ? owned[--count] : kNone; }
  /// The area is this side's from now on. Not if it is already, or is none: the other side may say anything.
  ECCL_DEVICE void take(uint32_t area) {
    if (at(area) == nullptr) return;
    for (uint32_t i = 0; i < count; ++i)
      if (owned[i] == area) return;
    owned[count++] = static_cast<uint8_t>(area);
  }
  /// Where it is; nullptr: there is no such area.
  ECCL_DEVICE std::byte* at(uint32_t area) const {
    if (area >= kAll || memory[area / kEach] == nullptr) return nullptr;
    return memory[area / kEach] + size_t{area % kEach} * areaBytes;
  }
};

}  // namespace eccl
