// A lock of which everybody can see whether it is taken.
#pragma once

#include <atomic>
#include <mutex>

namespace eccl {

/// A std::mutex. Any thread.
class VisibleLock {
 public:
  void lock() {
    mutex_.lock();
    taken_.store(true, std::memory_order_relaxed);
  }
  bool try_lock() {
    if (!mutex_.try_lock()) return false;
    taken_.store(true, std::memory_order_relaxed);
    return true;
  }
  void unlock() {
    taken_.store(false, std::memory_order_release);
    mutex_.unlock();
  }
  /// Whether a thread has it. If not, all that was done under it can be seen.
  bool isTaken() const { return taken_.load(std::memory_order_acquire); }

 private:
  std::mutex mutex_;
  std::atomic<bool> taken_{false};
};

}  // namespace eccl
