#include "runtime/execution/service.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>

#include "base/thread.h"

namespace eccl::runtime {
namespace {
enum Source : uint64_t { kAcceptor, kControl, kEngine, kWake };
}

Status Service::start(transport::Acceptor& acceptor, transport::Control& control, Engine& engine,
                      std::function<void()> tick, std::function<void(const Status&)> failed) {
  ECCL_TRY(poller_.open());
  wake_.reset(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!wake_) return Status::fromErrno(errno, "eventfd (raise 'ulimit -n'?)");
  ECCL_TRY(poller_.watch(acceptor.fd(), EPOLLIN, kAcceptor));
  ECCL_TRY(poller_.watch(control.fd(), EPOLLIN, kControl));
  ECCL_TRY(poller_.watch(engine.fd(), 0, kEngine));
  ECCL_TRY(poller_.watch(wake_.get(), EPOLLIN, kWake));
  const auto run = [this, &acceptor, &control, &engine, tick = std::move(tick), failed = std::move(failed)] {
    while (!stopping_.load(std::memory_order_acquire)) {
      const Status status =
          guarded("eccl-service", [&] { return turn(acceptor, control, engine, tick), Status(); });
      if (status.ok()) continue;
      failed(status);
      waitFor(std::chrono::milliseconds(10));  // it may fail again at once
    }
  };
  ECCL_ASSIGN(thread_, startThread("eccl-service", run));
  return {};
}

void Service::waitFor(Duration limit) const {
  epoll_event events[4];
  const timespec left{limit.count() / 1'000'000'000, limit.count() % 1'000'000'000};
  if (epoll_pwait2(poller_.fd(), events, 4, &left, nullptr) >= 0 || errno != ENOSYS) return;
  epoll_wait(poller_.fd(), events, 4, static_cast<int>((limit.count() + 999'999) / 1'000'000));  // Linux < 5.11
}

void Service::turn(transport::Acceptor& acceptor, transport::Control& control, Engine& engine,
                   const std::function<void()>& tick) {
  TimePoint now = Clock::system().now();
  TimePoint until =
      std::min({now + kTick, acceptor.nextDeadline(), control.nextDeadline(), engine.serveDeadline()});
  waitFor(std::max(Duration::zero(), Duration(until - now)));
  uint64_t count;
  while (read(wake_.get(), &count, sizeof count) > 0) {}
  acceptor.progress();
  control.progress();
  // One shot: while somebody else drives, the engine's descriptor must not keep this thread awake.
  if (engine.serve())
    poller_.watch(engine.fd(), EPOLLIN | EPOLLONESHOT, kEngine).ignore();  // known to be valid
  tick();
}

void Service::wake() {
  uint64_t one = 1;
  [[maybe_unused]] ssize_t written = write(wake_.get(), &one, sizeof one);  // full means it is awake
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
