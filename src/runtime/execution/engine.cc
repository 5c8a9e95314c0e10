// The driver at work: passes over connections and Runs. engine_runs.cc has what is done to a Run,
// engine_short.cc what callers drive themselves, engine_waits.cc what the driver does when nothing moves.
#include "runtime/execution/engine.h"

#include <algorithm>

#include "base/atomics.h"
#include "base/log.h"
#include "transport/connect/rank_transports.h"

namespace eccl::runtime {
namespace {

/// The service thread has others to serve and looks for less long. Where it is the one that drives, as nobody
/// waits for calls on a device's streams, it looks for so long after each move: a wake-up from there takes 30
/// to 50 us (NVIDIA H100, November 2026: perf/results/gpu.md).
constexpr Duration kServeYield = std::chrono::microseconds(50), kServeDevice = std::chrono::microseconds(200);
/// What else it serves has its turn after that.
constexpr Duration kServeAtOnce = std::chrono::milliseconds(10);

/// Room for `more`. reserve() by itself makes room for no more than that, so each call would copy all before
/// it.
template <class T>
void makeRoom(std::vector<T>& list, size_t more) {
  if (list.capacity() - list.size() < more) list.reserve(std::max(list.size() + more, 2 * list.capacity()));
}

}  // namespace

Engine::Engine(EngineOptions options, EngineHandler& handler)
    : options_(options),
      handler_(handler),
      role_(*options.system, *this),
      spin_(options.spin),
      stalls_(options.stallTime, *options.system) {}

Engine::~Engine() {
  close();
}

void Engine::close() {
  if (bell_ == nullptr) return;
  std::lock_guard lock(bell_->mutex);
  bell_->engine = nullptr;
}

Status Engine::open(transport::ConnectorOptions connectorOptions) {
  ECCL_TRY(reactor_.open(*options_.system));
  connectorOptions.onBroken = [this](int rank, const std::string& reason) {
    handler_.onPeerGone(rank, reason);
  };
  connectorOptions.onRailLost = [this](const std::string& what) {
    handler_.onDriverFailed(Status::error(
        Code::remote, "a rail is lost: %s. Mend it, or leave it out by ECCL_SOCKET_IFNAME", what.c_str()));
  };
  connector_ = std::make_unique<transport::Connector>(std::move(connectorOptions), reactor_);
  return {};
}

Status Engine::openExecutors(const std::optional<ExecutorKind>& device) {
  bell_ = std::make_shared<Bell>();
  bell_->engine = this;
  const auto reaching = [this](auto act) {
    return [bell = bell_, act] {
      std::lock_guard lock(bell->mutex);
      if (bell->engine != nullptr) act(*bell->engine);
    };
  };
  ECCL_TRY(executors_.open(
      {reaching([](Engine& engine) { engine.reactor_.ring(); }),
       reaching([](Engine& engine) { engine.role_.announce([] {}); }),
       [this](const transport::ConnectionId& id) { return connector_->get(id); },
       [this](int rank) { return connector_->hasLeft(rank); },
       [this](const transport::MemoryRange& memory, transport::MemoryFor what, int dmabuf) {
         const size_t before = relaysUse_.size();
         connector_->transports().useMemory(memory, what, transport::MemoryKind::lasting, dmabuf, &relaysUse_);
         return relaysUse_.size() > before;
       },
       nullptr},
      device));
  if (device) role_.servePromptly();
  return {};
}

void Engine::setRings(const RingShape& ring, uint32_t directFrom, uint64_t slotSpread) {
  role_.take();
  connector_->setRings(ring, directFrom, slotSpread);
  role_.leave(left());
}

void Engine::setNearPorts(std::vector<std::string> names) {
  role_.take();
  connector_->transports().context().nearPorts = std::move(names);
  role_.leave(left());
}

void Engine::registerMemory(const transport::MemoryRange& memory) {
  connector_->transports().registerMemory(memory);
}

void Engine::deregisterMemory(const transport::MemoryRange& memory) {
  connector_->transports().deregisterMemory(memory);
}

void Engine::submit(std::span<const std::shared_ptr<Run>> runs) {
  const auto queue = [&] {
    makeRoom(inbox_.queued, runs.size());
    makeRoom(inbox_.released, runs.size());
    for (auto& run : runs) {
      count(*run);
      inbox_.queued.push_back(run);
      if (run->holds.load(std::memory_order_relaxed) == 0) inbox_.released.push_back(run);
    }
  };
  // What an executor carries out by itself is only watched.
  if (!relays() && std::all_of(runs.begin(), runs.end(), [](const auto& run) { return run->carried; }))
    role_.mention(queue);
  else
    role_.announce(queue);
}

void Engine::release(std::span<const std::shared_ptr<Run>> runs) {
  role_.announce([&] {
    for (auto& run : runs) {
      if (run->holds.fetch_sub(1, std::memory_order_relaxed) == 1) inbox_.released.push_back(run);
    }
  });
}

void Engine::adopt(transport::Incoming incoming) {
  role_.announce([&] { inbox_.incoming.push_back(std::move(incoming)); });
}

void Engine::expectEnd(int rank) {
  role_.announce([&] { inbox_.leaving.push_back(rank); });
}

void Engine::hearFlows(int origin, std::string_view message) {
  role_.announce([&] { inbox_.flows.emplace_back(origin, message); });
}

void Engine::fail(const Status& why) {
  role_.alarm([&] {
    if (failure_.ok()) failure_ = why;
    failing_.store(true);  // before the look at who drives: who falls asleep does it the other way round
  });
}

void Engine::quiesce() {
  role_.take();
  failActive();
  role_.leave(left());
}

// What was submitted touches neither the caller's memory any more, nor what peers have lent.
void Engine::stopExecutors() {
  const auto forAll = [this](void (Executor::*stop)(Work&)) {
    for (auto& run : active_) {
      if (!run->done.load(std::memory_order_relaxed)) (run->executor->*stop)(*run);
    }
    for (auto& run : captured_) (run->executor->*stop)(*run);
  };
  forAll(&Executor::cancel);
  forAll(&Executor::quiesce);
}

// Allocates nothing: it is what is left to do when memory has run out.
void Engine::failActive() {
  stopExecutors();
  if (!poisoned_ && connector_ != nullptr) {
    poisoned_ = true;
    connector_->poison();
    if (options_.reportsFailure)
      guarded("reporting a failure", [&] { return handler_.onFailed(lookAtConnections()), Status(); }).ignore();
  }
  Status why;
  Inbox inbox;
  role_.takeNews([&] {
    why = failure_;
    std::swap(inbox, inbox_);
  });
  answer(inbox.questions);
  if (failing()) {
    captured_.clear();
    replayed_ = 0;
  }
  for (; !active_.empty(); active_.pop_back()) complete(*active_.back(), why);
  for (; !pending_.empty(); pending_.erase(pending_.begin())) complete(*pending_.begin()->second, why);
  for (auto& run : inbox.queued) complete(*run, why);
}

void Engine::takeQueued() {
  Inbox inbox;
  role_.takeNews([&] { std::swap(inbox, inbox_); });
  const Status taken = guarded("taking up calls", [&] {
    for (int rank : inbox.leaving) connector_->expectEnd(rank);
    for (auto& [origin, message] : inbox.flows) connector_->hearFlows(origin, message);
    for (transport::Incoming& each : inbox.incoming) connector_->adopt(std::move(each));
    for (auto& run : inbox.queued) {
      if (run->captured) {
        keepCaptured(run);
        continue;
      }
      admit(*run);
      pending_.emplace(run.get(), run);
    }
    for (auto& run : inbox.released) run->released = true;
    for (auto* list : {&inbox.released, &inbox.queued}) {
      for (auto& run : *list) {
        // A stream may release a Run while another thread is about to submit it.
        if (!run->released || pending_.erase(run.get()) == 0) continue;
        ECCL_TRY(begin(*run));
        prepare(*run);
        active_.push_back(run);
      }
    }
    return Status();
  });
  if (!taken.ok()) {
    handler_.onDriverFailed(taken);
    for (auto* list : {&inbox.released, &inbox.queued}) {
      for (auto& run : *list) complete(*run, taken);  // some are in no list
    }
  }
  answer(inbox.questions);  // of the state with all that was brought
}

void Engine::complete(Run& run, Status status) {
  if (run.done.load(std::memory_order_relaxed)) return;
  if (std::exchange(run.isLong, false)) longRuns_.fetch_sub(1, std::memory_order_relaxed);
  run.status = std::move(status);
  run.uses.clear();
  if (!run.captured) run.state.reset();
  // First those who are told: whoever waits for the Run finds its error in the stream.
  const auto onDone = std::move(run.onDone);  // may hold what holds the run
  for (const auto& tell : onDone) {
    const Status told = guarded("ending a call", [&] { return tell(run), Status(); });
    if (!told.ok()) handler_.onDriverFailed(told);
  }
  role_.finish([&] { run.done.store(true, std::memory_order_release); });
}

bool Engine::drive() {
  if (failing()) {
    failActive();
    return false;
  }
  if (role_.news()) takeQueued();
  connector_->progress();
  bool moved = false;
  if (const auto& device = executors_.device(); device != nullptr && device->anyBegun()) {
    takeReplays();
    moved = true;
  }
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
  moved |= relays() && relayMessages();  // last: what Runs that have ended sent and released is there now
  if (failing()) return true;
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

// By the driver.
void Engine::driveFor(Run& run) {
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
}

void Engine::wait(Run& run) {
  for (bool drives = role_.wait(run.done); drives; drives = role_.await(run.done)) {
    driveFor(run);
    if (role_.giveBack(left(), run.done)) return;
  }
}

bool Engine::drain(std::vector<transport::Untaken>* lost) {
  role_.take();
  bool drained = false;
  const TimePoint since = options_.system->now();
  asDriver([&] {
    bool told = false;
    while (!failing()) {
      const bool idle = active_.empty() && pending_.empty() && !role_.news();
      draining_ |= idle;
      const bool ended = idle && (!relays() || relayed(since));
      // Senders must not wait for receives that will never come.
      if (ended && !std::exchange(told, true)) {
        connector_->endReceiving();
        connector_->askForReleases();
      }
      if (ended && connector_->drained()) {
        if (!messagesLost_.ok()) handler_.onDriverFailed(messagesLost_);  // no other cause will be heard of
        break;
      }
      if (drive()) continue;
      losePatience();
      connector_->forEach([](transport::Connection& connection) {
        if (connection.path() == nullptr) return;
        connection.path()->flush();
        connection.path()->kick();
      });
      // Credits for shared memory ring no bell while no lane waits for them: look now and then.
      reactor_.poll(std::chrono::milliseconds(2));
      checkStalls();
    }
    *lost = connector_->untaken();
    drained = !failing();
  });
  role_.leave(left());
  return drained;
}

bool Engine::serve() {
  if (!role_.takeForService(failing(), &serveDeadline_)) return false;  // whoever drives minds the time
  bool goesOn = false;
  const TimePoint most = options_.system->now() + kServeAtOnce;
  asDriver([&] {
    disarm();
    reactor_.poll(Duration::zero());
    const bool device = executors_.device() != nullptr;
    TimePoint until = options_.system->now() + (relays() ? Duration::zero()
                                                : device ? kServeDevice
                                                         : kServeYield);
    while (!role_.awaited()) {
      if (drive()) {
        const TimePoint now = options_.system->now();
        if (device) until = now + kServeDevice;
        goesOn = now >= most;
        if (goesOn) break;
        continue;
      }
      if (relays()) lookAtSockets();
      // For the next call of a graph as for what the caller's stream has next.
      const bool waits = replayed_ > 0 || std::any_of(active_.begin(), active_.end(), [this](const auto& run) {
                           return !run->carried || relays();
                         });
      if (!waits || failing() || options_.system->now() >= until) break;
    }
    // Armed anew after each move: a connection may have become ready, or of use, meanwhile.
    while (!role_.awaited() && !goesOn) {
      arm();
      if (!drive()) break;
      goesOn = options_.system->now() >= most;
    }
    checkStalls();
  });
  // After a failure nothing is set up any more, and what was due stays so.
  TimePoint due = failing() ? TimePoint::max() : goesOn ? options_.system->now() : connector_->nextDeadline();
  if (!active_.empty()) due = std::min(due, options_.system->now() + longestSleep());
  role_.giveBackFromService(left(), &serveDeadline_);
  serveDeadline_ = std::min(serveDeadline_, due);
  return true;
}

void Engine::closeAfterFork() {
  if (connector_ != nullptr) connector_->closeAfterFork();
  reactor_.closeAfterFork();
}

}  // namespace eccl::runtime
