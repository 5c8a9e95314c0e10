#include "runtime/cuda/streams.h"

#include <memory>

namespace eccl::runtime::cuda {

BellStream::~BellStream() {
  if (stream_ == nullptr) return;
  const Entered entered(gpu_.driver(), gpu_.context());
  gpu_.driver().cuStreamDestroy(stream_);  // it ends by itself what is still in it
}

Status BellStream::open() {
  return gpu_.driver().check(gpu_.driver().cuStreamCreate(&stream_, kStreamNonBlocking), "cuStreamCreate",
                             "on %s", gpu_.name().c_str());
}

Status BellStream::ringAt(const Word& word, uint64_t value) {
  const Driver& driver = gpu_.driver();
  ECCL_TRY(driver.check(driver.cuStreamWaitValue64(stream_, word.device, value, kWaitAtLeast),
                        "cuStreamWaitValue64", "on %s", gpu_.name().c_str()));
  auto bell = std::make_unique<std::function<void()>>(bell_);
  const auto ring = [](void* argument) {
    const std::unique_ptr<std::function<void()>> its(static_cast<std::function<void()>*>(argument));
    (*its)();
  };
  ECCL_TRY(driver.check(driver.cuLaunchHostFunc(stream_, ring, bell.get()), "cuLaunchHostFunc", "on %s",
                        gpu_.name().c_str()));
  static_cast<void>(bell.release());  // ring() has it
  return {};
}

}  // namespace eccl::runtime::cuda
