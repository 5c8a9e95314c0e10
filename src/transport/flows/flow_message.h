// What ranks and rank 0 tell each other of flows, over the control tree.
#pragma once

#include <string>
#include <string_view>

#include "transport/flows/flow_way.h"

namespace eccl::transport {

/// A value. ask: to rank 0; a flow of the sender's can go by these ways, which is it to take? answer: by the
/// one from this port. changed: to rank 0; what was said of ways is true no more. again: from rank 0 to all;
/// find out the ways of all flows anew.
struct FlowMessage {
  enum class Kind : uint8_t { ask = 1, answer, changed, again };
  Kind kind = Kind::ask;
  uint64_t flow = 0;          ///< ask, answer: the asking rank's own name of it
  std::vector<FlowWay> ways;  ///< ask: one or more
  uint16_t port = 0;          ///< answer

  std::string encode() const;
  /// Bounded; for bytes from outside. Error (remote): a message that cannot be. Not logged.
  static Result<FlowMessage> decode(std::string_view bytes);
};

}  // namespace eccl::transport
