// -T: notices an operation that does not end.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "common/names.h"

namespace eccl::perf {

/// One watching thread for all of a process's threads; none when the limit is 0. When a thread has been
/// within one operation for longer than the limit, `onTimeout` gets an error that says which ranks, which
/// operation and which size, for every thread that is late; it is expected to abort the communicators, which
/// makes the calls return. If the process is still there kLastResort later, it is ended.
class Watchdog {
 public:
  static constexpr std::chrono::seconds kLastResort{5};

  Watchdog(int limitSeconds, int threads, std::function<void(const Outcome&)> onTimeout);
  ~Watchdog();

  /// What `thread` is about to do, for the message. Not on the timed path.
  void describe(int thread, std::string what);
  /// `thread` enters and leaves an operation. One store of a clock reading; nothing when there is no limit.
  void begin(int thread) {
    if (limit_.count() > 0) enter(thread, false, std::chrono::nanoseconds(0));
  }
  /// As begin(), for waiting until all others have come as far: they may be checking their results, so the
  /// limit is three times as long and half a minute.
  void beginMeeting(int thread) {
    if (limit_.count() > 0) enter(thread, true, 2 * limit_ + std::chrono::seconds(30));
  }
  void end(int thread) {
    if (limit_.count() > 0) tasks_[thread].since.store(kIdle, std::memory_order_relaxed);
  }

 private:
  static constexpr int64_t kIdle = 0;
  struct Task {
    std::atomic<bool> meeting{false};
    std::atomic<int64_t> since{kIdle};  // steady nanoseconds
    std::string what;                   // guarded by mutex_
  };
  static int64_t now() { return std::chrono::steady_clock::now().time_since_epoch().count(); }
  void enter(int thread, bool meeting, std::chrono::nanoseconds grace) {
    tasks_[thread].meeting.store(meeting, std::memory_order_relaxed);
    tasks_[thread].since.store(now() + grace.count(), std::memory_order_relaxed);
  }
  void watch();
  std::string late();

  const std::chrono::seconds limit_;
  const std::function<void(const Outcome&)> onTimeout_;
  std::vector<Task> tasks_;
  std::mutex mutex_;
  std::condition_variable stopped_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace eccl::perf
