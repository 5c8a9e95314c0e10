// Threads of the library's own.
#pragma once

#include <functional>
#include <memory>
#include <thread>
#include <utility>

#include "base/status.h"

namespace eccl {

/// A thread that System::start() has started. Joined or detached before it is destroyed. One owner.
class Thread {
 public:
  /// What a System knows it by.
  class Handle {
   public:
    virtual ~Handle() = default;
    virtual void join() = 0;
    virtual void detach() = 0;
    virtual bool isCurrent() const = 0;
  };
  Thread() = default;
  explicit Thread(std::unique_ptr<Handle> handle) : handle_(std::move(handle)) {}
  bool joinable() const { return handle_ != nullptr; }
  void join() { std::exchange(handle_, nullptr)->join(); }
  void detach() { std::exchange(handle_, nullptr)->detach(); }
  /// Whether the caller is this thread.
  bool isCurrent() const { return handle_ != nullptr && handle_->isCurrent(); }
  /// In a forked child, where there is no such thread: it can be neither joined nor destroyed.
  void closeAfterFork() { [[maybe_unused]] auto* const lost = handle_.release(); }

 private:
  std::unique_ptr<Handle> handle_;
};

/// Starts a thread that runs `body`, called `name` in /proc and debuggers (at most 15 characters are kept). It
/// blocks all signals from its first instruction on: they are the application's, and go to its threads. Every
/// thread of the library is started here, by System::start(). Error: there can be no more threads; it says
/// which limit to raise. Not logged. What `body` throws ends the thread and is logged: who must tell others
/// catches it before.
Result<std::thread> startThread(const char* name, std::function<void()> body);

}  // namespace eccl
