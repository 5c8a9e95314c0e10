#include "virtual/world.h"

#include <utility>

namespace eccl::test {
namespace {
constexpr int kMaxTurns = 200'000;  // a life of two ranks takes some thousands
}

void World::pass(Duration time) {
  now_ += time;
  while (!actions_.empty() && actions_.begin()->first <= now_) {
    const auto action = std::move(actions_.begin()->second);
    actions_.erase(actions_.begin());
    action();
  }
}

void World::at(TimePoint when, std::function<void()> action) {
  actions_.emplace(when, std::move(action));
}

std::shared_ptr<World::Task> World::start(std::string name, std::function<void()> body) {
  auto task = std::make_shared<Task>();
  task->name = std::move(name);
  task->fiber = std::make_unique<Fiber>(std::move(body));
  tasks_.push_back(task);
  return task;
}

bool World::canGoOn(const Task& task) const {
  return task.ready == nullptr || task.until <= now_ || task.ready();
}

std::string World::run(Duration limit) {
  const TimePoint end = now_ + limit;
  for (int turns = 0;; ++turns) {
    tasks_.remove_if([](const std::shared_ptr<Task>& task) { return task->done(); });
    if (tasks_.empty()) return "";
    pass(Duration::zero());
    std::vector<Task*> able;
    TimePoint next = actions_.empty() ? TimePoint::max() : actions_.begin()->first;
    for (const auto& task : tasks_) {
      if (canGoOn(*task))
        able.push_back(task.get());
      else
        next = std::min(next, task->until);
    }
    if (able.empty() && next != TimePoint::max() && next <= end) {
      pass(next - now_);
      continue;
    }
    const bool busy = trace.size() > kMostCalls;
    if (able.empty() || now_ > end || busy) {
      std::string hang = busy                                       ? "somebody does not sleep:"
                         : able.empty() && next == TimePoint::max() ? "nobody can ever go on:"
                                                                    : "it takes too long:";
      for (const auto& task : tasks_) hang += " " + task->name;
      return hang;
    }
    running_ = able[draw(able.size())];
    running_->fiber->resume();
    running_ = nullptr;
  }
}

void World::suspend() {
  Task* const task = running_;
  task->fiber->suspend();
  task->ready = nullptr;
}

void World::yield() {
  pass(std::chrono::microseconds(1));
  suspend();
}

bool World::sleep(std::function<bool()> ready, Duration limit) {
  const bool wasReady = ready();
  if (wasReady || limit <= Duration::zero()) return wasReady;
  Task& task = self();
  task.until = limit < TimePoint::max() - now_ ? now_ + limit : TimePoint::max();
  task.ready = ready;
  suspend();
  return ready();
}

void World::park(const void* key, Duration limit) {
  Task* const task = running_;
  task->parkedAt = key;
  sleep([task] { return task->parkedAt == nullptr; }, limit);
  task->parkedAt = nullptr;
}

void World::unpark(const void* key) {
  for (const auto& task : tasks_) {
    if (task->parkedAt == key) task->parkedAt = nullptr;
  }
}

}  // namespace eccl::test
