// Descriptors, and whom to tell when they are ready.
#pragma once

#include <cstdint>
#include <memory>

#include "base/status.h"
#include "transport/net/doorbell.h"
#include "transport/net/poller.h"

namespace eccl::transport {

/// Told by Reactor::poll(). Must outlive its registration.
class ReadyHandler {
 public:
  virtual ~ReadyHandler() = default;
  /// `events`: EPOLLIN, EPOLLOUT, EPOLLERR, EPOLLHUP, of a descriptor that this handler watches. May watch
  /// and forget any descriptor, its own too, and may end this handler after forgetting it; must not call
  /// poll().
  virtual void onReady(uint32_t events) = 0;
};

/// The one place where a driver sleeps: epoll, plus an eventfd as doorbell that peers on this host ring.
/// Owner: the communicator's engine. Threads: the driver's, one at a time; ring() any. Failure: open() and
/// watch() say why; poll() does not fail.
class Reactor {
 public:
  /// Once, before the rest. Error (system): no descriptors. Not logged.
  Status open(System& system);
  /// Adds fd or changes what it waits for. The handler gets the events until forget(). Error: see Poller. Not
  /// logged.
  Status watch(int fd, uint32_t events, ReadyHandler* handler);
  /// Before fd is closed. The handler is not called any more, not even for events already fetched.
  void forget(int fd, ReadyHandler* handler);
  /// Sleeps for `limit` at most (zero: only looks) and calls the handlers. True if anything happened, a ring
  /// of the doorbell included.
  bool poll(Duration limit);
  /// Readable while poll(0) would find something; for nesting.
  int fd() const { return poller_.fd(); }
  /// The eventfd to hand to peers on this host.
  int doorbell() const { return doorbell_->get(); }
  /// The same for threads of this process; it stays open as long as somebody may ring.
  const std::shared_ptr<Fd>& sharedDoorbell() const { return doorbell_; }
  /// Wakes poll(). Any thread.
  void ring();
  /// In a forked child: closes the descriptors of this process's set. Only destruction may follow.
  void closeAfterFork();

 private:
  static constexpr int kBatch = 64;
  Poller poller_;
  std::shared_ptr<Fd> doorbell_ = std::make_shared<Fd>();
  epoll_event fetched_[kBatch];
  int fetchedCount_ = 0, fetchedAt_ = 0;
};

}  // namespace eccl::transport
