#include "runtime/cuda/capture.h"

#include <mutex>
#include <vector>

namespace eccl::runtime::cuda {
namespace {

using Kept = std::shared_ptr<OfGraph>;

struct Retired {
  std::mutex mutex;
  std::vector<Kept> all;
};
Retired& retired() {
  static auto* const made = new Retired;
  return *made;
}

}  // namespace

/// By a thread of the driver's.
void retire(void* argument) {
  const std::unique_ptr<Kept> kept(static_cast<Kept*>(argument));
  (*kept)->over_.store(true, std::memory_order_release);
  std::lock_guard lock(retired().mutex);
  retired().all.push_back(std::move(*kept));
}

void destroyRetired() {
  std::vector<Kept> gone;
  std::lock_guard lock(retired().mutex);
  std::swap(gone, retired().all);
}

Result<Capture> captureOf(const Gpu& gpu, NativeStream stream) {
  Capture capture;
  int status = kCaptureNone;
  ECCL_TRY(gpu.driver().check(
      gpu.driver().cuStreamGetCaptureInfo(stream, &status, &capture.id, &capture.graph, nullptr, nullptr),
      "cuStreamGetCaptureInfo", "of the call's stream %p, which has to be one of %s,",
      static_cast<void*>(stream), gpu.name().c_str()));
  if (status == kCaptureNone) return Capture{};
  if (status == kCaptureActive) return capture;
  return Status::error(
      Code::invalidUsage,
      "the capture of the stream %p into a graph is no longer valid: an earlier call in it, or "
      "one beside it that a capture does not allow, has failed. Begin another capture",
      static_cast<void*>(stream));
}

Status keep(const Gpu& gpu, const Capture& capture, std::shared_ptr<OfGraph> what) {
  const Driver& driver = gpu.driver();
  auto kept = std::make_unique<Kept>(std::move(what));
  UserObject object = nullptr;
  ECCL_TRY(driver.check(driver.cuUserObjectCreate(&object, kept.get(), retire, 1, kWithoutSync),
                        "cuUserObjectCreate", "on %s", gpu.name().c_str()));
  static_cast<void>(kept.release());  // retire() has it
  const DriverCode code = driver.cuGraphRetainUserObject(capture.graph, object, 1, kMoveReference);
  if (code != kSuccess) driver.cuUserObjectRelease(object, 1);
  return driver.check(code, "cuGraphRetainUserObject", "on %s", gpu.name().c_str());
}

}  // namespace eccl::runtime::cuda
