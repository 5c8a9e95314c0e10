// Which of this host's addresses are worth telling the others.
#pragma once

#include <string>
#include <vector>

#include "base/settings.h"
#include "base/system.h"
#include "transport/net/address.h"

namespace eccl::transport {

/// Which addresses of this host to use.
struct InterfaceOptions {
  /// ECCL_SOCKET_IFNAME, NCCL's rules: comma-separated prefixes; a leading '^' excludes instead; a leading '='
  /// ("=eth0", "^=docker0,docker1") asks for whole names. Empty: all.
  std::string names;
  /// ECCL_SOCKET_FAMILY: AF_UNSPEC (both), AF_INET or AF_INET6.
  int family = AF_UNSPEC;
};

/// What ECCL_SOCKET_IFNAME and ECCL_SOCKET_FAMILY say.
InterfaceOptions interfaceOptions(const Settings& settings);

/// One address of a network interface; an interface may have several.
struct Interface {
  std::string name;
  SocketAddress address;  ///< port 0
  bool operator==(const Interface& other) const = default;
};

/// Whether the user has listed interfaces by name, rather than excluded some or said nothing.
bool listsNames(const InterfaceOptions& options);

/// What an interface is, by its name and address. The best first.
enum class InterfaceKind : uint8_t { infiniBand, ordinary, bridge, loopback };
InterfaceKind kindOf(const Interface& one);

/// Every IPv4 and IPv6 address of every interface that is up. IPv6 link-local addresses are left out: their
/// scope means nothing on another host. Error: System::interfaces()'s.
Result<std::vector<Interface>> listInterfaces(System& system);

/// Those of `all` that `options` selects, best first; never empty. A list of names decides the order. Without
/// one, or with one that excludes, InfiniBand ("ib") comes first, then ordinary interfaces, then bridges of
/// containers and virtual machines, and loopback last. Within each of these IPv4 comes before IPv6. Error
/// (invalidArgument): the selection matches nothing; the sentence lists what exists. Not logged.
Result<std::vector<Interface>> chooseInterfaces(const std::vector<Interface>& all,
                                                const InterfaceOptions& options);

}  // namespace eccl::transport
