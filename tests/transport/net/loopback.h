// A network of one's own to break.
#pragma once

#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <cstring>

#include "transport/net/fd.h"

namespace eccl::test {

/// Raises or lowers the loopback interface of this process's network namespace.
inline bool setLoopback(bool up) {
  transport::Fd any(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request{};
  strcpy(request.ifr_name, "lo");
  if (ioctl(any.get(), SIOCGIFFLAGS, &request) != 0) return false;
  request.ifr_flags = static_cast<short>(up ? request.ifr_flags | IFF_UP : request.ifr_flags & ~IFF_UP);
  return ioctl(any.get(), SIOCSIFFLAGS, &request) == 0;
}

}  // namespace eccl::test
