// The transitions of the role; docs/threading.md has them as a table.
#include "runtime/execution/driver_role.h"

namespace eccl::runtime {
namespace {

/// After queued calls the service thread looks by itself for so long, once in so long, and leaves news as old
/// as this to the thread that brought them. Woken for each call it would take a core from the ranks; what
/// nobody waits for goes on a little later.
constexpr Duration kAttention = std::chrono::milliseconds(5), kLook = std::chrono::microseconds(250),
                   kFresh = std::chrono::microseconds(100);

}  // namespace

bool DriverRole::claim() {
  std::lock_guard lock(mutex_);
  if (state() != State::free || news() || left_ != Left::nothing) return false;
  enter();
  set(State::awake);
  return true;
}

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
  changed_.wait(lock, [&] { return done.load(std::memory_order_acquire) || state() == State::free; });
  if (!done.load(std::memory_order_acquire)) {
    set(State::awake);
    return true;
  }
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

void DriverRole::leave(Left left) {
  std::lock_guard lock(mutex_);
  exit();
  free(left);
}

void DriverRole::take() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return state() == State::free; });
  set(State::awake);
}

void DriverRole::giveBack(Left left) {
  std::lock_guard lock(mutex_);
  free(left);
}

bool DriverRole::takeForService(bool failing, TimePoint* next) {
  std::lock_guard lock(mutex_);
  const TimePoint now = system_.now();
  const bool fresh =
      !prompt_ && news() && now - newsSince_ < kFresh;  // whoever brought them may wait for them soon
  if (state() != State::free || awaited() || (fresh && left_ != Left::running && !failing)) {
    *next = lookAgain(now - newsSince_ < kAttention, now);
    return false;
  }
  set(State::awake);
  return true;
}

void DriverRole::giveBackFromService(Left left, TimePoint* next) {
  std::lock_guard lock(mutex_);
  const TimePoint now = system_.now();
  // News that came after the last look rang nobody.
  *next = lookAgain(news() || now - newsSince_ < kAttention, now);
  if (prompt_ && news()) *next = now;
  set(State::free);
  left_ = left;
  changed_.notifyAll();
}

// While calls come one after the other the service thread looks now and then, so that they need not wake it
// each time.
TimePoint DriverRole::lookAgain(bool attended, TimePoint now) {
  attended_ = attended && !prompt_;
  return attended_ ? now + kLook : TimePoint::max();
}

void DriverRole::raise() {
  // The flag first: a driver says that it falls asleep and looks at the flag then.
  if (!news_.exchange(true)) newsSince_ = system_.now();
  if (state_.load() == State::asleep) bells_.ringDriver();
}

void DriverRole::free(Left left) {
  set(State::free);
  left_ = left;
  changed_.notifyAll();
  callService();
}

// Where nobody drives and nobody is about to.
void DriverRole::callService() {
  const bool work = left_ == Left::running || news();
  if (work && state() == State::free && !awaited() && !attended_) bells_.wakeService();
}

}  // namespace eccl::runtime
