// Threads that take turns in one thread.
#pragma once

#include <ucontext.h>

#include <cstddef>
#include <functional>

namespace eccl::test {

/// A body with a stack of its own, which runs when it is resumed until it suspends itself. AddressSanitizer and
/// ThreadSanitizer are told of each switch. A fiber that is destroyed before it is done leaves what lies on its
/// stack behind. One thread; it must not throw.
class Fiber {
 public:
  explicit Fiber(std::function<void()> body);
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// Runs the body until it suspends itself or ends. Not from inside a fiber.
  void resume();
  /// Of the fiber that runs: back to whoever resumed it.
  void suspend();
  bool done() const { return done_; }

 private:
  static void enter(unsigned high, unsigned low);
  void run();

  const std::function<void()> body_;
  void* const stack_;
  ucontext_t inside_{}, outside_{};
  bool done_ = false;
  // What the sanitizers keep of each side.
  [[maybe_unused]] void *insideFake_ = nullptr, *outsideFake_ = nullptr;
  [[maybe_unused]] const void* outsideStack_ = nullptr;
  [[maybe_unused]] size_t outsideSize_ = 0;
  [[maybe_unused]] void *insideTsan_ = nullptr, *outsideTsan_ = nullptr;
};

}  // namespace eccl::test
