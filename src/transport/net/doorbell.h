// What wakes a thread that sleeps in a poller. An Fd without a descriptor is a doorbell that nobody hears:
// ringing it does nothing.
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
/// Any thread, as long as the Fd stays as it is.
inline void ringBell(const Fd& bell) {
  if (bell) bell.system().ringEvent(bell.get());
}
/// By the thread that was woken, before it looks for what there is to do.
inline void clearBell(const Fd& bell) {
  if (bell) bell.system().clearEvent(bell.get());
}

}  // namespace eccl::transport
