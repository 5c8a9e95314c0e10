// The engine driven by the service thread, when nobody waits.

#include "runtime/execution/engine.h"

namespace eccl::runtime {
namespace {

/// The service thread has others to serve and looks for less long.
constexpr Duration kServeYield = std::chrono::microseconds(50);
/// After queued calls the service thread looks by itself for so long, once in so long, and leaves news as old
/// as this to the thread that brought them. Woken for each call it would take a core from the ranks; what
/// nobody waits for goes on a little later.
constexpr Duration kAttention = std::chrono::milliseconds(5), kLook = std::chrono::microseconds(250),
                   kFresh = std::chrono::microseconds(100);

}  // namespace

bool Engine::serve() {
  TimePoint now = options_.clock->now();
  {
    std::lock_guard lock(mutex_);
    if (driving_ || waiting_ > 0) {  // whoever drives minds the time
      attend(now);
      return false;
    }
    if (active_.empty() && news_ && !failing() &&
        now - newsSince_ < kFresh) {  // whoever brought them may wait for them soon
      attend(now);
      return false;
    }
    driving_ = true;
  }
  asDriver([&] {
    disarm();
    reactor_.poll(0);
    const TimePoint until = now + kServeYield;
    const auto wanted = [this] {
      return waiting_.load(std::memory_order_relaxed) > 0;
    };  // somebody would drive
    while (!wanted() && (drive() || (!active_.empty() && !failing() && options_.clock->now() < until))) {}
    // Armed anew after each move: a connection may have become ready, or of use, meanwhile.
    if (!wanted()) do {
        arm();
      } while (drive());
    checkStalls();
  });
  std::lock_guard lock(mutex_);
  now = options_.clock->now();
  attend(now);
  if (!active_.empty()) serveDeadline_ = std::min(serveDeadline_, now + options_.stallTime);
  serveDeadline_ = std::min(serveDeadline_, connector_->nextDeadline());
  driving_ = false;
  changed_.notify_all();
  return true;
}

// Under the mutex, by the service thread. While calls come one after the other it looks now and then, so that
// they need not wake it each time.
void Engine::attend(TimePoint now) {
  attended_ = now - newsSince_ < kAttention;
  serveDeadline_ = attended_ ? now + kLook : TimePoint::max();
}

}  // namespace eccl::runtime
