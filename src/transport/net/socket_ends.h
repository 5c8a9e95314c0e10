// The two addresses of a connected socket.
#pragma once

#include <string>

#include "transport/net/address.h"
#include "transport/net/fd.h"

namespace eccl::transport {

/// A value. An address that could not be found out is empty, as on AF_UNIX.
struct SocketEnds {
  SocketAddress local, remote;
  /// "10.0.0.1:4000 to 10.0.0.2:5000".
  std::string text() const { return local.text() + " to " + remote.text(); }
};

SocketAddress localAddress(const Fd& socket);
SocketEnds endsOf(const Fd& socket);

}  // namespace eccl::transport
