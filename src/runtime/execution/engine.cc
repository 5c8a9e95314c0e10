#include "runtime/execution/engine.h"

#include <sched.h>

#include <algorithm>

#include "base/atomics.h"
#include "base/log.h"

namespace eccl::runtime {
namespace {

/// A wait gives up the processor after each look for this long before it sleeps: long against what a sleep and
/// a wake-up cost (some 50 us, during which the peer falls asleep in turn), short against what counts as
/// waiting.
constexpr Duration kYield = std::chrono::milliseconds(1);
/// While yielding, descriptors are asked for news once in so many looks: that costs more than a look.
constexpr int kLooksPerPoll = 4;
/// After so many (some microseconds) places for long messages are not waited for any more.
constexpr unsigned kPatientLooks = 100;
/// While spinning, the clock once in so many.
constexpr int kLooksPerClock = 16;

/// Room for `more`. reserve() by itself makes room for no more than that, so each call would copy all before
/// it.
template <class T>
void makeRoom(std::vector<T>& list, size_t more) {
  if (list.capacity() - list.size() < more) list.reserve(std::max(list.size() + more, 2 * list.capacity()));
}

}  // namespace

Engine::Engine(EngineOptions options, EngineHandler& handler)
    : options_(options), handler_(handler), spin_(options.spin) {}

Status Engine::open(transport::ConnectorOptions connectorOptions) {
  ECCL_TRY(reactor_.open());
  ECCL_TRY(executors_.open({[this] { reactor_.ring(); }}));
  connectorOptions.onBroken = [this](int rank, const std::string& reason) {
    handler_.onPeerFailed(nullptr, rank, reason);
  };
  connector_ = std::make_unique<transport::Connector>(std::move(connectorOptions), reactor_);
  return {};
}

void Engine::setDirectFrom(uint32_t bytes) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !driving_; });
  connector_->setDirectFrom(bytes);
}

void Engine::submit(std::span<const std::shared_ptr<Run>> runs) {
  std::lock_guard lock(mutex_);
  makeRoom(queued_, runs.size());
  makeRoom(released_, runs.size());
  for (auto& run : runs) {
    queued_.push_back(run);
    if (run->holds.load(std::memory_order_relaxed) == 0) released_.push_back(run);
  }
  announce(waiting_ == 0);
}

void Engine::release(std::span<const std::shared_ptr<Run>> runs) {
  std::lock_guard lock(mutex_);
  for (auto& run : runs) {
    if (run->holds.fetch_sub(1, std::memory_order_relaxed) == 1) released_.push_back(run);
  }
  announce(waiting_ == 0);
}

void Engine::execute(const std::shared_ptr<Run>& run) {
  std::unique_lock lock(mutex_);
  if (!driving_ && !news_.load(std::memory_order_relaxed)) {  // nothing comes before it: no need to queue
    ++waiting_;
    driving_ = true;
    lock.unlock();
    start(run, nullptr);
    driveFor(*run, lock);
    return stopWaiting(lock);
  }
  queued_.push_back(run);
  released_.push_back(run);
  announce(false);
  lock.unlock();
  wait(*run);
}

// Under the mutex: the driver, if there is one, is to look at what is new, else the service thread if asked
// for.
void Engine::announce(bool toService) {
  if (!news_.exchange(true)) newsSince_ = options_.clock->now();
  if (driving_ && sleeping_.load())  // pairs with sleep(): it sees the news, or this sees it asleep
    reactor_.ring();
  else if (!driving_ && toService && !attended_)
    handler_.wakeService();
}

void Engine::adopt(transport::Incoming incoming) {
  std::lock_guard lock(mutex_);
  incoming_.push_back(std::move(incoming));
  announce(true);
}

void Engine::expectEnd(int rank) {
  std::lock_guard lock(mutex_);
  leaving_.push_back(rank);
  announce(true);
}

void Engine::fail(const Status& why) {
  {
    std::lock_guard lock(mutex_);
    if (failure_.ok()) failure_ = why;
    failing_.store(true, std::memory_order_release);
    if (driving_) reactor_.ring();
  }
  handler_.wakeService();
}

void Engine::quiesce() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !driving_; });
  driving_ = true;
  lock.unlock();
  failActive();
  lock.lock();
  driving_ = false;
  changed_.notify_all();
}

// What was submitted touches neither the caller's memory any more, nor what peers have lent.
void Engine::stopExecutors() {
  for (auto& run : active_) {
    if (!run->done.load(std::memory_order_relaxed)) run->executor->cancel(*run);
  }
  for (auto& run : active_) {
    if (!run->done.load(std::memory_order_relaxed)) run->executor->quiesce(*run);
  }
}

// Allocates nothing: it is what is left to do when memory has run out.
void Engine::failActive() {
  stopExecutors();
  if (!poisoned_ && connector_ != nullptr) {
    poisoned_ = true;
    connector_->poison();
  }
  Status why;
  std::vector<std::shared_ptr<Run>> queued;
  {
    std::lock_guard lock(mutex_);
    why = failure_;
    queued.swap(queued_);
    released_.clear();
    incoming_.clear();
  }
  for (; !active_.empty(); active_.pop_back()) complete(*active_.back(), why);
  for (; !pending_.empty(); pending_.erase(pending_.begin())) complete(*pending_.begin()->second, why);
  for (auto& run : queued) complete(*run, why);
}

void Engine::takeQueued() {
  std::vector<std::shared_ptr<Run>> queued, released;
  std::vector<transport::Incoming> incoming;
  std::vector<int> leaving;
  {
    std::lock_guard lock(mutex_);
    queued.swap(queued_);
    released.swap(released_);
    incoming.swap(incoming_);
    leaving.swap(leaving_);
    news_.store(false, std::memory_order_relaxed);
  }
  const Status taken = guarded("taking up calls", [&] {
    for (int rank : leaving) connector_->expectEnd(rank);
    for (transport::Incoming& each : incoming) connector_->adopt(std::move(each));
    for (auto& run : queued) {
      admit(*run);
      pending_.emplace(run.get(), run);
    }
    for (auto& run : released) run->released = true;
    for (auto* list : {&released, &queued}) {
      for (auto& run : *list) {
        // A stream may release a Run while another thread is about to submit it.
        if (!run->released || pending_.erase(run.get()) == 0) continue;
        ECCL_TRY(begin(*run));
        active_.push_back(run);
      }
    }
    return Status();
  });
  if (taken.ok()) return;
  handler_.onDriverFailed(taken);
  for (auto* list : {&released, &queued}) {
    for (auto& run : *list) complete(*run, taken);  // some are in no list
  }
}

// In the order of the calls, the same on all ranks: from here on the Run has its place at its connections.
void Engine::admit(Run& run) {
  run.plan->bind(*connector_);
  const size_t lanes = run.plan->program->lanes.size();
  run.phases.assign(lanes, Run::LanePhase::waiting);
  run.incomplete = lanes;
  run.tickets.clear();
  run.drains.assign(run.plan->connections.size(), 0);
  for (transport::Connection* connection : run.plan->connections)
    run.tickets.push_back(connection->takeTicket());
}

// By the driver: the Run is next, nothing comes before it. If that cannot be, it has ended.
void Engine::start(const std::shared_ptr<Run>& run, const FastPath* halfway) {
  const Status status = guarded("starting a call", [&] {
    admit(*run);
    ECCL_TRY(begin(*run));
    if (halfway != nullptr)
      halfway->handOver(*run);
    else if (run->plan->fastPath() == nullptr && run->executor == &executors_.host())
      run->plan->setFastPath(FastPath::of(run->call, *run->plan, run->record));
    active_.push_back(run);
    return Status();
  });
  if (status.ok()) return;
  handler_.onDriverFailed(status);
  complete(*run, status);
}

void Engine::complete(Run& run, Status status) {
  if (run.done.load(std::memory_order_relaxed)) return;
  run.status = std::move(status);
  run.state.reset();
  {
    std::lock_guard lock(mutex_);
    run.done.store(true, std::memory_order_release);
    changed_.notify_all();
  }
  const auto onDone = std::move(run.onDone);  // may hold what holds the run
  for (const auto& tell : onDone) {
    const Status told = guarded("ending a call", [&] { return tell(run), Status(); });
    if (!told.ok()) handler_.onDriverFailed(told);
  }
}

bool Engine::drive() {
  if (failing()) {
    failActive();
    return false;
  }
  if (news_.load(std::memory_order_acquire)) takeQueued();
  connector_->progress();
  bool moved = false;
  bool finished = false;
  for (size_t i = 0; i < active_.size(); ++i) {
    Run& run = *active_[i];
    bool runMoved = false;
    // All lanes tell where they want messages before the first of them takes its time.
    for (size_t lane = 0; lane < run.phases.size(); ++lane) {
      if (run.phases[lane] == Run::LanePhase::waiting) startLane(run, static_cast<int>(lane));
      if (failing()) return true;
    }
    for (size_t lane = 0; lane < run.phases.size(); ++lane) {
      if (run.phases[lane] == Run::LanePhase::waiting || run.phases[lane] == Run::LanePhase::complete) continue;
      if (!run.lanes.empty() && run.lanes[lane].fault != LaneFault::none) continue;  // being told about
      runMoved |= advanceLane(run, static_cast<int>(lane));
      if (failing()) return true;
    }
    run.moved |= runMoved;
    moved |= runMoved;
    finished |= run.incomplete == 0;
  }
  if (finished) {
    std::vector<std::shared_ptr<Run>> done;
    std::erase_if(active_, [&](const std::shared_ptr<Run>& run) {
      if (run->incomplete > 0) return false;
      done.push_back(run);
      return true;
    });
    for (auto& run : done) complete(*run, {});
  }
  return moved;
}

void Engine::losePatience() {
  for (auto& run : active_) run->view.patient = false;
}

void Engine::arm() {
  armed_ = true;
  losePatience();
  connector_->forEach([](transport::Connection& connection) {
    if (connection.path() == nullptr) return;
    connection.path()->flush();
    if (connection.inUse()) connection.path()->beforeSleep();
  });
}

void Engine::disarm() {
  if (!armed_) return;
  armed_ = false;
  connector_->forEach([](transport::Connection& connection) {
    if (connection.path() != nullptr) connection.path()->afterSleep();
  });
}

void Engine::sleep() {
  arm();
  sleeping_.store(true);
  if (!drive() && !failing() && !news_.load()) {
    Duration limit = std::min<Duration>(options_.stallTime, connector_->nextDeadline() - options_.clock->now());
    limit = std::max(Duration::zero(), limit);
    reactor_.poll(static_cast<int>((limit.count() + 999'999) / 1'000'000));
  }
  sleeping_.store(false, std::memory_order_relaxed);
  disarm();
  checkStalls();
}

void Engine::idle(Looks& looks) {
  if (++looks.made == kPatientLooks) losePatience();
  const Duration spin = spin_.load(std::memory_order_relaxed);
  // The clock takes as long as a look: while spinning it is asked now and then.
  if (looks.made == 1 || looks.yielding || looks.made % kLooksPerClock == 0) {
    const TimePoint now = options_.clock->now();
    if (looks.made == 1) looks.since = now;
    looks.yielding = now - looks.since >= spin;
    if (now - looks.since >= spin + kYield) return sleep();
  }
  if (!looks.yielding) return relaxProcessor();
  if (looks.made % kLooksPerPoll == 0) reactor_.poll(0);
  sched_yield();
}

// The caller has taken the driver's role.
void Engine::driveFor(Run& run, std::unique_lock<std::mutex>& lock) {
  asDriver([&] {
    disarm();
    Looks looks;
    while (!run.done.load(std::memory_order_acquire)) {
      if (drive())
        looks = {};
      else if (!run.done.load(std::memory_order_acquire))
        idle(looks);
      if (failing()) break;
    }
  });
  lock.lock();
  driving_ = false;
  changed_.notify_all();
}

void Engine::stopWaiting(std::unique_lock<std::mutex>& lock) {
  --waiting_;
  // active_ is the driver's: it may be looked at only while there is none.
  const bool left =
      !driving_ && !attended_ && waiting_ == 0 && (!active_.empty() || news_.load(std::memory_order_relaxed));
  lock.unlock();
  if (left) handler_.wakeService();
}

void Engine::wait(Run& run) {
  std::unique_lock lock(mutex_);
  ++waiting_;
  while (!run.done.load(std::memory_order_acquire)) {
    if (driving_) {
      changed_.wait(lock);
      continue;
    }
    driving_ = true;
    lock.unlock();
    driveFor(run, lock);
  }
  stopWaiting(lock);
}

bool Engine::drain(std::vector<transport::Untaken>* lost) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !driving_; });
  driving_ = true;
  lock.unlock();
  bool drained = false;
  asDriver([&] {
    bool told = false;
    while (!failing()) {
      const bool ended = active_.empty() && pending_.empty() && !news_.load(std::memory_order_acquire);
      // Senders must not wait for receives that will never come.
      if (ended && !std::exchange(told, true)) connector_->endReceiving();
      if (ended && connector_->drained()) break;
      if (drive()) continue;
      connector_->forEach([](transport::Connection& connection) {
        if (connection.path() == nullptr) return;
        connection.path()->flush();
        connection.path()->kick();
      });
      // Credits for shared memory ring no bell while no lane waits for them: look now and then.
      reactor_.poll(2);
      checkStalls();
    }
    *lost = connector_->untaken();
    drained = !failing();
  });
  lock.lock();
  driving_ = false;
  changed_.notify_all();
  return drained;
}

void Engine::closeAfterFork() {
  if (connector_ != nullptr) connector_->closeAfterFork();
  reactor_.closeAfterFork();
}

}  // namespace eccl::runtime
