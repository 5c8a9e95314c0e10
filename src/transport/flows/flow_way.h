// Ways of a flow through the network. On a fabric with several paths between two hosts (ECMP), switches choose
// by a hash of addresses and ports. So the source port decides, and whoever opens a flow can choose its path.
#pragma once

#include <string>
#include <vector>

#include "transport/net/address.h"

namespace eccl::transport {

/// What a flow from one source port passes. A value.
struct FlowWay {
  uint16_t port = 0;
  /// Routers, nearest first, as each calls itself: usually by the address at which the packet came in, which
  /// names the link to it. Ports are 0. An empty address: that one says nothing.
  std::vector<SocketAddress> hops;
  bool operator==(const FlowWay& other) const = default;
};

/// Beyond so many routers nobody looks.
inline constexpr size_t kMaxHops = 8;
/// Of one flow.
inline constexpr size_t kMaxWays = 32;

/// The routers of a way, "10.0.0.1 ? 10.2.0.1": "?" is one that says nothing.
std::string routersOf(const FlowWay& way);

/// How many ways there are that differ in a hop.
size_t differentWays(const std::vector<FlowWay>& ways);

}  // namespace eccl::transport
