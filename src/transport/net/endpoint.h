// Where one rank's Acceptor can be reached: what ranks tell each other.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "base/system.h"
#include "transport/net/rails.h"
#include "transport/net/secret.h"

namespace eccl::transport {

/// Plain value, sent through the rendezvous and the control tree. Host name, process id and boot id are for
/// messages and as hints of what to try first; none of them proves that two ranks share a host.
struct Endpoint {
  Identity identity{};                   ///< the Acceptor's; also names its AF_UNIX socket
  std::vector<SocketAddress> addresses;  ///< TCP candidates, best first
  std::vector<Rail> rails;               ///< what connections are spread over, best first; may be empty
  bool hasUnix = false;  ///< an abstract AF_UNIX listener exists, in the owner's network namespace
  int32_t pid = 0;       ///< in the owner's pid namespace
  std::string host;
  std::array<uint8_t, 16> bootId{};  ///< /proc/sys/kernel/random/boot_id; zero when unreadable

  static constexpr size_t kMaxAddresses = 32;
  static constexpr size_t kMaxHost = 255;

  /// Name of the abstract AF_UNIX socket, without the leading NUL.
  std::string unixName() const { return "eccl-" + toHex(identity); }
  /// "host pid 123", for messages.
  std::string who() const;

  /// At most about 2 KiB.
  std::string encode() const;
  /// Bounded; for bytes from outside. Errors (remote) say which field is wrong.
  static Result<Endpoint> decode(std::string_view bytes);
};

/// This host's name, this process's id and the boot id filled in; no identity, no addresses. What cannot be
/// found out stays empty. Characters of the name that decode() would refuse become "?".
Endpoint localEndpoint(System& system);

}  // namespace eccl::transport
