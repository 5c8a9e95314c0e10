// What others ask of the connections, which only the driver may look at.

#include <utility>

#include "runtime/execution/engine.h"

namespace eccl::runtime {

/// Brought by a thread that waits until it is done.
struct Engine::Question {
  std::atomic<bool> done{false};
  Result<std::vector<transport::ConnectionReport>> reports = Status::error(Code::internal, "not answered");
};

Result<std::vector<transport::ConnectionReport>> Engine::reports() {
  const auto question = std::make_shared<Question>();
  role_.announce([&] { inbox_.questions.push_back(question); });
  for (bool drives = role_.wait(question->done); drives; drives = role_.await(question->done)) {
    asDriver([&] {
      if (!failing()) takeQueued();  // else it is answered by failActive()
    });
    if (role_.giveBack(left(), question->done)) break;
  }
  return std::move(question->reports);
}

std::vector<transport::ConnectionReport> Engine::lookAtConnections() {
  std::vector<transport::ConnectionReport> reports;
  connector_->forEach([&](transport::Connection& each) { reports.push_back(transport::reportOf(each)); });
  return reports;
}

// That there is no memory for an answer is no failure of the communicator.
void Engine::answer(std::vector<std::shared_ptr<Question>>& questions) noexcept {
  for (const auto& question : questions) {
    const Status status = guarded("reporting connections", [&] {
      question->reports = lookAtConnections();
      return Status();
    });
    if (!status.ok()) question->reports = status;
    role_.finish([&] { question->done.store(true, std::memory_order_release); });
  }
}

}  // namespace eccl::runtime
