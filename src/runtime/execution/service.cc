#include "runtime/execution/service.h"

#include <algorithm>

#include "transport/net/doorbell.h"

namespace eccl::runtime {
namespace {
enum Source : uint64_t { kAcceptor, kControl, kEngine, kWake };
}

Status Service::start(System& system, transport::Acceptor& acceptor, transport::Control& control,
                      Engine& engine, std::function<void()> tick, std::function<void(const Status&)> failed) {
  ECCL_TRY(poller_.open(system));
  ECCL_ASSIGN(wake_, transport::openBell(system));
  ECCL_TRY(poller_.watch(acceptor.fd(), EPOLLIN, kAcceptor));
  ECCL_TRY(poller_.watch(control.fd(), EPOLLIN, kControl));
  ECCL_TRY(poller_.watch(engine.fd(), 0, kEngine));
  ECCL_TRY(poller_.watch(wake_.get(), EPOLLIN, kWake));
  const auto run = [this, &system, &acceptor, &control, &engine, tick = std::move(tick),
                    failed = std::move(failed)] {
    while (!stopping_.load(std::memory_order_acquire)) {
      const Status status =
          guarded("eccl-service", [&] { return turn(system, acceptor, control, engine, tick), Status(); });
      if (status.ok()) continue;
      failed(status);
      epoll_event events[4];
      poller_.wait(events, 4, std::chrono::milliseconds(10));  // it may fail again at once
    }
  };
  ECCL_ASSIGN(thread_, system.start("eccl-service", run));
  return {};
}

void Service::turn(System& system, transport::Acceptor& acceptor, transport::Control& control, Engine& engine,
                   const std::function<void()>& tick) {
  TimePoint now = system.now();
  TimePoint until =
      std::min({now + kTick, acceptor.nextDeadline(), control.nextDeadline(), engine.serveDeadline()});
  epoll_event events[4];
  poller_.wait(events, 4, std::max(Duration::zero(), Duration(until - now)));
  transport::clearBell(wake_);
  acceptor.progress();
  control.progress();
  // One shot: while somebody else drives, the engine's descriptor must not keep this thread awake.
  if (engine.serve())
    poller_.watch(engine.fd(), EPOLLIN | EPOLLONESHOT, kEngine).ignore();  // known to be valid
  tick();
}

void Service::wake() {
  transport::ringBell(wake_);
}

void Service::stop() {
  if (!thread_.joinable()) return;
  stopping_.store(true, std::memory_order_release);
  wake();
  thread_.join();
}

void Service::closeAfterFork() {
  poller_.close();
  wake_.reset();
}

}  // namespace eccl::runtime
