// The library's own streams. All that they do is put into them by the threads that make calls, or by jobs in
// place of those, like all else that the library asks of the driver: a thread of the application may keep
// others out of the driver while it waits there for all streams (cudaFree), and so an engine that asked the
// driver for anything would never release them.
#pragma once

#include <functional>

#include "runtime/cuda/gpu.h"

namespace eccl::runtime::cuda {

/// A stream that rings when words are reached, in the order in which it was asked to. Owner: an executor. Any
/// thread.
class BellStream {
 public:
  BellStream(Gpu& gpu, std::function<void()> bell) : gpu_(gpu), bell_(std::move(bell)) {}
  ~BellStream();
  BellStream(const BellStream&) = delete;
  /// Once, before anything else; the context is current.
  Status open();
  /// The context is current. May ring after the object has gone.
  Status ringAt(const Word& word, uint64_t value);

 private:
  Gpu& gpu_;
  const std::function<void()> bell_;
  NativeStream stream_ = nullptr;
};

}  // namespace eccl::runtime::cuda
