// libeccl_cuda.so: CUDA GPUs. Needs nothing of CUDA to be built or loaded.
#include "runtime/cuda/lane_executor.h"
#include "runtime/cuda/user_memory.h"
#include "runtime/executor/executor_module.h"

namespace eccl::runtime::cuda {
namespace {

Result<ExecutorKind> findKind(int device, bool descriptors) {
  ECCL_ASSIGN(Gpu * gpu, Gpu::of(device));
  const auto make = [gpu, descriptors](const ExecutorContext& context) -> Result<std::shared_ptr<Executor>> {
    auto executor = std::make_shared<LaneExecutor>(*gpu, context, descriptors);
    ECCL_TRY(executor->open());
    return std::shared_ptr<Executor>(std::move(executor));
  };
  const auto allocate = [gpu, descriptors](size_t bytes) -> Result<ExecutorKind::UserMemory> {
    UserMemory& all = UserMemory::of(*gpu);
    ECCL_ASSIGN(const Address memory, all.allocate(bytes, descriptors ? LendBy::descriptor : LendBy::handle));
    return ExecutorKind::UserMemory{reinterpret_cast<void*>(memory),
                                    [&all, memory] { return all.free(memory); }};
  };
  return ExecutorKind{"cuda", make, allocate};
}

/// What RDMA devices may do with its memory, as far as the GPU's driver says.
std::string rdmaOf(const Gpu& gpu) {
  if (!gpu.mappedMemory() || gpu.mappedMemory()->rdma == 0) return "RDMA devices do not get at its memory";
  return format("RDMA devices may %s its memory %s", gpu.ordersRdmaWrites() ? "read and write" : "read",
                gpu.exportsDmabufs() ? "by dma-buf" : "if nvidia-peermem is loaded");
}

std::vector<std::string> describeGpus() {
  const auto driver = Driver::get();
  if (!driver.ok()) return {"cuda not usable: " + driver.status().message()};
  int version = 0, devices = 0;
  (*driver)->cuDriverGetVersion(&version);
  (*driver)->cuDeviceGetCount(&devices);
  std::vector<std::string> lines;
  for (int ordinal = 0; ordinal < devices; ++ordinal) {
    const auto gpu = Gpu::of(ordinal);
    lines.push_back(gpu.ok()
                        ? format("%s, driver for CUDA %d.%d; usable; %s", (*gpu)->name().c_str(),
                                 version / 1000, version % 1000 / 10, rdmaOf(**gpu).c_str())
                        : format("CUDA device %d not usable: %s", ordinal, gpu.status().message().c_str()));
  }
  return lines;
}

const ExecutorEntry kCuda = {findKind, describeGpus};

}  // namespace
}  // namespace eccl::runtime::cuda

ECCL_EXECUTOR_MODULE(eccl::runtime::cuda::kCuda)
