#include "transport/net/address.h"

#include <arpa/inet.h>
#include <netdb.h>

#include <cstddef>
#include <cstring>
#include <memory>

namespace eccl::transport {

SocketAddress SocketAddress::from(const sockaddr* address) {
  SocketAddress result;
  if (address->sa_family == AF_INET) std::memcpy(&result.u_.v4, address, sizeof result.u_.v4);
  if (address->sa_family == AF_INET6) std::memcpy(&result.u_.v6, address, sizeof result.u_.v6);
  return result;
}

SocketAddress SocketAddress::any(int family, uint16_t port) {
  SocketAddress result;
  result.u_.base.sa_family = static_cast<sa_family_t>(family);  // all zero is the wildcard in both families
  return result.withPort(port);
}

Result<std::vector<SocketAddress>> SocketAddress::resolve(const std::string& text, int family) {
  // The last colon separates the port; an IPv6 address has more of them and needs its brackets.
  const size_t colon = text.rfind(':');
  std::string host = colon == text.npos ? "" : text.substr(0, colon);
  const std::string port = colon == text.npos ? "" : text.substr(colon + 1);
  const bool bracketed = host.size() >= 2 && host.front() == '[' && host.back() == ']';
  if (bracketed) host = host.substr(1, host.size() - 2);
  const bool digits = !port.empty() && port.size() <= 5 && port.find_first_not_of("0123456789") == port.npos;
  const int number = digits ? std::stoi(port) : 0;
  if (host.empty() || number < 1 || number > 65535 || (!bracketed && host.find(':') != host.npos)) {
    return Status::error(Code::invalidArgument,
                         "'%s' is not an address: write HOST:PORT or [IPV6]:PORT, with a port from 1 to 65535",
                         text.c_str());
  }
  addrinfo hints{};
  hints.ai_family = family;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* all = nullptr;
  if (int failure = getaddrinfo(host.c_str(), port.c_str(), &hints, &all); failure != 0) {
    return Status::error(Code::system, "the host name in '%s' cannot be resolved: %s", text.c_str(),
                         gai_strerror(failure));
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> list(all, freeaddrinfo);
  std::vector<SocketAddress> found;
  for (const addrinfo* item = all; item != nullptr; item = item->ai_next) {
    if (SocketAddress address = from(item->ai_addr); address.valid()) found.push_back(address);
  }
  return found;
}

SocketAddress SocketAddress::withPort(uint16_t port) const {
  SocketAddress result = *this;
  (family() == AF_INET6 ? result.u_.v6.sin6_port : result.u_.v4.sin_port) = htons(port);
  return result;
}

bool SocketAddress::isLoopback() const {
  if (family() == AF_INET) return (ntohl(u_.v4.sin_addr.s_addr) >> 24) == 127;
  return family() == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&u_.v6.sin6_addr);
}

bool SocketAddress::isLinkLocal() const {
  return family() == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&u_.v6.sin6_addr);
}

std::string SocketAddress::text() const {
  char name[INET6_ADDRSTRLEN] = "";
  if (family() == AF_INET) {
    inet_ntop(AF_INET, &u_.v4.sin_addr, name, sizeof name);
    return format("%s:%u", name, port());
  }
  if (family() != AF_INET6) return "(no address)";
  inet_ntop(AF_INET6, &u_.v6.sin6_addr, name, sizeof name);
  return format("[%s]:%u", name, port());
}

void SocketAddress::encode(ByteWriter& to) const {
  to.put<uint8_t>(family() == AF_INET6 ? 6 : 4).put(port());
  if (family() == AF_INET6)
    to.put(u_.v6.sin6_addr);
  else
    to.put(u_.v4.sin_addr);
}

SocketAddress SocketAddress::decode(ByteReader& from) {
  const uint8_t kind = from.get<uint8_t>();
  const uint16_t port = from.get<uint16_t>();
  SocketAddress result;
  if (kind == 4) {
    result = any(AF_INET, port);
    result.u_.v4.sin_addr = from.get<in_addr>();
  } else if (kind == 6) {
    result = any(AF_INET6, port);
    result.u_.v6.sin6_addr = from.get<in6_addr>();
  }
  return result;
}

socklen_t abstractAddress(const std::string& name, sockaddr_un* to) {
  *to = {};
  to->sun_family = AF_UNIX;
  const size_t length =
      name.copy(to->sun_path + 1, sizeof to->sun_path - 1);  // the leading NUL makes it abstract
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
}

}  // namespace eccl::transport
