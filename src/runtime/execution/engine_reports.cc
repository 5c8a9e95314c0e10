// What others ask of the driver, as only it may look at connections and Runs.

#include <utility>

#include "runtime/execution/engine.h"

namespace eccl::runtime {

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
