// A flow of packets that a device sends by itself, over Ethernet and UDP.
#pragma once

#include <string>

#include "transport/net/address.h"

namespace eccl::transport {

/// A value. What switches see of it but for its source port. Ports are 0.
struct DeviceFlow {
  std::string interface;  ///< of this host, by which it leaves
  SocketAddress from, to;
};

/// Where RoCE's packets go to; assigned by IANA.
inline constexpr uint16_t kRocePort = 4791;

}  // namespace eccl::transport
