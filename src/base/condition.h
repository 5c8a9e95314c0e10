// Sleeping until another thread changes what a mutex protects.
#pragma once

#include <condition_variable>
#include <mutex>

#include "base/system.h"

namespace eccl {

/// std::condition_variable, for threads of any System. Owner and threads: of what the mutex protects.
/// notifyAll() is called under the mutex.
class Condition {
 public:
  /// `system` is that of all threads that wait here, and outlives this.
  explicit Condition(System& system) : parking_(system.parking()) {}

  void notifyAll() {
    if (parking_ == nullptr)
      kernel_.notify_all();
    else
      parking_->unpark(this);
  }
  /// Gives the mutex up, sleeps until notifyAll(), and has the mutex again. May return without a reason.
  void wait(std::unique_lock<std::mutex>& lock) {
    if (parking_ == nullptr)
      kernel_.wait(lock);
    else
      park(lock, System::kForever);
  }
  /// Returns when `satisfied`.
  template <class Predicate>
  void wait(std::unique_lock<std::mutex>& lock, const Predicate& satisfied) {
    while (!satisfied()) wait(lock);
  }
  /// As wait(), for at most `limit`. The caller looks why it has returned.
  void waitFor(std::unique_lock<std::mutex>& lock, Duration limit) {
    if (parking_ == nullptr)
      kernel_.wait_for(lock, limit);
    else
      park(lock, limit);
  }

 private:
  // Nobody runs between unlock() and park(): where threads park they take turns.
  void park(std::unique_lock<std::mutex>& lock, Duration limit) {
    lock.unlock();
    parking_->park(this, limit);
    lock.lock();
  }

  Parking* const parking_;
  std::condition_variable kernel_;
};

}  // namespace eccl
