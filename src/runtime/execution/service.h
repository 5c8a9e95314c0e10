// The communicator's background thread.
#pragma once

#include <atomic>
#include <functional>

#include "runtime/execution/engine.h"
#include "transport/bootstrap/control.h"
#include "transport/net/acceptor.h"

namespace eccl::runtime {

/// Progresses the Acceptor and the Control tree always, and the Engine when nobody waits. Sleeps in epoll.
/// Owner: the communicator, which outlives the thread. start() and stop() by the owner; wake() by anybody.
class Service {
 public:
  /// `tick` is called after every wake-up, at least every kTick; `failed` when something could not be done for
  /// want of memory.
  Status start(System& system, transport::Acceptor& acceptor, transport::Control& control, Engine& engine,
               std::function<void()> tick, std::function<void(const Status&)> failed);
  void wake();
  /// Ends and joins the thread. Idempotent.
  void stop();
  bool onThread() const { return thread_.isCurrent(); }
  void closeAfterFork();

 private:
  static constexpr Duration kTick = std::chrono::milliseconds(100);
  void turn(System& system, transport::Acceptor& acceptor, transport::Control& control, Engine& engine,
            const std::function<void()>& tick);

  transport::Poller poller_;
  transport::Fd wake_;
  Thread thread_;
  std::atomic<bool> stopping_{false};
};

}  // namespace eccl::runtime
