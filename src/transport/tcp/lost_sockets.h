// What a receiver remembers of sockets that its sender has given up.
#pragma once

#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "transport/messages/assemblies.h"

namespace eccl::transport {

/// The parts that came over them come again, over the first socket: those that are there are dropped.
/// Owner: the receiving path. Threads: the driver's.
class LostSockets {
 public:
  using Part = std::pair<uint64_t, uint32_t>;  ///< number of a message, offset

  /// The sender's number of a socket, and the parts that have come over it.
  void add(uint64_t socket, const std::vector<Part>& came) {
    sockets_.insert(socket);
    came_.insert(came.begin(), came.end());
  }
  bool has(uint64_t socket) const { return sockets_.count(socket) != 0; }
  bool none() const { return sockets_.empty(); }
  /// Whether this part is there already.
  bool came(const Assemblies& assemblies, const MessageFrame& frame) const {
    return assemblies.isComplete(frame.sequence) || came_.count({frame.sequence, frame.offset}) != 0;
  }
  /// What nobody will send again.
  void forgetComplete(const Assemblies& assemblies) {
    std::erase_if(came_, [&](const Part& part) { return assemblies.isComplete(part.first); });
  }

 private:
  std::set<uint64_t> sockets_;
  std::set<Part> came_;  // of messages that are not complete
};

}  // namespace eccl::transport
