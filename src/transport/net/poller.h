// epoll, with two rules that forks and nested sets make necessary.
#pragma once

#include <cerrno>
#include <cstdint>

#include "base/status.h"
#include "transport/net/fd.h"

namespace eccl::transport {

/// Level-triggered set of descriptors; its own fd() is readable while any of them is ready. One thread.
///
/// A registration outlives close() while a forked child holds the same socket. So forget() comes before
/// closing. In the child only close() is called, since epoll_ctl there would change the parent's set.
class Poller {
 public:
  /// Once, before the rest. Error: no descriptors. Not logged.
  Status open(System& system) {
    set_ = Fd(system.epollCreate(), system);
    return set_ ? Status() : Status::fromErrno(errno, "epoll_create1 (raise 'ulimit -n'?)");
  }
  int fd() const { return set_.get(); }
  /// In a forked child, or as the last act.
  void close() { set_.reset(); }

  /// Adds `fd`, or changes what is awaited (EPOLLIN, EPOLLOUT). `tag` comes back in the event's data.u64.
  /// Error (system): `fd` cannot be watched. Not logged.
  Status watch(int fd, uint32_t events, uint64_t tag) {
    epoll_event event{};
    event.events = events;
    event.data.u64 = tag;
    if (control(EPOLL_CTL_MOD, fd, &event) == 0) return {};
    if (errno == ENOENT && control(EPOLL_CTL_ADD, fd, &event) == 0) return {};
    return Status::fromErrno(errno, "epoll_ctl on descriptor %d", fd);
  }
  /// Takes `fd` out of the set; does nothing if it is not in it, or -1.
  void forget(int fd) {
    if (set_ && fd >= 0) control(EPOLL_CTL_DEL, fd, nullptr);
  }
  /// Sleeps until something is ready, at most for `limit`. Returns how many events there are; 0 also when it
  /// was interrupted.
  int wait(epoll_event* events, int most, Duration limit) {
    const int count = set_.system().epollWait(set_.get(), events, most, limit);
    return count < 0 ? 0 : count;
  }
  /// What is ready now; never sleeps.
  template <int N>
  int ready(epoll_event (&events)[N]) {
    return wait(events, N, Duration::zero());
  }

 private:
  int control(int operation, int fd, epoll_event* event) {
    return set_.system().epollControl(set_.get(), operation, fd, event);
  }

  Fd set_;
};

}  // namespace eccl::transport
