// What the driver does when nothing moves: it looks at once again, then it looks and yields, then it sleeps.

#include <algorithm>

#include "base/atomics.h"
#include "runtime/execution/engine.h"

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
/// How often carried Runs are asked whether they have ended. Nobody waits for that: the caller's stream goes on
/// by itself. A stream of a device that waited for their end and rang would share a hardware queue with other
/// streams, and hold them up (seen on an NVIDIA H100, November 2026).
constexpr Duration kCarriedLook = std::chrono::milliseconds(1);
/// And how often whether their kernels have sent something, where that passes through the host.
constexpr Duration kRelayLook = std::chrono::microseconds(100);

}  // namespace

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

void Engine::stopRings() {
  armed_ = false;
  connector_->forEach([](transport::Connection& connection) {
    if (connection.path() != nullptr) connection.path()->afterSleep();
  });
}

Duration Engine::longestSleep() const {
  const bool carried =
      std::any_of(active_.begin(), active_.end(), [](const auto& run) { return run->carried; });
  return !carried ? options_.stallTime : relays() ? kRelayLook : kCarriedLook;
}

void Engine::sleep() {
  arm();
  role_.fallAsleep();
  const bool news = role_.news();  // its connections were not armed
  if (!drive() && !news && !failing() && !role_.news()) {
    const Duration due = connector_->nextDeadline() - options_.system->now();
    const Duration limit = std::max(Duration::zero(), std::min(longestSleep(), due));
    reactor_.poll(std::chrono::ceil<std::chrono::milliseconds>(limit));
  }
  role_.wakeUp();
  disarm();
  checkStalls();
}

// Of what their graphs do nobody tells.
void Engine::lookAtCaptured() {
  const TimePoint now = options_.system->now();
  if (captured_.empty() || now < capturedLookAt_ + options_.stallTime) return;
  capturedLookAt_ = now;
  std::erase_if(captured_, [this](const std::shared_ptr<Run>& run) {
    if (run->lanes[0].fault != LaneFault::none) return false;  // being told about
    const Replays replays = run->executor->look(*run);
    run->moved |= replays == Replays::idle;
    if (replays == Replays::failed) laneFailed(*run, 0);
    if (replays == Replays::over && !run->carried) --replayed_;
    return replays == Replays::over;
  });
  tellStalls(captured_);
}

// To ask each of a few sockets costs less than to ask the reactor for all.
void Engine::lookAtSockets() {
  if (relays()) {  // by connections that no Run has
    reactor_.poll(Duration::zero());
    return;
  }
  transport::Path* sockets[kMaxPolled];
  int count = 0;
  bool any = false;
  for (const auto& run : active_) {
    for (transport::Connection* connection : run->plan->connections) {
      const bool ready = connection->state() == transport::Connection::State::ready;
      if (ready && connection->path()->inMemory()) continue;
      if (!ready || !connection->path()->polls() || (!connection->sends() && count == kMaxPolled)) {
        reactor_.poll(Duration::zero());
        return;
      }
      any = true;
      if (connection->sends())
        connection->path()->poll();  // sockets: looks only where a lane waits for credits
      else
        sockets[count++] = connection->path();
    }
  }
  if (!any) return relaxProcessor();
  for (int i = 0; i < count; ++i) sockets[i]->poll();
}

// Two that just began may be on one processor, until the kernel notices: who spins there keeps the other from
// going on.
bool Engine::peersWaitHere() const {
  const uint32_t here = processorHere();
  bool any = false;
  for (const auto& run : active_) {
    for (transport::Connection* connection : run->plan->connections) {
      if (connection->state() == transport::Connection::State::ready) any |= connection->path()->waitsOn(here);
    }
  }
  return any;
}

void Engine::idle(Looks& looks) {
  if (++looks.made == kPatientLooks) losePatience();
  const Duration spin = spin_.load(std::memory_order_relaxed);
  // The clock takes as long as a look: while spinning it is asked now and then.
  if (looks.made == 1 || looks.yielding || looks.made % kLooksPerClock == 0) {
    const TimePoint now = options_.system->now();
    if (looks.made == 1) looks.since = now;
    if (looks.made == kLooksPerClock) looks.shared = peersWaitHere();
    looks.yielding = looks.shared || now - looks.since >= spin;
    if (now - looks.since >= spin + kYield) return sleep();
  }
  if (!looks.yielding) return lookAtSockets();
  if (looks.made % kLooksPerPoll == 0) reactor_.poll(Duration::zero());
  options_.system->yield();
}

}  // namespace eccl::runtime
