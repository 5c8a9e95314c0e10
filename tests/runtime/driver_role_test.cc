// The driver's role: every event in every state, and threads that hand it over without losing a wake-up.

#include "runtime/execution/driver_role.h"

#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "base/status.h"
#include "support/forwarding_system.h"

namespace eccl::runtime {
namespace {

using State = DriverRole::State;
using Left = DriverRole::Left;

constexpr Duration kNever = std::chrono::hours(1);  // since the last news: nobody remembers them

struct StillClock : test::ForwardingSystem {
  StillClock() : ForwardingSystem(System::real()) {}
  TimePoint time = TimePoint() + 2 * kNever;
  TimePoint now() override { return time; }
};

struct CountingBells : DriverRole::Bells {
  int driver = 0, service = 0;
  void ringDriver() override { ++driver; }
  void wakeService() override { ++service; }
};

/// A role in a state of which there are some dozen: who has it, what was left, whether there are news, and
/// whether the service thread looks again by itself.
struct Situation {
  State state;
  Left left;
  bool news, attended;
};

class Stage {
 public:
  explicit Stage(const Situation& at) {
    TimePoint next;
    if (at.attended) {  // there were news a moment ago, and the service thread has been here
      role.announce([] {});
      role.take();
      role.takeNews([] {});
      role.giveBackFromService(Left::nothing, &next);
      EXPECT_NE(next, TimePoint::max());
    }
    role.take();
    role.giveBackFromService(at.left, &next);
    EXPECT_EQ(next != TimePoint::max(), at.attended);
    if (at.state == State::free && at.news) role.announce([] {});
    if (at.state != State::free) {
      role.take();
      if (at.news) role.announce([] {});
      if (at.state == State::asleep) role.fallAsleep();
    }
    bells.driver = bells.service = 0;
  }
  StillClock clock;
  CountingBells bells;
  DriverRole role{clock, bells};
};

std::vector<Situation> everySituation(std::initializer_list<State> states) {
  std::vector<Situation> all;
  for (State state : states)
    for (Left left : {Left::nothing, Left::held, Left::running})
      for (bool news : {false, true})
        for (bool attended : {false, true}) all.push_back({state, left, news, attended});
  return all;
}

constexpr auto kEvery = {State::free, State::awake, State::asleep};

std::string textOf(const Situation& at) {
  return format("state %d, left %d, news %d, attended %d", static_cast<int>(at.state),
                static_cast<int>(at.left), at.news, at.attended);
}

TEST(DriverRole, AnnouncingWakesWhoeverIsToLook) {
  for (const Situation& at : everySituation(kEvery)) {
    SCOPED_TRACE(textOf(at));
    Stage stage(at);
    bool brought = false;
    stage.role.announce([&] { brought = true; });
    EXPECT_TRUE(brought && stage.role.news());
    EXPECT_EQ(stage.role.state(), at.state);
    EXPECT_EQ(stage.bells.driver, at.state == State::asleep);
    EXPECT_EQ(stage.bells.service, at.state == State::free && !at.attended);
  }
}

TEST(DriverRole, AnAlarmReachesWhoeverDrivesAndTheServiceThread) {
  for (const Situation& at : everySituation(kEvery)) {
    SCOPED_TRACE(textOf(at));
    Stage stage(at);
    stage.role.alarm([] {});
    EXPECT_EQ(stage.role.state(), at.state);
    EXPECT_EQ(stage.role.news(), at.news);
    EXPECT_EQ(stage.bells.driver, at.state != State::free);
    EXPECT_EQ(stage.bells.service, 1);
  }
}

TEST(DriverRole, IsClaimedWhereNothingComesBefore) {
  for (const Situation& at : everySituation(kEvery)) {
    SCOPED_TRACE(textOf(at));
    Stage stage(at);
    const bool expected = at.state == State::free && at.left == Left::nothing && !at.news;
    EXPECT_EQ(stage.role.claim(), expected);
    EXPECT_FALSE(stage.role.awaited());
    EXPECT_EQ(stage.role.state(), expected ? State::awake : at.state);
    EXPECT_EQ(stage.bells.driver + stage.bells.service, 0);
  }
}

TEST(DriverRole, IsClaimedOrTheWorkIsQueued) {
  for (const Situation& at : everySituation(kEvery)) {
    SCOPED_TRACE(textOf(at));
    Stage stage(at);
    const bool expected = at.state == State::free && !at.news;
    bool queued = false;
    EXPECT_EQ(stage.role.claimOr([&] { queued = true; }), expected);
    EXPECT_EQ(queued, !expected);
    EXPECT_EQ(stage.role.news(), !expected);
    EXPECT_FALSE(stage.role.awaited());
    EXPECT_EQ(stage.role.state(), expected ? State::awake : at.state);
    EXPECT_EQ(stage.bells.driver, at.state == State::asleep);  // the caller waits next: nobody else is needed
    EXPECT_EQ(stage.bells.service, 0);
  }
}

TEST(DriverRole, IsTakenByWhoWaitsWhereItIsFree) {
  for (const Situation& at : everySituation({State::free})) {
    SCOPED_TRACE(textOf(at));
    Stage stage(at);
    std::atomic<bool> done{false};
    EXPECT_TRUE(stage.role.wait(done));
    EXPECT_TRUE(stage.role.awaited());
    EXPECT_EQ(stage.role.state(), State::awake);
    EXPECT_FALSE(stage.role.giveBack(Left::running, done));
    EXPECT_TRUE(stage.role.awaited());
    EXPECT_EQ(stage.role.state(), State::free);
    EXPECT_EQ(stage.bells.service, 0) << "it goes on waiting";
    EXPECT_TRUE(stage.role.await(done));
    stage.role.finish([&] { done = true; });
    EXPECT_TRUE(stage.role.giveBack(at.left, done));
    EXPECT_FALSE(stage.role.awaited());
    EXPECT_EQ(stage.bells.service, !at.attended && (at.left == Left::running || at.news));
  }
}

TEST(DriverRole, IsNotTakenByWhoseWorkIsDone) {
  for (const Situation& at : everySituation(kEvery)) {
    SCOPED_TRACE(textOf(at));
    Stage stage(at);
    const std::atomic<bool> done{true};
    EXPECT_FALSE(stage.role.wait(done));
    EXPECT_FALSE(stage.role.awaited());
    EXPECT_EQ(stage.role.state(), at.state);
    const bool work = at.left == Left::running || at.news;
    EXPECT_EQ(stage.bells.service, at.state == State::free && !at.attended && work);
    EXPECT_EQ(stage.bells.driver, 0);
  }
}

TEST(DriverRole, WhatIsLeftGoesToTheServiceThreadUnlessItLooksAnyway) {
  for (const Situation& at : everySituation({State::awake, State::asleep})) {
    for (const bool waits : {false, true}) {
      SCOPED_TRACE(textOf(at) + (waits ? ", waits" : ""));
      Stage stage({State::free, Left::nothing, false, at.attended});
      if (waits) {
        ASSERT_TRUE(stage.role.claim());
      } else {
        stage.role.take();
      }
      if (at.news) stage.role.announce([] {});
      if (at.state == State::asleep) stage.role.fallAsleep();
      waits ? stage.role.leave(at.left) : stage.role.leave(at.left);
      EXPECT_EQ(stage.role.state(), State::free);
      EXPECT_FALSE(stage.role.awaited());
      EXPECT_EQ(stage.bells.service, !at.attended && (at.left == Left::running || at.news));
    }
  }
}

TEST(DriverRole, TheServiceThreadTakesWhatNobodyElseWill) {
  for (const Situation& at : everySituation(kEvery)) {
    for (const bool failing : {false, true}) {
      SCOPED_TRACE(textOf(at) + (failing ? ", failing" : ""));
      Stage stage(at);
      TimePoint next;
      const bool others = at.news && at.left != Left::running && !failing;  // who brought them may wait next
      const bool expected = at.state == State::free && !others;
      EXPECT_EQ(stage.role.takeForService(failing, &next), expected);
      EXPECT_EQ(stage.role.state(), expected ? State::awake : at.state);
      if (!expected) { EXPECT_EQ(next != TimePoint::max(), at.news || at.attended); }
      if (expected) {
        stage.role.giveBackFromService(at.left, &next);
        EXPECT_EQ(stage.role.state(), State::free);
        EXPECT_EQ(next != TimePoint::max(), at.news || at.attended);
      }
      EXPECT_EQ(stage.bells.driver + stage.bells.service, 0);
    }
  }
}

TEST(DriverRole, TheServiceThreadLeavesTheRoleToThoseWhoWait) {
  Stage stage({State::free, Left::running, false, false});
  std::atomic<bool> done{false};
  ASSERT_TRUE(stage.role.wait(done));
  ASSERT_FALSE(stage.role.giveBack(Left::running, done));  // for a moment nobody drives
  TimePoint next;
  EXPECT_FALSE(stage.role.takeForService(true, &next));
}

TEST(DriverRole, NewsThatNobodyTakesUpAreTheServiceThreadsAfterAWhile) {
  Stage stage({State::free, Left::nothing, false, false});
  stage.role.announce([] {});
  TimePoint next;
  EXPECT_FALSE(stage.role.takeForService(false, &next));
  EXPECT_LE(next, stage.clock.time + std::chrono::milliseconds(1));
  stage.clock.time = next;
  EXPECT_TRUE(stage.role.takeForService(false, &next));
}

// Each look takes a core from the one who drives.
TEST(DriverRole, TheServiceThreadLooksTheLessOftenTheMoreLooksFindThatSomebodyWaits) {
  using std::chrono::microseconds;
  Stage stage({State::free, Left::nothing, false, false});
  TimePoint next;
  const auto look = [&] {
    const bool takes = stage.role.takeForService(false, &next);
    if (takes) stage.role.giveBackFromService(Left::nothing, &next);
    return takes;
  };
  const auto until = [&] { return next - stage.clock.time; };
  std::atomic<bool> done{false};
  stage.role.announce([] {});
  ASSERT_TRUE(stage.role.wait(done));
  for (const int expected : {500, 1000, 1000}) {
    EXPECT_FALSE(look());
    EXPECT_EQ(until(), microseconds(expected));
  }
  stage.role.takeNews([] {});
  stage.role.finish([&] { done = true; });
  EXPECT_TRUE(stage.role.giveBack(Left::nothing, done));
  EXPECT_TRUE(look());  // and finds nothing to do
  EXPECT_EQ(until(), microseconds(1000));
  stage.role.announce([] {});
  stage.clock.time = next;
  EXPECT_TRUE(look());  // nobody else will
  EXPECT_EQ(until(), microseconds(250));
}

// A program that brings work and leaves it to the service thread must not wait for long.
TEST(DriverRole, TheServiceThreadLooksSeldomWhereWhoeverBringsNewsWaits) {
  using std::chrono::milliseconds;
  Stage stage({State::free, Left::nothing, false, false});
  TimePoint next;
  const auto longestLook = [&] {
    for (int looks = 0; looks < 8; ++looks) EXPECT_FALSE(stage.role.takeForService(false, &next));
    return next - stage.clock.time;
  };
  const auto bringAndWait = [&](Left left) {
    std::atomic<bool> done{false};
    stage.role.announce([] {});
    EXPECT_TRUE(stage.role.wait(done));
    stage.role.takeNews([] {});
    const Duration its = longestLook();
    stage.role.finish([&] { done = true; });
    EXPECT_TRUE(stage.role.giveBack(left, done));
    return its;
  };
  for (int round = 0; round < 2; ++round) {
    for (const int expected : {1, 1, 1, 4, 4}) EXPECT_EQ(bringAndWait(Left::nothing), milliseconds(expected));
    // Now it looks in 4 ms, and finds news that nobody waits for.
    stage.role.announce([] {});
    EXPECT_FALSE(stage.role.takeForService(false, &next));
    EXPECT_LE(next - stage.clock.time, milliseconds(1));
    stage.clock.time = next;
    ASSERT_TRUE(stage.role.takeForService(false, &next));
    stage.role.takeNews([] {});
    stage.role.giveBackFromService(Left::nothing, &next);
    EXPECT_EQ(next - stage.clock.time, std::chrono::microseconds(250));
  }
  // Some of what was brought is left to it: that is not put off for long, this time and the next.
  for (const int expected : {1, 1, 1, 4}) EXPECT_EQ(bringAndWait(Left::nothing), milliseconds(expected));
  const int before = stage.bells.service;
  EXPECT_EQ(bringAndWait(Left::running), milliseconds(4));
  EXPECT_EQ(stage.bells.service, before + 1);
  ASSERT_TRUE(stage.role.takeForService(false, &next));
  stage.role.giveBackFromService(Left::nothing, &next);
  EXPECT_EQ(next - stage.clock.time, std::chrono::microseconds(250));
  EXPECT_EQ(bringAndWait(Left::running), milliseconds(1));
  EXPECT_EQ(stage.bells.service, before + 1);  // it looks soon
}

// A thread that is not scheduled for long between its last look and giving back must not lose what came
// meanwhile.
TEST(DriverRole, NewsThatCameWhileTheServiceThreadDroveAreLookedAt) {
  Stage stage({State::free, Left::running, false, false});
  TimePoint next;
  ASSERT_TRUE(stage.role.takeForService(false, &next));
  stage.role.announce([] {});
  EXPECT_EQ(stage.bells.driver + stage.bells.service, 0);
  stage.clock.time += kNever;
  stage.role.giveBackFromService(Left::nothing, &next);
  EXPECT_NE(next, TimePoint::max());
}

// Where nobody waits for what is announced, what is only mentioned can wait all the same.
TEST(DriverRole, WhatIsMentionedWakesNobodyWhoLooksAnyway) {
  Stage stage({State::free, Left::nothing, false, false});
  stage.role.servePromptly();
  TimePoint next;
  stage.role.mention([] {});
  EXPECT_EQ(stage.bells.service, 1);  // nobody looks
  ASSERT_TRUE(stage.role.takeForService(false, &next));
  stage.role.takeNews([] {});
  stage.role.giveBackFromService(Left::running, &next);
  EXPECT_LE(next, stage.clock.time + std::chrono::milliseconds(1));
  stage.role.mention([] {});
  EXPECT_EQ(stage.bells.service, 1);
  stage.role.announce([] {});
  EXPECT_EQ(stage.bells.service, 2);
}

TEST(DriverRole, WhatIsAnnouncedIsLookedAtAtOnceWhateverIsMentionedBehindIt) {
  Stage stage({State::free, Left::nothing, false, false});
  stage.role.servePromptly();
  TimePoint next;
  stage.role.announce([] {});
  stage.role.mention([] {});
  ASSERT_TRUE(stage.role.takeForService(false, &next));
  stage.role.takeNews([] {});
  stage.role.announce([] {});
  stage.role.mention([] {});
  stage.role.giveBackFromService(Left::nothing, &next);
  EXPECT_EQ(next, stage.clock.time);
}

TEST(DriverRole, AWaitFallsBackToWhatItWasIfQueueingThrows) {
  Stage stage({State::awake, Left::nothing, false, false});
  EXPECT_THROW(stage.role.claimOr([] { throw std::bad_alloc(); }), std::bad_alloc);
  EXPECT_THROW(stage.role.announce([] { throw std::bad_alloc(); }), std::bad_alloc);
  EXPECT_FALSE(stage.role.news());
  EXPECT_FALSE(stage.role.awaited());
}

// ------------------------------------------------------------------------------------------- with threads

/// A bell that somebody sleeps at: it stays rung until that one has heard it.
class Doorbell {
 public:
  void ring() {
    std::lock_guard lock(mutex_);
    rung_ = true;
    changed_.notify_one();
  }
  /// False: nobody rang for long.
  bool sleep(Duration limit) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, limit, [this] { return std::exchange(rung_, false); });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool rung_ = false;
};

/// An engine that is nothing but its role: what drives it marks items as done.
class TinyEngine : DriverRole::Bells {
 public:
  struct Item {
    std::atomic<bool> done{false};
    int looks = 0;  // that it takes
  };

  /// By a thread that waits for it, in one of the ways there are.
  void execute(const std::shared_ptr<Item>& item, bool queued) {
    if (!queued && role_.claimOr([&] { inbox_.push_back(item); })) {
      active_.push_back(item);
      driveFor(*item);
      return role_.leave(left());
    }
    if (queued) submit(item);
    for (bool drives = role_.wait(item->done); drives; drives = role_.await(item->done)) {
      driveFor(*item);
      if (role_.giveBack(left(), item->done)) return;
    }
  }
  /// The fast path: the item is done at once, if at all.
  void claim() {
    if (!role_.claim()) return;
    EXPECT_TRUE(active_.empty());
    role_.leave(left());
  }
  void submit(const std::shared_ptr<Item>& item) {
    role_.announce([&] { inbox_.push_back(item); });
  }
  void interrupt() {
    role_.alarm([] {});
    role_.take();
    drive();
    role_.leave(left());
  }
  /// The service thread's, until stop().
  void serve() {
    TimePoint next = TimePoint::max();
    while (!stopping_) {
      const Duration limit = next == TimePoint::max() ? kLong : Duration(next - System::real().now());
      const bool rung = service_.sleep(std::min(kLong, std::max(Duration::zero(), limit)));
      // Nobody else would find what was left behind here.
      if (!rung && limit >= kLong && !stopping_) lost += role_.news();
      if (!role_.takeForService(false, &next)) continue;
      while (!role_.awaited() && drive()) {}
      const bool running = !active_.empty();
      role_.giveBackFromService(left(), &next);
      if (running) next = std::min(next, System::real().now() + std::chrono::microseconds(100));
    }
  }
  void stop() {
    stopping_ = true;
    service_.ring();
  }

  std::atomic<int> lost{0};

 private:
  static constexpr Duration kLong = std::chrono::seconds(20);

  void ringDriver() override { reactor_.ring(); }
  void wakeService() override { service_.ring(); }
  Left left() const { return active_.empty() ? Left::nothing : Left::running; }

  /// One pass; true if anything moved.
  bool drive() {
    std::deque<std::shared_ptr<Item>> brought;
    if (role_.news()) role_.takeNews([&] { brought.swap(inbox_); });
    active_.insert(active_.end(), brought.begin(), brought.end());
    bool moved = false;
    for (auto& item : active_) {
      if (item->looks-- > 0) {
        moved = true;
        continue;
      }
      role_.finish([&] { item->done.store(true, std::memory_order_release); });
      moved = true;
    }
    std::erase_if(active_, [](auto& item) { return item->done.load(); });
    return moved;
  }
  void driveFor(Item& item) {
    while (!item.done) {
      if (drive() || item.done) continue;
      role_.fallAsleep();
      if (!drive() && !role_.news() && !reactor_.sleep(kLong)) ++lost;
      role_.wakeUp();
    }
  }

  DriverRole role_{System::real(), *this};
  Doorbell reactor_, service_;
  std::deque<std::shared_ptr<Item>> inbox_;    // under the role's mutex
  std::vector<std::shared_ptr<Item>> active_;  // the driver's
  std::atomic<bool> stopping_{false};
};

TEST(DriverRole, ManyThreadsHandItOverAndNoWakeUpIsLost) {
  constexpr int kThreads = 4, kItems = 3000;
  TinyEngine engine;
  std::thread service([&] { engine.serve(); });
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      std::vector<std::shared_ptr<TinyEngine::Item>> left;
      for (int i = 0; i < kItems; ++i) {
        auto item = std::make_shared<TinyEngine::Item>();
        item->looks = (i * 7 + t) % 5;
        switch ((i + t) % 7) {
          case 0:
            engine.submit(item);  // the service thread's, or whoever drives next
            left.push_back(item);
            break;
          case 1:
            engine.claim();
            break;
          case 2:
            if (i % 50 == 0) engine.interrupt();
            break;
          default:
            engine.execute(item, i % 3 == 0);
            EXPECT_TRUE(item->done);
        }
      }
      for (auto& item : left) {
        const TimePoint begun = System::real().now();
        while (!item->done && System::real().now() - begun < std::chrono::seconds(30))
          std::this_thread::yield();
        EXPECT_TRUE(item->done) << "nobody was woken for it";
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  engine.stop();
  service.join();
  EXPECT_EQ(engine.lost, 0);
}

}  // namespace
}  // namespace eccl::runtime
