// How long a blocking call may wait, and what ends it early.
//
//   while (!complete()) {
//     if (wait.aborted()) return abortedWhile("doing this");
//     if (wait.expired()) return Status::error(Code::timeout, ...);
//     wait.onFd(fd);
//   }
#pragma once

#include <poll.h>

#include <algorithm>
#include <atomic>
#include <functional>

#include "base/system.h"

namespace eccl::transport {

/// How long one blocking call may wait. A value, handed to every call that blocks; what it points to outlives
/// the call.
struct Wait {
  TimePoint deadline = TimePoint::max();
  const std::atomic<bool>* abort = nullptr;          ///< not owned; true ends the call within kSlice
  const std::function<void()>* meanwhile = nullptr;  ///< not owned; called before each sleep in onFd()

  System* system = &System::real();  ///< not owned; whose time it is, and where threads sleep

  /// An abort flag has no descriptor to sleep on, so a sleeper looks at it this often.
  static constexpr Duration kSlice = std::chrono::milliseconds(20);

  /// A wait until `limit` from now. A limit too large for the clock is none.
  static Wait within(Duration limit, const std::atomic<bool>* abort = nullptr,
                     System& system = System::real()) {
    const TimePoint now = system.now();
    return {limit < TimePoint::max() - now ? now + limit : TimePoint::max(), abort, nullptr, &system};
  }
  bool aborted() const { return abort != nullptr && abort->load(std::memory_order_acquire); }
  bool expired() const { return system->now() >= deadline; }
  Duration left() const { return std::max(Duration::zero(), deadline - system->now()); }

  /// Sleeps until `fd` is ready for `events`, `until`, the deadline, or one slice has passed; the caller
  /// looks which. fd -1: only sleeps.
  void onFd(int fd, TimePoint until = TimePoint::max(), short events = POLLIN) const {
    if (meanwhile != nullptr) (*meanwhile)();
    const TimePoint now = system->now();
    const Duration sleep = std::clamp(std::min(until, deadline) - now, Duration::zero(), kSlice);
    system->poll(fd, events, sleep);
  }
};

/// The error (internal) of a call that the abort flag has ended. Not logged.
inline Status abortedWhile(const char* doing) {
  return Status::error(Code::internal, "aborted while %s: the communicator's abort was called", doing);
}
inline double seconds(Duration d) {
  return std::chrono::duration<double>(d).count();
}

}  // namespace eccl::transport
