#include "runtime/api/jobs.h"

#include "base/thread.h"

namespace eccl::runtime {

Status Jobs::start(std::function<void()> body) {
  std::lock_guard lock(mutex_);
  // Those that have ended go, so that many calls in a row need no more than one thread at a time.
  for (auto job = jobs_.begin(); job != jobs_.end();) {
    const auto ended = job++;
    if (!ended->done.load(std::memory_order_acquire)) continue;
    ended->thread.join();
    jobs_.erase(ended);
  }
  Job& job = jobs_.emplace_back();
  Result<std::thread> thread = startThread("eccl-job", [&job, body = std::move(body)] {
    body();
    job.done.store(true, std::memory_order_release);
  });
  if (!thread.ok()) {
    jobs_.pop_back();
    return thread.status();
  }
  job.thread = thread.take();
  return {};
}

void Jobs::join() {
  std::list<Job> jobs;
  {
    std::lock_guard lock(mutex_);
    jobs.swap(jobs_);
  }
  for (Job& job : jobs) job.thread.join();
}

}  // namespace eccl::runtime
