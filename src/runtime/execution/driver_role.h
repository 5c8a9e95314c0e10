// Who drives an engine: a state machine for one role that many threads take, wait for and hand over.
//
// The role is free; or a thread has it and is awake; or that thread sleeps in the reactor. Work comes by
// announce(), which wakes the thread that has to look at it: the driver if it sleeps, or the service thread
// if nobody drives, nobody waits and it does not look by itself soon. docs/threading.md has the whole
// table.
//
// No wake-up is lost. A driver that falls asleep says so first and looks for news then. A thread that brings
// news raises the flag first and looks for a sleeper then. Both are sequentially consistent, so one sees the
// other. A driver that gives the role back and a thread that goes to sleep until it is free do the same.
// Everything else happens under the mutex, but for taking the role where it is free.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <mutex>

#include "base/condition.h"

namespace eccl::runtime {

/// The role of one engine. Owner: the engine. Any thread, but for what only the driver may do. What is called
/// under the mutex is short and does not call back.
class DriverRole {
 public:
  enum class State : uint8_t { free, awake, asleep };
  /// What a driver leaves behind: no work, work that something holds back, or work to go on with.
  enum class Left : uint8_t { nothing, held, running };

  /// How threads are woken. Called with the mutex held; must not call back.
  class Bells {
   public:
    virtual ~Bells() = default;
    /// Ends the sleep of the driver, or keeps it from its next one.
    virtual void ringDriver() = 0;
    /// Has takeForService() called soon.
    virtual void wakeService() = 0;
  };

  DriverRole(System& system, Bells& bells) : system_(system), bells_(bells), changed_(system) {}

  /// For a caller that waits for its work: takes the role if it is free, there is no news and nothing was
  /// left. True: to be ended by leave(). False: nothing has changed.
  // No mutex: short calls take and leave the role a million times a second.
  bool claim() {
    const auto next = [this] { return !news() && left_.load(std::memory_order_relaxed) == Left::nothing; };
    if (!next() || !takeIfFree()) return false;
    if (next()) return true;  // now nobody else changes what was left
    leave(left_.load(std::memory_order_relaxed));
    return false;
  }
  /// The same where work that was left does not matter. False: has called `queue`, under the mutex, which
  /// adds the work to what is new; the caller then goes on with wait().
  template <class Queue>
  bool claimOr(Queue&& queue) {
    if (!news() && takeIfFree()) {
      if (!news()) return true;
      leave(left_.load(std::memory_order_relaxed));
    }
    std::lock_guard lock(mutex_);
    queue();
    raise();
    return false;
  }
  /// Begins a wait. Returns true when the caller has the role, which it gives back by giveBack(left, done).
  /// Returns false when `done` is set, and the wait is over. `done` is set in finish().
  ///   for (bool drives = role.wait(done); drives; drives = role.await(done)) {
  ///     ...  // drives, until `done` or for as long as it likes
  ///     if (role.giveBack(left, done)) return;
  ///   }
  bool wait(const std::atomic<bool>& done);
  /// The same within a wait, after giveBack() was false.
  bool await(const std::atomic<bool>& done);
  /// Gives back the role that wait() or await() gave. True: `done` is set, and the wait is over.
  bool giveBack(Left left, const std::atomic<bool>& done);
  /// By the driver: gives back the role that claim(), claimOr(), takeIfFree() or take() gave.
  // Without the mutex, too, unless somebody has to be woken. Who goes to sleep counts himself and looks at the
  // state then; who brings news says so and looks at the state then. All are sequentially consistent, as is
  // this: one of the two sees the other.
  void leave(Left left) {
    left_.store(left, std::memory_order_relaxed);
    state_.store(State::free);
    if (sleepers_.load() != 0 || news() || left != Left::nothing) wakeOthers();
  }

  /// For a caller that waits for no work: takes the role if it is free. True: to be ended by leave().
  bool takeIfFree() {
    State expected = State::free;
    return state_.compare_exchange_strong(expected, State::awake);
  }
  /// The same, but returns when it has the role.
  void take();

  /// For the service thread: takes the role unless somebody drives or is about to. True: to be ended by
  /// giveBackFromService(). False: *next is set. *next: when it should ask again though nobody wakes it;
  /// TimePoint::max() for never. `failing`: news is not left to the thread that brought it.
  bool takeForService(bool failing, TimePoint* next);
  /// Gives back the role that takeForService() gave, and sets *next.
  void giveBackFromService(Left left, TimePoint* next);

  /// From now on nobody waits for the work that is announced, so the service thread looks at it at once. Before
  /// there is any.
  void servePromptly() { servesPromptly_ = true; }

  /// Calls `bring`, under the mutex, which adds what is new, and wakes whoever is to look at it.
  template <class Bring>
  void announce(Bring&& bring) {
    announce(bring, servesPromptly_);
  }
  /// The same, whatever servePromptly() has said, for what can wait for a moment.
  template <class Bring>
  void mention(Bring&& bring) {
    announce(bring, false);
  }
  /// As announce(), for what must not be put off: whoever drives is rung, and the service thread is woken.
  template <class Bring>
  void alarm(Bring&& bring) {
    std::lock_guard lock(mutex_);
    bring();
    if (state() != State::free) bells_.ringDriver();
    bells_.wakeService();
  }
  /// Calls `set`, under the mutex, which sets what threads in await() look at, and wakes them.
  template <class Set>
  void finish(Set&& set) {
    std::lock_guard lock(mutex_);
    set();
    changed_.notifyAll();
  }
  /// By the driver: calls `take`, under the mutex, which takes all that was brought. Then there is no news.
  template <class Take>
  void takeNews(Take&& take) {
    std::lock_guard lock(mutex_);
    take();
    urgent_ = false;
    awaitedNews_ = awaited() ? std::min(awaitedNews_ + 1, kOften) : 0;
    news_.store(false, std::memory_order_relaxed);
  }

  /// By the driver, around a sleep. It begins the sleep only if there is still no news() after fallAsleep().
  void fallAsleep() { state_.store(State::asleep); }  // pairs with raise()
  void wakeUp() { state_.store(State::awake, std::memory_order_relaxed); }

  /// Something was announced since takeNews().
  bool news() const { return news_.load(); }
  /// Whether somebody is in a wait. A hint.
  bool awaited() const { return waiting_.load(std::memory_order_relaxed) > 0; }
  State state() const { return state_.load(); }

 private:
  /// While the service thread looks by itself: once in so long, the less often the more looks find that
  /// somebody waits. A look takes a core from the one who drives for some 40 us (two processes, bound to a core
  /// each; AMD EPYC, family 25 model 17, 2026-11-30). The last one where somebody waited kOften times in a row
  /// when news were taken, and got all done that there was, as will be the next time, most likely.
  static constexpr Duration kLook = std::chrono::microseconds(250), kLongLook = std::chrono::milliseconds(1),
                            kLongestLook = std::chrono::milliseconds(4);
  static constexpr int kOften = 4;

  // All under the mutex.
  void enter() { waiting_.store(waiting_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed); }
  void exit() { waiting_.store(waiting_.load(std::memory_order_relaxed) - 1, std::memory_order_relaxed); }
  bool await(std::unique_lock<std::mutex>& lock, const std::atomic<bool>& done);
  template <class Predicate>
  void sleepUntil(std::unique_lock<std::mutex>& lock, Predicate&& satisfied) {
    sleepers_.fetch_add(1);  // pairs with leave()
    changed_.wait(lock, satisfied);
    sleepers_.fetch_sub(1);
  }
  template <class Bring>
  void announce(Bring& bring, bool urgent) {
    std::lock_guard lock(mutex_);
    bring();
    latestIsUrgent_ = urgent;
    urgent_ |= urgent;
    raise();
    callService();
  }
  void raise();
  void wakeOthers();
  void free(Left left);
  void callService();
  TimePoint lookAgain(bool attended, TimePoint now);

  System& system_;
  Bells& bells_;
  std::mutex mutex_;
  Condition changed_;  // the role is free, or something is finished
  std::atomic<State> state_{State::free};
  std::atomic<bool> news_{false};
  std::atomic<int> waiting_{0};
  std::atomic<int> sleepers_{0};           // that changed_ is to wake
  std::atomic<Left> left_{Left::nothing};  // the driver's; meaningful while the state is free
  bool servesPromptly_ = false;            // constant once there is work
  bool latestIsUrgent_ = false;            // of all news so far
  bool urgent_ = false;                    // some of the news that nobody has taken
  bool attended_ = false;                  // the service thread looks again soon, unasked
  Duration look_ = kLook;                  // until the service thread looks again
  int awaitedNews_ = 0;                    // times in a row that somebody waited for news; at most kOften
  TimePoint newsSince_{};                  // when news_ was last raised
};

}  // namespace eccl::runtime
