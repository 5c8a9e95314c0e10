// What ranks and rank 0 tell each other of flows, over the control tree.
#pragma once

#include <string>
#include <string_view>

#include "transport/flows/flow_way.h"

namespace eccl::transport {

/// How fast a flow is. A value.
struct FlowPace {
  uint64_t bytesPerSecond = 0;  ///< while there was something to send
  uint32_t megabits = 0;        ///< of the slower of its two rails, in 10^6 bits per second; 0: not known
  bool lost = false;            ///< packets, meanwhile
  bool operator==(const FlowPace& other) const = default;
};

/// A value. Of the sender's own flows, to rank 0: ask: `flow` can go by these ways, which is it to take? pace:
/// this is how fast it is; nobody says by which way it goes; moved, stayed: the same after a `move`. changed:
/// what was said of ways is true no more.
/// From rank 0: answer: go from this port; more: find out the ways of more ports, and ask again; move: see
/// whether another port is better, and say the pace; again, to all: find out the ways of all flows anew.
struct FlowMessage {
  enum class Kind : uint8_t { ask = 1, answer, changed, again, more, pace, move, moved, stayed };
  Kind kind = Kind::ask;
  uint64_t flow = 0;          ///< the rank's own name of it; changed, again: 0
  std::vector<FlowWay> ways;  ///< ask: one or more
  uint16_t port = 0;          ///< answer
  FlowPace pace;              ///< pace, moved, stayed
  bool tellsPace() const { return kind == Kind::pace || kind == Kind::moved || kind == Kind::stayed; }
  bool toRankZero() const { return kind == Kind::ask || kind == Kind::changed || tellsPace(); }

  std::string encode() const;
  /// Bounded; for bytes from outside. Error (remote): a message that cannot be. Not logged.
  static Result<FlowMessage> decode(std::string_view bytes);
};

}  // namespace eccl::transport
