// Rails: the network interfaces that a rank spreads its traffic over, and which of two ranks' go together.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "transport/net/interfaces.h"

namespace eccl::transport {

/// One interface of a host, with the address at which its rank can be called. Two ranks' rails with the same
/// position are taken to belong together; only a connection proves it.
struct Rail {
  std::string interface;
  SocketAddress address;  ///< with the listener's port
  uint32_t megabits = 0;  ///< 10^6 bits per second; 0: not known
  bool operator==(const Rail& other) const = default;
};

inline constexpr size_t kMaxRails = 16;
/// Of one connection.
inline constexpr size_t kMaxSockets = 64;
/// The kernel's IFNAMSIZ, without the NUL.
inline constexpr size_t kMaxInterfaceName = 15;

/// The rails among `chosen` (chooseInterfaces()), best first. Those that the user lists by name are rails. Else
/// those are that are of the same kind as the best. `portOf` is the listener's port for a family.
std::vector<Rail> railsOf(const std::vector<Interface>& chosen, const InterfaceOptions& options,
                          const std::function<uint16_t(int family)>& portOf);

/// Fills in what `megabits` says of each interface. Those slower than an eighth of the fastest are left out
/// unless the user lists them by name: the last part of a message would wait for them.
void weighRails(std::vector<Rail>& rails, const InterfaceOptions& options,
                const std::function<uint32_t(const std::string& interface)>& megabits);

/// A socket between two ranks: by numbers of their rails.
struct RailPair {
  int mine = 0, theirs = 0;
  bool operator==(const RailPair&) const = default;
};

/// Which sockets a connection has, the first of them first: each rail of the side that has more of them is used
/// `socketsEach` times, up to kMaxSockets. Between ranks that have an address in common, which are on one host,
/// there is one rail. With `cross` false a rail is joined only to the one of the same position.
std::vector<RailPair> railPairs(const std::vector<Rail>& mine, const std::vector<Rail>& theirs, int socketsEach,
                                bool cross);

}  // namespace eccl::transport
