// The communicator's background thread.
#pragma once

#include <atomic>
#include <functional>

#include "runtime/execution/engine.h"
#include "transport/bootstrap/control.h"
#include "transport/net/acceptor.h"

namespace eccl::runtime {

/// Progresses the Acceptor and the Control tree always, and the Engine when nobody waits. Sleeps in epoll.
/// Owner: the communicator, which outlives the thread. Threads: start() and stop() by the owner; wake() any.
/// Failure: a turn that cannot be done is told to `failed`, and tried again.
class Service {
 public:
  /// Starts the thread, once; everything that is passed outlives it. `tick` is called after every wake-up, at
  /// least every kTick. `failed` is called when something could not be done for want of memory. Both by the
  /// thread. Error (system): no descriptors or threads; not logged.
  Status start(System& system, transport::Acceptor& acceptor, transport::Control& control, Engine& engine,
               std::function<void()> tick, std::function<void(const Status&)> failed);
  /// Has the thread look at everything soon. Any thread, after start().
  void wake();
  /// Ends and joins the thread. Idempotent; not by the thread itself.
  void stop();
  /// In a forked child, where the thread does not exist: closes the descriptors.
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
