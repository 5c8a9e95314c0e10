// What the driver tells of connections and Runs, as only it may look at them.

#include <utility>

#include "base/log.h"
#include "runtime/execution/engine.h"
#include "transport/bootstrap/ranks.h"

namespace eccl::runtime {
namespace {

/// The end of a communicator that waits so long for receivers says so.
constexpr Duration kLongEnd = std::chrono::seconds(5);

}  // namespace

// By the driver.
void Engine::checkStalls() {
  tellStalls(active_);
  lookAtCaptured();
}

void Engine::tellStalls(std::span<const std::shared_ptr<Run>> runs) {
  stalls_.check(runs, [this](Run& run, Duration stalled) {
    const Awaited awaited = awaitedBy(run);
    if (run.carried && relays()) tellOfRelays(run, awaited);
    handler_.onStall(run, stalled, awaited);
    return !failing();
  });
}

// By the driver. The lanes of other Runs see for themselves that a connection has failed.
void Engine::tellOfRelays(Run& run, const Awaited& awaited) {
  for (const int peer : awaited.peers) {
    const auto why = executors_.device()->relayFailure(peer);
    if (why.has_value()) handler_.onPeerFailed(run, peer, *why);
  }
}

// By the driver: nothing that was sent through the host waits for a receiver. `since`: of the end.
bool Engine::relayed(TimePoint since) {
  const std::vector<int> ranks = executors_.device()->relaysTo();
  if (!ranks.empty() && options_.system->now() >= since + kLongEnd && !std::exchange(toldOfReceivers_, true))
    ECCL_WARN("the end of the communicator waits until %s received what was sent there, or ended, too",
              (transport::nameRanks(ranks) + (ranks.size() > 1 ? " have" : " has")).c_str());
  return ranks.empty();
}

/// Brought by a thread that waits until it is done.
struct Engine::Question {
  std::atomic<bool> done{false};
  std::function<void()> look;
  Status status;
};

// Whoever drives is woken for it; else this thread does.
Status Engine::ask(std::function<void()> look) {
  const auto question = std::make_shared<Question>();
  question->look = std::move(look);
  role_.announce([&] { inbox_.questions.push_back(question); });
  for (bool drives = role_.wait(question->done); drives; drives = role_.await(question->done)) {
    asDriver([&] {
      if (!failing()) takeQueued();  // else it is answered by failActive()
    });
    if (role_.giveBack(left(), question->done)) break;
  }
  return question->status;
}

// That there is no memory for an answer is no failure of the communicator.
void Engine::answer(std::vector<std::shared_ptr<Question>>& questions) noexcept {
  for (const auto& question : questions) {
    question->status = guarded("answering another thread", [&] { return question->look(), Status(); });
    role_.finish([&] { question->done.store(true, std::memory_order_release); });
  }
}

Result<std::vector<transport::ConnectionReport>> Engine::reports() {
  std::vector<transport::ConnectionReport> reports;
  ECCL_TRY(ask([&] { reports = lookAtConnections(); }));
  return reports;
}

std::vector<transport::ConnectionReport> Engine::lookAtConnections() {
  std::vector<transport::ConnectionReport> reports;
  connector_->forEach([&](transport::Connection& each) { reports.push_back(transport::reportOf(each)); });
  return reports;
}

bool Engine::rest() {
  bool idle = false;
  const Status asked = ask([&] {
    idle = !failing() && active_.empty() && pending_.empty();
    if (!idle) return;
    forgetRepeatable();
    connector_->forEach([](transport::Connection& connection) {
      if (connection.path() != nullptr) connection.path()->giveBack();
    });
  });
  return asked.ok() && idle;
}

}  // namespace eccl::runtime
