// Messages that are read from the sender's own memory: single copy between processes that cannot map each
// other's memory. The slot has a reference, as for memory in a window (kSlotGet), but an address in the
// sender's process, marked by kInProcess. The receiver reads it by the kernel, before the move's work: to where
// the move writes, or aside.
//
// For the host alone, and for devices that complete in submit().
#pragma once

#include "program/move_ends.h"

namespace eccl {

/// How a receiving end reads the memory of its sender's process. Owner: the path. Threads: the driver's.
class RemoteReads {
 public:
  RemoteReads() = default;
  virtual ~RemoteReads() = default;
  RemoteReads(const RemoteReads&) = delete;
  RemoteReads& operator=(const RemoteReads&) = delete;
  /// none: `length` bytes at `address` of that process are at `to`. poisoned: the process is no more. window:
  /// it has nothing there that can be read.
  virtual LaneFault read(uint64_t address, std::byte* to, uint32_t length) = 0;
  /// Memory for the message of a move's source number `source`, until the move is over.
  virtual std::byte* aside(int source) = 0;
};

namespace interpreter {

/// The sources of a move that are to be read from a process, a bit for each.
inline uint8_t inProcesses(const MoveEnds& ends, const Received* received, uint8_t reads) {
  uint8_t found = 0;
  for (int i = 0; reads >> i != 0; ++i) {
    if ((reads >> i & 1) != 0 && ends.from[i]->isInProcess(received[i])) found |= static_cast<uint8_t>(1u << i);
  }
  return found;
}

/// Reads these sources between beginReading() and the work, which then finds them as if they had come in slots,
/// or where they belong already. `whole`: where the move puts its only source, in one piece; null if there is
/// no such place. -1, or the source that cannot be read, and *fault.
inline int readSources(const MoveEnds& ends, Received* received, uint8_t which, std::byte* whole,
                       LaneFault* fault) {
  for (int i = 0; which >> i != 0; ++i) {
    if ((which >> i & 1) == 0) continue;
    RemoteReads& remote = *ends.from[i]->remote;
    std::byte* const to = whole != nullptr && ends.sources == 1 ? whole : remote.aside(i);
    *fault = remote.read(received[i].offset & ~kInProcess, to, received[i].length);
    if (*fault != LaneFault::none) {
      // A sender that has taken its memory back may have unmapped it since.
      if (ends.from[i]->poisoned()) *fault = LaneFault::poisoned;
      return i;
    }
    received[i].flags = static_cast<uint16_t>(received[i].flags & ~kSlotGet);
    received[i].flags |= to == whole ? kSlotPut : kSlotStreamed;  // in no slot, either: nothing to claim
    received[i].data = to;
  }
  return -1;
}

}  // namespace interpreter
}  // namespace eccl
