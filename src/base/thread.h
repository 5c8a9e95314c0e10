// Threads of the library's own.
#pragma once

#include <functional>
#include <memory>
#include <thread>
#include <utility>

#include "base/status.h"

namespace eccl {

/// A thread that System::start() has started. One owner, one thread at a time. Joined or detached before it
/// is destroyed or assigned to: else the process ends, as with std::thread.
class Thread {
 public:
  /// The thread as its System knows it. join() or detach() is called once, and nothing after it.
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
  /// Waits until the thread has ended. This and detach() need a thread that is joinable(); afterwards it is
  /// not. No thread joins itself.
  void join() { std::exchange(handle_, nullptr)->join(); }
  void detach() { std::exchange(handle_, nullptr)->detach(); }
  /// Whether the caller is this thread.
  bool isCurrent() const { return handle_ != nullptr && handle_->isCurrent(); }
  /// In a forked child, where there is no such thread: it can be neither joined nor destroyed. Leaves it
  /// behind.
  void closeAfterFork() { [[maybe_unused]] auto* const lost = handle_.release(); }

 private:
  std::unique_ptr<Handle> handle_;
};

/// Starts a thread that runs `body`, called `name` in /proc and debuggers (at most 15 characters are kept).
/// It blocks all signals from its first instruction on: they are the application's, and go to its threads.
/// Every thread of the library is started here, by System::start().
///
/// Error (system): there can be no more threads, and the sentence says which limit to raise. Not logged. What
/// `body` throws ends the thread and is logged: a body whose failure others must learn of catches it itself.
Result<std::thread> startThread(const char* name, std::function<void()> body);

}  // namespace eccl
