// epoll with the two rules that fork and nesting ask for.
#pragma once

#include <sys/epoll.h>

#include <cerrno>
#include <cstdint>

#include "base/status.h"
#include "transport/net/fd.h"

namespace eccl::transport {

/// Level-triggered set of descriptors; its own fd() is readable while any of them is ready. One thread.
/// A registration outlives close() while a forked child holds the same socket, so forget() comes before
/// closing; in the child only close() is called, since epoll_ctl there would change the parent's set.
class Poller {
 public:
  Status open() {
    set_.reset(epoll_create1(EPOLL_CLOEXEC));
    return set_ ? Status() : Status::fromErrno(errno, "epoll_create1 (raise 'ulimit -n'?)");
  }
  int fd() const { return set_.get(); }
  void close() { set_.reset(); }

  /// Adds `fd`, or changes what is awaited. `tag` comes back in the event's data.u64.
  Status watch(int fd, uint32_t events, uint64_t tag) {
    epoll_event event{};
    event.events = events;
    event.data.u64 = tag;
    if (epoll_ctl(set_.get(), EPOLL_CTL_MOD, fd, &event) == 0) return {};
    if (errno == ENOENT && epoll_ctl(set_.get(), EPOLL_CTL_ADD, fd, &event) == 0) return {};
    return Status::fromErrno(errno, "epoll_ctl on descriptor %d", fd);
  }
  void forget(int fd) {
    if (set_ && fd >= 0) epoll_ctl(set_.get(), EPOLL_CTL_DEL, fd, nullptr);
  }
  /// What is ready now; never sleeps.
  template <int N>
  int ready(epoll_event (&events)[N]) {
    const int count = epoll_wait(set_.get(), events, N, 0);
    return count < 0 ? 0 : count;
  }

 private:
  Fd set_;
};

}  // namespace eccl::transport
