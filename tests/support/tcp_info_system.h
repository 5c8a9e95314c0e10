// A machine whose kernel says what a test wants of its TCP sockets.
#pragma once

#include <linux/tcp.h>
#include <netinet/in.h>

#include <algorithm>
#include <cstring>

#include "support/forwarding_system.h"

namespace eccl::test {

/// All else is the real system's.
class TcpInfoSystem : public ForwardingSystem {
 public:
  TcpInfoSystem() : ForwardingSystem(System::real()) {}
  int getsockopt(int fd, int level, int name, void* value, socklen_t* size) override {
    if (level != IPPROTO_TCP || name != TCP_INFO)
      return ForwardingSystem::getsockopt(fd, level, name, value, size);
    const tcp_info info = tell();
    std::memcpy(value, &info, *size = std::min<socklen_t>(*size, sizeof info));
    return 0;
  }

 private:
  /// What it says to whoever asks next.
  virtual tcp_info tell() = 0;
};

}  // namespace eccl::test
