// The parts of messages that went over one socket, as long as they may have to go over another.
#pragma once

#include <cstdint>
#include <deque>
#include <string>

#include "program/slot_ring.h"

namespace eccl::transport {

/// That the kernel has taken a part proves nothing: only the release of its message says that it has come.
/// Owner: the sending path. Threads: the driver's.
class SentParts {
 public:
  void add(const SendEnd& end, uint64_t message, uint32_t offset, uint32_t bytes);
  /// The frames and the data of those that have not been released, to be sent again (kAgain). Copies: who is
  /// late with them must not read what is released meanwhile.
  std::string again(const SendEnd& end) const;

 private:
  struct Part {
    uint64_t message;
    uint32_t offset, bytes;
  };
  std::deque<Part> parts_;  // by message
};

}  // namespace eccl::transport
