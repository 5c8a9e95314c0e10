// Events with a real descriptor, which is readable as long as there is one.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <deque>
#include <mutex>

namespace eccl::verbs_emulation {

/// Owned by a context or a channel; guarded by World::mutex.
template <class Event>
class EventQueue {
 public:
  EventQueue() : descriptor_(eventfd(0, EFD_CLOEXEC)) {}
  ~EventQueue() { close(descriptor_); }
  EventQueue(const EventQueue&) = delete;
  EventQueue& operator=(const EventQueue&) = delete;

  int descriptor() const { return descriptor_; }
  void push(Event event) {
    events_.push_back(event);
    if (events_.size() == 1) (void)!eventfd_write(descriptor_, 1);
  }
  bool pop(Event* event) {
    if (events_.empty()) return false;
    *event = events_.front();
    events_.pop_front();
    quietIfEmpty();
    return true;
  }
  template <class Predicate>
  void drop(Predicate&& predicate) {
    const auto end = std::remove_if(events_.begin(), events_.end(), predicate);
    if (end == events_.end()) return;
    events_.erase(end, events_.end());
    quietIfEmpty();
  }

 private:
  void quietIfEmpty() {
    eventfd_t unused;
    if (events_.empty()) eventfd_read(descriptor_, &unused);
  }

  int descriptor_;
  std::deque<Event> events_;
};

/// Calls `take`, under the lock, until it returns true, and waits for the descriptor in between. As read(): -1
/// with EAGAIN where the descriptor is non-blocking, with EINTR after a signal. `take` returns true also if
/// there is nothing to wait for any more.
template <class Take>
int await(std::mutex& mutex, int descriptor, Take&& take) {
  for (;;) {
    {
      const std::lock_guard lock(mutex);
      if (take()) return 0;
    }
    if ((fcntl(descriptor, F_GETFL) & O_NONBLOCK) != 0) {
      errno = EAGAIN;
      return -1;
    }
    pollfd one{descriptor, POLLIN, 0};
    if (poll(&one, 1, -1) < 0) return -1;
  }
}

}  // namespace eccl::verbs_emulation
