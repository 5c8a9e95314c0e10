#include "runtime/executor/devices.h"

#include <filesystem>
#include <map>
#include <mutex>

#include "base/log.h"
#include "base/once_by_key.h"
#include "runtime/executor/executor_module.h"

namespace eccl::runtime {
namespace {

constexpr ModuleKind kExecutorModules = {"executor module", "eccl_executor_module", "libeccl_", nullptr};

/// The CUDA module of this installation, opened once.
const Result<const ExecutorEntry*>& cudaModule() {
  static const auto* const opened = new Result<const ExecutorEntry*>([]() -> Result<const ExecutorEntry*> {
    const std::string path = modulePath(kExecutorModules, "cuda");
    std::error_code none;
    if (!std::filesystem::exists(path, none))
      return Status::error(Code::system, "its module %s is not there: build and install all of ECCL",
                           path.c_str());
    ECCL_ASSIGN(const ModuleHeader* module, openModule(kExecutorModules, path));
    return static_cast<const ExecutorModule*>(module)->entry;
  }());
  return *opened;
}

Result<ExecutorKind> cudaKind(int device, bool descriptors) {
  const auto& module = cudaModule();
  if (!module.ok()) return module.status();
  return (*module)->find(device, descriptors);
}

/// As chooseDevice(). *missing: why it is host although ECCL_DEVICE=auto.
Result<std::optional<ExecutorKind>> choose(const Settings& settings, int device, Status* missing) {
  if (settings.device.empty() || settings.device == "host") return std::optional<ExecutorKind>();
  Result<ExecutorKind> cuda = cudaKind(device, settings.cuMem);
  if (cuda.ok()) return std::optional<ExecutorKind>(*std::move(cuda));
  *missing = cuda.status();
  if (settings.device == "cuda")
    return logged(Status::error(missing->code(), "ECCL_DEVICE=cuda: %s", missing->message().c_str()));
  return std::optional<ExecutorKind>();
}

/// A process with many ranks says it once.
void tellOnce(const std::string& why) {
  struct Told {};
  OnceByKey<std::string, Told>::get()
      .at(why,
          [&]() -> Result<Told> {
            ECCL_WARN("ECCL_DEVICE=auto: communicators are for host memory. %s", why.c_str());
            return Told{};
          })
      .status()
      .ignore();
}

/// What was allocated for the user.
struct UserMemories {
  std::mutex mutex;
  std::map<void*, std::function<Status()>> frees;
};
UserMemories& userMemories() {
  static auto* const made = new UserMemories;
  return *made;
}

}  // namespace

Result<std::optional<ExecutorKind>> chooseDevice(const Settings& settings, int device) {
  Status missing;
  ECCL_ASSIGN(std::optional<ExecutorKind> kind, choose(settings, device, &missing));
  if (!missing.ok()) tellOnce(missing.message());
  return kind;
}

Result<void*> allocateDeviceMemory(const Settings& settings, size_t bytes) {
  Status missing;
  ECCL_ASSIGN(const std::optional<ExecutorKind> kind, choose(settings, -1, &missing));
  if (!kind) return nullptr;
  ECCL_ASSIGN(ExecutorKind::UserMemory its, kind->allocate(bytes));
  std::lock_guard lock(userMemories().mutex);
  userMemories().frees[its.memory] = std::move(its.free);
  return its.memory;
}

std::optional<Status> freeDeviceMemory(void* memory) {
  std::function<Status()> free;
  {
    std::lock_guard lock(userMemories().mutex);
    const auto found = userMemories().frees.find(memory);
    if (found == userMemories().frees.end()) return std::nullopt;
    free = std::move(found->second);
    userMemories().frees.erase(found);
  }
  return free();
}

std::vector<std::string> describeDevices() {
  const auto& module = cudaModule();
  if (!module.ok()) return {"cuda not usable: " + module.status().message()};
  return (*module)->describe();
}

}  // namespace eccl::runtime
