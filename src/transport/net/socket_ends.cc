#include "transport/net/socket_ends.h"

namespace eccl::transport {

SocketAddress localAddress(const Fd& socket) {
  sockaddr_storage name{};
  socklen_t size = sizeof name;
  if (socket.system().getsockname(socket.get(), reinterpret_cast<sockaddr*>(&name), &size) != 0) return {};
  return SocketAddress::from(reinterpret_cast<sockaddr*>(&name));
}

SocketEnds endsOf(const Fd& socket) {
  SocketEnds ends{localAddress(socket), {}};
  sockaddr_storage name{};
  socklen_t size = sizeof name;
  if (socket.system().getpeername(socket.get(), reinterpret_cast<sockaddr*>(&name), &size) == 0)
    ends.remote = SocketAddress::from(reinterpret_cast<sockaddr*>(&name));
  return ends;
}

}  // namespace eccl::transport
