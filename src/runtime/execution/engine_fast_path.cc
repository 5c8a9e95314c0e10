// The engine on the fast path: no Run, no queue, no ticket, as long as nothing else is under way and the
// peers are there.

#include <sched.h>

#include "base/atomics.h"
#include "runtime/execution/engine.h"

namespace eccl::runtime {
namespace {

/// A call on the fast path is worth so many looks, spinning and yielding, before it is treated like any other.
constexpr int kFastLooks = 500, kFastYields = 20;
/// Peers that do not sleep see a message after less; the fence it takes to find out whether they do can wait.
constexpr int kLooksBeforeKick = 8;
/// So long is a place for a long message waited for (some microseconds).
constexpr int kPatientLooks = 100, kPatientYields = 4;

}  // namespace

bool Engine::claim() {
  std::lock_guard lock(mutex_);
  if (driving_ || news_.load(std::memory_order_relaxed) || !active_.empty() || !pending_.empty()) return false;
  ++waiting_;
  driving_ = true;
  return true;
}

bool Engine::drive(FastPath& call) {
  disarm();
  const bool spins = spin_.load(std::memory_order_relaxed) > Duration::zero();
  for (int looks = 0;;) {
    const FastPath::Answer answer = call.advance(looks < (spins ? kPatientLooks : kPatientYields));
    if (answer == FastPath::Answer::done) break;
    if (answer == FastPath::Answer::moved) {
      looks = 0;
      continue;
    }
    if (++looks == (spins ? kLooksBeforeKick : 1)) call.kick();
    if (answer == FastPath::Answer::unusual || looks > (spins ? kFastLooks : kFastYields) || failing() ||
        news_.load(std::memory_order_relaxed)) {
      call.kick();  // what it has done, peers may sleep for
      return false;
    }
    if (spins)
      relaxProcessor();
    else
      sched_yield();
  }
  call.kick();
  std::unique_lock lock(mutex_);
  driving_ = false;
  changed_.notify_all();
  stopWaiting(lock);
  return true;
}

void Engine::execute(const std::shared_ptr<Run>& run, const FastPath& call) {
  start(run, &call);
  std::unique_lock lock(mutex_, std::defer_lock);
  driveFor(*run, lock);
  stopWaiting(lock);
}

}  // namespace eccl::runtime
