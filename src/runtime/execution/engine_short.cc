// Calls that their caller drives itself: the fast path, and what goes on as a Run from there.

#include "runtime/execution/engine.h"

namespace eccl::runtime {
namespace {

/// A thread that queues calls goes on with those before for so long at most: some short ones. Peers that do the
/// same meet it there; did it not wait at all, what is queued would never become less. Where nothing moved the
/// last time it looks once.
constexpr Duration kCatchUp = std::chrono::microseconds(50);
constexpr int kLooksForRole = 100;  // some microseconds

}  // namespace

// By the driver: the next call like this one may take the fast path, if there is memory for it.
void Engine::prepare(Run& run) {
  if (run.executor != &executors_.host()) return;
  guarded("preparing a call", [&] {
    if (!run.plan->prepare(run.call, run.record)) return Status();
    if (repeatable_.size() >= Planner::kCached) forgetRepeatable();
    repeatable_[run.call.key()] = run.plan;
    return Status();
  }).ignore();
}

// Before the Run is submitted.
void Engine::count(Run& run) {
  run.isLong = run.plan->fastPath() == nullptr;
  if (run.isLong) longRuns_.fetch_add(1, std::memory_order_relaxed);
}

// By the driver: the Run is next, nothing comes before it. If that cannot be, it has ended.
template <class HandOver>
void Engine::start(const std::shared_ptr<Run>& run, HandOver&& handOver) {
  const Status status = guarded("starting a call", [&] {
    admit(*run);
    ECCL_TRY(begin(*run));
    handOver(*run);
    active_.push_back(run);
    return Status();
  });
  if (status.ok()) return;
  handler_.onDriverFailed(status);
  complete(*run, status);
}

void Engine::takeReplays() {
  executors_.device()->takeBegun([this](Work& captured, std::unique_ptr<WorkState> state) {
    if (role_.news()) takeQueued();  // the capture may be new, too
    const std::shared_ptr<Run> run = handler_.onReplay(static_cast<Run&>(captured));
    if (run == nullptr) return;
    run->state = std::move(state);
    run->released = true;
    count(*run);
    start(run, [](Run&) {});
  });
}

void Engine::execute(const std::shared_ptr<Run>& run, std::unique_lock<VisibleLock> others) {
  count(*run);
  const auto queue = [&] {
    inbox_.queued.push_back(run);
    inbox_.released.push_back(run);
  };
  const bool driver = role_.claimOr(queue);
  if (driver) start(run, [this](Run& begun) { prepare(begun); });
  if (others.owns_lock()) others.unlock();
  if (!driver) return wait(*run);
  driveFor(*run);
  role_.leave(left());
}

const std::shared_ptr<Plan>* Engine::findRepeatable(const CallKey& key, Recent& recent) {
  const auto found = repeatable_.find(key);
  if (found == repeatable_.end()) return nullptr;
  recent = {key, &found->second};
  return recent.plan;
}

void Engine::forgetRepeatable() {
  repeatable_.clear();
  recent_ = {};
}

void Engine::execute(const std::shared_ptr<Run>& run, const FastPath& call) {
  start(run, [&](Run& begun) { call.handOver(begun); });
  driveFor(*run);
  role_.leave(left());
}

void Engine::submit(const std::shared_ptr<Run>& run, const FastPath& call) {
  start(run, [&](Run& begun) { call.handOver(begun); });
  leaveToCaller();
}

FastGroup* Engine::claim(const PlainCalls& calls) {
  if (!role_.claim()) return nullptr;
  group_.begin(calls.buffers);
  bool fits = true;
  const Status status = guarded("a group", [&] {
    for (size_t s = 0; s < calls.series.size() && fits; ++s) {
      const std::shared_ptr<Plan>* const plan = repeatable(calls.series[s].key);
      fits = plan != nullptr && group_.add(*plan, calls.series[s]);
    }
    return Status();
  });
  if (status.ok() && fits) return &group_;
  leave();
  return nullptr;
}

void Engine::goOn(std::span<const std::shared_ptr<Run>> runs, FastGroup& group, bool waits) {
  for (const FastGroup::Member& member : group.members()) {
    for (size_t i = member.complete; i < member.series.calls; ++i)
      start(runs[member.series.first + i], [&](Run& begun) { group.handOver(member, i, begun); });
  }
  if (!waits) return leaveToCaller();
  for (const auto& run : runs) {
    if (run != nullptr) driveFor(*run);
  }
  role_.leave(left());
}

void Engine::catchUp() {
  if (longRuns_.load(std::memory_order_relaxed) > 0) return;
  // The service thread gives the role up after each look. Were it not waited for, a thread that makes calls
  // faster than that one goes on with them would leave all to it for good.
  bool driver = role_.takeIfFree();
  for (int i = 0; i < kLooksForRole && !driver && !role_.awaited(); ++i) {
    relaxProcessor();
    driver = role_.state() == DriverRole::State::free && role_.takeIfFree();
  }
  if (!driver) return;
  asDriver([&] {
    disarm();
    const TimePoint until = options_.system->now() + kCatchUp;
    FastLooks looks(manner(true), FastLooks::At::memory, *options_.system);
    bool moved = false;
    while (!failing() && options_.system->now() < until) {
      if (drive() || role_.news()) {
        moved = true;
        looks.restart();
        continue;
      }
      looks.count();
      if (left() == DriverRole::Left::nothing || looks.over() || (!moved && !peersCame_)) break;
      looks.rest(nullptr);
    }
    peersCame_ = moved;
  });
  leaveToCaller();
}

// By the driver. What goes on looks like news, which are left to the thread that brought them for a moment.
void Engine::leaveToCaller() {
  if (active_.empty()) return role_.leave(left());
  role_.announce([] {});
  role_.leave(DriverRole::Left::held);
}

}  // namespace eccl::runtime
