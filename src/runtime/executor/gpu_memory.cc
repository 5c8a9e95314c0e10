#include "runtime/executor/gpu_memory.h"

#include <dlfcn.h>

namespace eccl::runtime {
namespace {

// As cuda.h has them.
constexpr cuda::DriverCode kSuccess{};                   // CUDA_SUCCESS
constexpr auto kMemoryType = cuda::PointerAttribute{2};  // CU_POINTER_ATTRIBUTE_MEMORY_TYPE
constexpr auto kIsManaged = cuda::PointerAttribute{8};   // CU_POINTER_ATTRIBUTE_IS_MANAGED
constexpr unsigned kDeviceMemory = 2;                    // CU_MEMORYTYPE_DEVICE
constexpr int kVersion = 12000;                          // of the functions that are asked for: CUDA 12.0

}  // namespace

// The library stays: whoever loaded it uses it, and a driver cannot be unloaded.
void GpuMemory::open() {
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  if (driver == nullptr) return;
  using Find = cuda::DriverCode(const char* name, void** function, int version, uint64_t flags, int* status);
  auto* const find = reinterpret_cast<Find*>(dlsym(driver, "cuGetProcAddress_v2"));
  void* function = nullptr;
  if (find == nullptr || find("cuPointerGetAttributes", &function, kVersion, 0, nullptr) != kSuccess) return;
  ask_ = reinterpret_cast<Ask*>(function);
}

bool GpuMemory::ask(const void* memory) const {
  cuda::PointerAttribute attributes[] = {kMemoryType, kIsManaged};
  unsigned type = 0, managed = 0;
  void* values[] = {&type, &managed};
  if (ask_(2, attributes, values, reinterpret_cast<uintptr_t>(memory)) != kSuccess) return false;
  const bool gpus = type == kDeviceMemory && managed == 0;
  if (!gpus) hosts_[placeOf(memory)].store(memory, std::memory_order_relaxed);
  return gpus;
}

}  // namespace eccl::runtime
