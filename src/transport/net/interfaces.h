// Which of this host's addresses are worth telling the others.
#pragma once

#include <string>
#include <vector>

#include "base/settings.h"
#include "base/system.h"
#include "transport/net/address.h"

namespace eccl::transport {

struct InterfaceOptions {
  /// ECCL_SOCKET_IFNAME, NCCL's rules: comma-separated prefixes; a leading '^' excludes instead; a leading '='
  /// ("=eth0", "^=docker0,docker1") asks for whole names. Empty: all.
  std::string names;
  /// ECCL_SOCKET_FAMILY: AF_UNSPEC (both), AF_INET or AF_INET6.
  int family = AF_UNSPEC;
};

InterfaceOptions interfaceOptions(const Settings& settings);

struct Interface {
  std::string name;
  SocketAddress address;  ///< port 0
  bool operator==(const Interface& other) const = default;
};

/// Every IPv4 and IPv6 address of every interface that is up. IPv6 link-local addresses are left out: their
/// scope means nothing on another host.
Result<std::vector<Interface>> listInterfaces(System& system);

/// The ones `options` selects, best first; never empty. With a list of names its order decides; without,
/// InfiniBand
/// ("ib"), then ordinary ones, then bridges of containers and virtual machines, loopback last, IPv4 before IPv6
/// inside each class. A selection that matches nothing is an error (invalidArgument) that lists what exists.
Result<std::vector<Interface>> chooseInterfaces(const std::vector<Interface>& all,
                                                const InterfaceOptions& options);

}  // namespace eccl::transport
