// An IPv4 or IPv6 address with its port.
#pragma once

#include <netinet/in.h>
#include <sys/un.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "transport/net/bytes.h"

namespace eccl::transport {

/// A value. The default one is empty: valid() is false, and port(), withPort() and raw() say nothing.
class SocketAddress {
 public:
  SocketAddress() = default;
  /// Empty when the family is neither AF_INET nor AF_INET6.
  static SocketAddress from(const sockaddr* address);
  /// The wildcard address. `family` is AF_INET or AF_INET6.
  static SocketAddress any(int family, uint16_t port);
  /// "192.0.2.1:5000", "[2001:db8::1]:5000" or "host.name:5000", best first. Looks names up, so it may block
  /// for the resolver's time-out. `family`: AF_UNSPEC, AF_INET or AF_INET6. Errors name the text:
  /// invalidArgument if it is not of that form, system if the name is not known. Not logged.
  static Result<std::vector<SocketAddress>> resolve(const std::string& text, int family = AF_UNSPEC);

  bool valid() const { return family() != AF_UNSPEC; }
  int family() const { return u_.base.sa_family; }
  uint16_t port() const { return ntohs(family() == AF_INET6 ? u_.v6.sin6_port : u_.v4.sin_port); }
  SocketAddress withPort(uint16_t port) const;
  bool isLoopback() const;
  /// IPv6 fe80::/10: means nothing without an interface index, which is private to one host.
  bool isLinkLocal() const;
  /// Whether the two are equal but for their ports.
  bool sharesHost(const SocketAddress& other) const { return withPort(0) == other.withPort(0); }
  /// "192.0.2.1:5000" or "[2001:db8::1]:5000".
  std::string text() const;
  /// The same without the port.
  std::string hostText() const { return text().substr(0, text().rfind(':')); }

  const sockaddr* raw() const { return &u_.base; }
  socklen_t rawSize() const { return family() == AF_INET6 ? sizeof u_.v6 : sizeof u_.v4; }

  /// One byte 4 or 6, two of port, 4 or 16 of address.
  void encode(ByteWriter& to) const;
  static constexpr size_t encodedSize(int family) { return family == AF_INET6 ? 19 : 7; }
  /// Reads what encode() wrote. An unknown family byte gives an empty address. Bytes that are too few show in
  /// the reader (ByteReader::ok()).
  static SocketAddress decode(ByteReader& from);
  bool operator==(const SocketAddress& other) const { return text() == other.text(); }

 private:
  union {  // the largest comes first: initialising the union zeroes its first member
    sockaddr_in6 v6;
    sockaddr_in v4;
    sockaddr base;
  } u_{};
};

/// The first of `all`, rails or interfaces, that has this address, whatever the port; nullptr if none has.
template <class Addressed>
const Addressed* findAt(const std::vector<Addressed>& all, const SocketAddress& address) {
  for (const Addressed& one : all)
    if (one.address.sharesHost(address)) return &one;
  return nullptr;
}

/// Fills in the abstract AF_UNIX address `name` (no file, gone with its last socket) and returns its size. A
/// name of more than 107 bytes is cut.
socklen_t abstractAddress(const std::string& name, sockaddr_un* to);

}  // namespace eccl::transport
