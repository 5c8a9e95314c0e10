// Virtual time, and who runs when: the scheduler under virtual systems.
#pragma once

#include <functional>
#include <list>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/system.h"
#include "virtual/fiber.h"

namespace eccl::test {

/// Which call of which kind fails, and how: the `number`th (from 0) of system `system`.
struct CallFailure {
  int system = -1;  // none
  std::string call;
  int number = 0;
  int error = 0;  // errno
};

/// Runs tasks, one at a time, in the thread that calls run(). A task runs until it waits; then a random one of
/// those that can go on does. Time passes where nobody can go on, and a little with each call. All that happens
/// follows from the seed. Owner: the test; it outlives the systems in it.
class World final : public Parking {
 public:
  struct Task {
    std::string name;
    std::unique_ptr<Fiber> fiber;
    std::function<bool()> ready;  // null: it can go on
    TimePoint until{};
    const void* parkedAt = nullptr;
    bool done() const { return fiber->done(); }
  };

  explicit World(uint64_t seed) : random_(seed) {}

  TimePoint now() const { return now_; }
  /// Below `bound`.
  uint64_t draw(uint64_t bound) { return random_() % bound; }
  void pass(Duration time);
  /// `action` happens at that time, after whatever else does then.
  void at(TimePoint when, std::function<void()> action);

  std::shared_ptr<Task> start(std::string name, std::function<void()> body);
  static constexpr size_t kMostCalls = 2'000'000;
  /// Until all tasks are done: an empty text. Else who hangs: nobody can ever go on, `limit` has passed, or
  /// there were more than kMostCalls.
  std::string run(Duration limit);

  // Of the task that runs.
  Task& self() { return *running_; }
  void yield();
  /// Sleeps until `ready`, at most for `limit`; whether it is.
  bool sleep(std::function<bool()> ready, Duration limit);
  void park(const void* key, Duration limit) override;
  void unpark(const void* key) override;

  /// What has happened, one line for each call and its answer.
  std::vector<std::string> trace;
  CallFailure failure;
  /// Calls by "system call", whether they failed or not.
  std::map<std::string, int> calls;

 private:
  void suspend();
  bool canGoOn(const Task& task) const;

  std::mt19937_64 random_;
  TimePoint now_{std::chrono::seconds(1000)};
  std::multimap<TimePoint, std::function<void()>> actions_;  // of one time in the order in which they came
  std::list<std::shared_ptr<Task>> tasks_;
  Task* running_ = nullptr;
};

}  // namespace eccl::test
