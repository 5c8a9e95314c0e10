// What wakes a thread that sleeps in a poller.
#pragma once

#include <cerrno>

#include "transport/net/fd.h"

namespace eccl::transport {

/// Readable from ringBell() until clearBell(). Error: no descriptors. Not logged.
inline Result<Fd> openBell(System& system) {
  Fd bell(system.eventFd(), system);
  if (!bell) return Status::fromErrno(errno, "eventfd (raise 'ulimit -n'?)");
  return bell;
}
/// Any thread.
inline void ringBell(const Fd& bell) {
  if (bell) bell.system().ringEvent(bell.get());
}
inline void clearBell(const Fd& bell) {
  if (bell) bell.system().clearEvent(bell.get());
}

}  // namespace eccl::transport
