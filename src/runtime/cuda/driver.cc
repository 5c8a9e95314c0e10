#include "runtime/cuda/driver.h"

#include <dlfcn.h>

#include <cstdarg>
#include <memory>

namespace eccl::runtime::cuda {
namespace {

constexpr const char* kLibrary = "libcuda.so.1";

}  // namespace

Result<const Driver*> Driver::get() {
  static const auto* const opened = new Result<const Driver*>([]() -> Result<const Driver*> {
    std::unique_ptr<Driver> driver(new Driver);
    ECCL_TRY(driver->open());
    return driver.release();
  }());
  return *opened;
}

Status Driver::open() {
  void* const library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* why = dlerror();
    return Status::error(Code::system, "there is no CUDA driver here: %s. Install NVIDIA's driver",
                         why != nullptr ? why : kLibrary);
  }
  const auto find = reinterpret_cast<DriverCode (*)(const char*, void**, int, uint64_t, int*)>(
      dlsym(library, "cuGetProcAddress_v2"));
  const Status tooOld = Status::error(
      Code::system,
      "the CUDA driver here is older than ECCL needs (CUDA 12.0): install a newer one of NVIDIA's");
  if (find == nullptr) return tooOld;
#define ECCL_CUDA_FIND(name, parameters)                                                                  \
  if (find(#name, reinterpret_cast<void**>(&name), kOldestDriver, kLegacyStreams, nullptr) != kSuccess || \
      name == nullptr) {                                                                                  \
    return Status::error(Code::system, "the CUDA driver here has no function " #name                      \
                                       ", which ECCL needs: install a newer one of NVIDIA's");            \
  }
  ECCL_CUDA_FUNCTIONS(ECCL_CUDA_FIND)
#undef ECCL_CUDA_FIND
  int version = 0, devices = 0;
  DriverCode code = cuInit(0);
  if (code == kSuccess) code = cuDriverGetVersion(&version);
  if (code == kSuccess && version < kOldestDriver) return tooOld;
  if (code == kSuccess) code = cuDeviceGetCount(&devices);
  if (code == kSuccess && devices > 0) return {};
  return Status::error(Code::system,
                       "the CUDA driver finds no GPU that it can use: %s. Look at nvidia-smi and "
                       "CUDA_VISIBLE_DEVICES",
                       nameOf(code == kSuccess ? kNoDevice : code).c_str());
}

std::string Driver::nameOf(DriverCode code) const {
  const char *name = nullptr, *text = nullptr;
  if (cuGetErrorName(code, &name) != kSuccess || cuGetErrorString(code, &text) != kSuccess)
    return format("CUDA error %d", code);
  return format("%s (%s)", name, text);
}

Status Driver::check(DriverCode code, const char* function, const char* what, ...) const {
  if (code == kSuccess) return {};
  va_list arguments;
  va_start(arguments, what);
  const std::string did = formatList(what, arguments);
  va_end(arguments);
  return Status::error(
      eccl::Code::device,
      "%s%s%s failed: %s. If an earlier kernel of the program failed, compute-sanitizer finds it", function,
      did.empty() ? "" : " ", did.c_str(), nameOf(code).c_str());
}

}  // namespace eccl::runtime::cuda
