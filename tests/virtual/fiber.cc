#include "virtual/fiber.h"

#include <sys/mman.h>

#include <cstdint>
#include <new>
#include <utility>

#include "support/sanitizers.h"

#if ECCL_ADDRESS_SANITIZER
#include <sanitizer/common_interface_defs.h>
#endif
#if ECCL_THREAD_SANITIZER
#include <sanitizer/tsan_interface.h>
#endif

namespace eccl::test {
namespace {

constexpr size_t kStack = 4u << 20;  // touched as far as it is used; sanitizers use much
constexpr size_t kGuard = 64u << 10;

void* mapStack() {
  void* at = mmap(nullptr, kStack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED || mprotect(at, kGuard, PROT_NONE) != 0) throw std::bad_alloc();
  return at;
}

}  // namespace

Fiber::Fiber(std::function<void()> body) : body_(std::move(body)), stack_(mapStack()) {
  getcontext(&inside_);
  inside_.uc_stack.ss_sp = static_cast<char*>(stack_) + kGuard;
  inside_.uc_stack.ss_size = kStack - kGuard;
  const auto self = reinterpret_cast<uintptr_t>(this);
  makecontext(&inside_, reinterpret_cast<void (*)()>(enter), 2, static_cast<unsigned>(uint64_t{self} >> 32),
              static_cast<unsigned>(self));
#if ECCL_THREAD_SANITIZER
  insideTsan_ = __tsan_create_fiber(0);
#endif
}

Fiber::~Fiber() {
#if ECCL_THREAD_SANITIZER
  __tsan_destroy_fiber(insideTsan_);
#endif
  munmap(stack_, kStack);
}

void Fiber::enter(unsigned high, unsigned low) {
  reinterpret_cast<Fiber*>(static_cast<uintptr_t>(uint64_t{high} << 32 | low))->run();
}

void Fiber::run() {
#if ECCL_ADDRESS_SANITIZER
  __sanitizer_finish_switch_fiber(nullptr, &outsideStack_, &outsideSize_);
#endif
  body_();
  done_ = true;
  suspend();
}

void Fiber::resume() {
#if ECCL_ADDRESS_SANITIZER
  __sanitizer_start_switch_fiber(&outsideFake_, inside_.uc_stack.ss_sp, inside_.uc_stack.ss_size);
#endif
#if ECCL_THREAD_SANITIZER
  outsideTsan_ = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(insideTsan_, 0);
#endif
  swapcontext(&outside_, &inside_);
#if ECCL_ADDRESS_SANITIZER
  __sanitizer_finish_switch_fiber(outsideFake_, nullptr, nullptr);
#endif
}

void Fiber::suspend() {
#if ECCL_ADDRESS_SANITIZER
  // Of one that is done nothing need be kept.
  __sanitizer_start_switch_fiber(done_ ? nullptr : &insideFake_, outsideStack_, outsideSize_);
#endif
#if ECCL_THREAD_SANITIZER
  __tsan_switch_to_fiber(outsideTsan_, 0);
#endif
  swapcontext(&inside_, &outside_);
#if ECCL_ADDRESS_SANITIZER
  __sanitizer_finish_switch_fiber(insideFake_, &outsideStack_, &outsideSize_);
#endif
}

}  // namespace eccl::test
