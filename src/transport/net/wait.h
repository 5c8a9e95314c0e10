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

#include "base/condition.h"
#include "base/system.h"
#include "transport/net/poller.h"

namespace eccl::transport {

/// What a thread attends to while it waits for something else.
struct Meanwhile {
  Poller poller;  ///< readable when there is something to attend to; what is waited for is added for each sleep
  std::function<TimePoint()> attend;  ///< does it, without waiting; returns when to do so again in any case
};

/// How long one blocking call may wait. A value, handed to every call that blocks; what it points to outlives
/// the call.
struct Wait {
  TimePoint deadline = TimePoint::max();
  const std::atomic<bool>* abort = nullptr;  ///< not owned; true ends the call within kMaxSlice
  Meanwhile* meanwhile = nullptr;            ///< not owned; attended to before each sleep in onFd()
  System* system = &System::real();          ///< not owned; whose time it is, and where threads sleep
  TimePoint begun = {};                      ///< when the call began to wait

  /// An abort flag has no descriptor to sleep on, so a sleeper looks at it this often: after an eighth of the
  /// time it has waited, and so that all sleepers of this process look no more than 5,000 times a second,
  /// within these bounds. So a thousand ranks that wait cost their host little.
  static constexpr Duration kMinSlice = std::chrono::milliseconds(20);
  static constexpr Duration kMaxSlice = std::chrono::milliseconds(200);

  /// A wait until `limit` from now. A limit too large for the clock is none.
  static Wait within(Duration limit, const std::atomic<bool>* abort = nullptr,
                     System& system = System::real()) {
    const TimePoint now = system.now();
    return {limit < TimePoint::max() - now ? now + limit : TimePoint::max(), abort, nullptr, &system, now};
  }
  bool aborted() const { return abort != nullptr && abort->load(std::memory_order_acquire); }
  bool expired() const { return system->now() >= deadline; }
  Duration left() const { return std::max(Duration::zero(), deadline - system->now()); }

  /// Sleeps until `fd` is ready for `events`, `until`, the deadline, or one slice has passed; the caller
  /// looks which. fd -1: only sleeps.
  void onFd(int fd, TimePoint until = TimePoint::max(), short events = POLLIN) const {
    if (meanwhile != nullptr) until = std::min(until, meanwhile->attend());
    const Sleeper sleeper;
    const Duration left = std::min(until, deadline) - system->now();
    if (meanwhile == nullptr) {
      system->poll(fd, events, std::clamp(left, Duration::zero(), slice()));
      return;
    }
    // In one set. Where `fd` cannot be added, the caller looks at it after the shortest slice.
    Poller& both = meanwhile->poller;
    const bool added = fd < 0 || both.watch(fd, static_cast<uint32_t>(events), 0).ok();
    system->poll(both.fd(), POLLIN, std::clamp(left, Duration::zero(), added ? slice() : kMinSlice));
    both.forget(fd);
  }
  /// Sleeps until notified, the deadline, or one slice has passed; the caller looks which.
  void on(Condition& condition, std::unique_lock<std::mutex>& lock) const {
    const Sleeper sleeper;
    condition.waitFor(lock, std::min(left(), slice()));
  }

 private:
  static inline std::atomic<int> sleepers_{0};  // of this process
  struct Sleeper {
    Sleeper() { sleepers_.fetch_add(1, std::memory_order_relaxed); }
    ~Sleeper() { sleepers_.fetch_sub(1, std::memory_order_relaxed); }
  };
  Duration slice() const {
    constexpr Duration kEach = std::chrono::microseconds(200);
    const Duration all = sleepers_.load(std::memory_order_relaxed) * kEach;
    return std::clamp<Duration>(std::max(all, (system->now() - begun) / 8), kMinSlice, kMaxSlice);
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
