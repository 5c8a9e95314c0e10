// The transitions of the role; docs/threading.md has them as a table.
#include "runtime/execution/driver_role.h"

#include <algorithm>

namespace eccl::runtime {
namespace {

/// After queued calls the service thread looks by itself for so long, and leaves news as old as this to the
/// thread that brought them. Woken for each call it would take a core from the ranks; what nobody waits for
/// goes on a little later.
constexpr Duration kAttention = std::chrono::milliseconds(5), kFresh = std::chrono::microseconds(100);

}  // namespace

bool DriverRole::wait(const std::atomic<bool>& done) {
  std::unique_lock lock(mutex_);
  enter();
  return await(lock, done);
}

bool DriverRole::await(const std::atomic<bool>& done) {
  std::unique_lock lock(mutex_);
  return await(lock, done);
}

bool DriverRole::await(std::unique_lock<std::mutex>& lock, const std::atomic<bool>& done) {
  sleepUntil(lock, [&] { return done.load(std::memory_order_acquire) || takeIfFree(); });
  if (!done.load(std::memory_order_acquire)) return true;
  exit();
  callService();
  return false;
}

bool DriverRole::giveBack(Left left, const std::atomic<bool>& done) {
  std::lock_guard lock(mutex_);
  const bool over = done.load(std::memory_order_acquire);
  if (over) exit();
  free(left);
  return over;
}

void DriverRole::wakeOthers() {
  std::lock_guard lock(mutex_);
  changed_.notifyAll();
  callService();
}

void DriverRole::take() {
  std::unique_lock lock(mutex_);
  sleepUntil(lock, [&] { return takeIfFree(); });
}

bool DriverRole::takeForService(bool failing, TimePoint* next) {
  std::lock_guard lock(mutex_);
  const TimePoint now = system_.now();
  const bool fresh =
      !servesPromptly_ && news() && now - newsSince_ < kFresh;  // whoever brought them may wait for them soon
  const bool left = left_.load(std::memory_order_relaxed) == Left::running || failing;
  const bool waits = awaited();
  if (waits) look_ = std::min(2 * look_, awaitedNews_ < kOften ? kLongLook : kLongestLook);
  if (waits || (fresh && !left) || !takeIfFree()) {
    *next = lookAgain(now - newsSince_ < kAttention, now);
    return false;
  }
  if (left || news()) look_ = kLook;
  return true;
}

void DriverRole::giveBackFromService(Left left, TimePoint* next) {
  std::lock_guard lock(mutex_);
  const TimePoint now = system_.now();
  // News that came after the last look rang nobody.
  *next = lookAgain(news() || now - newsSince_ < kAttention, now);
  if (urgent_ && news()) *next = now;
  left_.store(left, std::memory_order_relaxed);
  state_.store(State::free);
  changed_.notifyAll();
}

// While calls come one after the other the service thread looks now and then, so that they need not wake it
// each time.
TimePoint DriverRole::lookAgain(bool attended, TimePoint now) {
  if (!awaited()) look_ = std::min(look_, kLongLook);
  attended_ = attended && !latestIsUrgent_;
  return attended_ ? now + look_ : TimePoint::max();
}

void DriverRole::raise() {
  // The flag first: a driver says that it falls asleep and looks at the flag then.
  if (!news_.exchange(true)) newsSince_ = system_.now();
  if (state_.load() == State::asleep) bells_.ringDriver();
}

void DriverRole::free(Left left) {
  if (left != Left::nothing) awaitedNews_ = 0;
  left_.store(left, std::memory_order_relaxed);
  state_.store(State::free);
  changed_.notifyAll();
  callService();
}

// Where nobody drives and nobody is about to.
void DriverRole::callService() {
  if (state() != State::free || awaited()) return;
  const bool running = left_.load(std::memory_order_relaxed) == Left::running;
  const bool soon = attended_ && !(running && look_ > kLongLook);
  if ((!soon || urgent_) && (running || news())) bells_.wakeService();
}

}  // namespace eccl::runtime
