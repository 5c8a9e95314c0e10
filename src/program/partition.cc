#include "program/partition.h"

#include <algorithm>

#include "program/slot_ring.h"

namespace eccl {

Partition partitionFor(const Program& program, uint64_t largestBlock, uint32_t elementBytes,
                       uint64_t slotBytes) {
  const auto parts = static_cast<uint64_t>(program.parts);
  // Parts begin at cache lines where blocks are large enough for every part to have one.
  const bool large = largestBlock * elementBytes >= parts * kCacheLine;
  Partition partition;
  partition.parts = program.parts;
  partition.grain = large && elementBytes < kCacheLine ? kCacheLine / elementBytes : 1;
  const uint64_t most = slotBytes / elementBytes / static_cast<uint64_t>(program.messageParts);
  partition.tile = std::max<uint64_t>(1, std::min(most, partition.longestPart(largestBlock)));
  return partition;
}

}  // namespace eccl
