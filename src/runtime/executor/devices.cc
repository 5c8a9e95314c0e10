#include "runtime/executor/devices.h"

#include "base/log.h"
#include "runtime/executor/executor_module.h"

namespace eccl::runtime {
namespace {

constexpr ModuleKind kExecutorModules = {"executor module", "eccl_executor_module", "libeccl_", nullptr};

/// The CUDA module of this installation, opened once.
const Result<const ExecutorEntry*>& cudaModule() {
  static const auto* const opened = new Result<const ExecutorEntry*>([]() -> Result<const ExecutorEntry*> {
    ECCL_ASSIGN(const ModuleHeader* module, openModule(kExecutorModules, modulePath(kExecutorModules, "cuda")));
    return static_cast<const ExecutorModule*>(module)->entry;
  }());
  return *opened;
}

Result<ExecutorKind> cudaKind(int device) {
  const auto& module = cudaModule();
  if (!module.ok()) return module.status();
  return (*module)->find(device);
}

}  // namespace

Result<std::optional<ExecutorKind>> chooseDevice(const Settings& settings, int device) {
  if (settings.device.empty() || settings.device == "host") return std::optional<ExecutorKind>();
  Result<ExecutorKind> cuda = cudaKind(device);
  if (cuda.ok()) return std::optional<ExecutorKind>(*std::move(cuda));
  const Status why = cuda.status();
  if (settings.device == "cuda")
    return logged(Status::error(why.code(), "ECCL_DEVICE=cuda: %s", why.message().c_str()));
  ECCL_WARN("ECCL_DEVICE=auto: the communicator is for host memory. %s", why.message().c_str());
  return std::optional<ExecutorKind>();
}

std::vector<std::string> describeDevices() {
  const auto& module = cudaModule();
  if (!module.ok()) return {"cuda not usable: " + module.status().message()};
  return (*module)->describe();
}

}  // namespace eccl::runtime
