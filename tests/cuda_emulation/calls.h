// What the emulated functions have in common: each begins with BEGIN().
#pragma once

#include "cuda_emulation/emulation.h"
#include "cuda_emulation/graph.h"

namespace eccl::cuda_emulation {

#define DECLARE(name, parameters) DriverCode name parameters;
ECCL_CUDA_FUNCTIONS(DECLARE)
ECCL_CUDA_TEST_FUNCTIONS(DECLARE)
#undef DECLARE

/// What is current in this thread, or null.
Context current();

/// What every function does first: may be made to fail, and is forbidden in host functions.
DriverCode begin(const char* function);
/// Held in every function, also while one waits for streams: the strictest that a driver may be.
std::mutex& driverLock();
/// What every function on a stream does: finds it. Where it puts something into it, that is allowed now.
DriverCode findStream(NativeStream handle, std::shared_ptr<Stream>* stream, const char* function, bool puts);

#define BEGIN()                             \
  const DriverCode begun = begin(__func__); \
  if (begun != kSuccess) return begun;      \
  std::unique_lock driver(driverLock())
#define NEED(condition, code, ...) \
  if (!(condition)) return violation(code, __VA_ARGS__)
#define FIND(handle, puts)     \
  std::shared_ptr<Stream> its; \
  if (const DriverCode found = findStream(handle, &its, __func__, puts); found != kSuccess) return found
/// For what may wait for other streams: not while a stream is captured, unless the thread or the capture is
/// relaxed about it.
#define WAITS() \
  if (const DriverCode allowed = Capture::mayWait(__func__); allowed != kSuccess) return allowed

}  // namespace eccl::cuda_emulation
