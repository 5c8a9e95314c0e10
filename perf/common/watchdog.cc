#include "common/watchdog.h"

#include <unistd.h>

#include <cstdio>

namespace eccl::perf {

Watchdog::Watchdog(int limitSeconds, int threads, std::function<void(const Outcome&)> onTimeout)
    : limit_(limitSeconds), onTimeout_(std::move(onTimeout)), tasks_(threads) {
  if (limitSeconds > 0) thread_ = std::thread([this] { watch(); });
}

Watchdog::~Watchdog() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
  }
  stopped_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Watchdog::describe(int thread, std::string what) {
  const std::lock_guard<std::mutex> lock(mutex_);
  tasks_[thread].what = std::move(what);
}

// Holds mutex_.
std::string Watchdog::late() {
  std::string text;
  for (const Task& task : tasks_) {
    const int64_t since = task.since.load(std::memory_order_relaxed);
    if (since == kIdle || now() - since <= std::chrono::nanoseconds(limit_).count()) continue;
    text += text.empty() ? "" : "; ";
    text += (task.meeting.load(std::memory_order_relaxed) ? "waiting for the other ranks at " : "") + task.what;
  }
  return text;
}

// Looks ten times a second: a limit is in whole seconds, so that is exact enough and costs nothing.
void Watchdog::watch() {
  std::unique_lock<std::mutex> lock(mutex_);
  std::string text;
  while (text.empty()) {
    if (stopped_.wait_for(lock, std::chrono::milliseconds(100), [&] { return stop_; })) return;
    text = late();
  }
  lock.unlock();
  onTimeout_(Outcome::error(Exit::timeout, "Test timeout (%llds): not complete: %s",
                            static_cast<long long>(limit_.count()), text.c_str()));
  lock.lock();
  if (stopped_.wait_for(lock, kLastResort, [&] { return stop_; })) return;
  std::fprintf(stderr, "a call did not return after its communicator was aborted; ending the process\n");
  _exit(static_cast<int>(Exit::timeout));
}

}  // namespace eccl::perf
