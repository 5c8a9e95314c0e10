#include "runtime/api/jobs.h"

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
  std::list<Job> fresh(1);  // known to join() once it has a thread
  Job& job = fresh.front();
  ECCL_ASSIGN(job.thread, System::real().start("eccl-job", [&job, body = std::move(body)] {
    body();
    job.done.store(true, std::memory_order_release);
  }));
  jobs_.splice(jobs_.end(), fresh);
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
