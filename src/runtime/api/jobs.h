// Threads that go on with what a non-blocking call has begun.
#pragma once

#include <atomic>
#include <functional>
#include <list>
#include <mutex>

#include "base/system.h"

namespace eccl::runtime {

/// The background work of one handle. Owner: whoever the work is for; it calls join() before it ends. Any
/// thread may start and join, but no job joins itself.
class Jobs {
 public:
  /// Runs `body` in a thread of its own. `body` reports its own errors and does not throw. Error (system):
  /// there can be no more threads; `body` is not run.
  Status start(std::function<void()> body);
  /// Waits for all that were started before the call.
  void join();

 private:
  struct Job {
    Thread thread;
    std::atomic<bool> done{false};
  };
  std::mutex mutex_;
  std::list<Job> jobs_;
};

}  // namespace eccl::runtime
