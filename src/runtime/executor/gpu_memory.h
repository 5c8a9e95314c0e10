// Tells memory of a GPU from the host's where no executor of a GPU is.
#pragma once

#include <cstdint>

namespace eccl::runtime::cuda {
enum DriverCode : int;        // CUresult
enum PointerAttribute : int;  // CUpointer_attribute
}  // namespace eccl::runtime::cuda

namespace eccl::runtime {

/// What the CUDA driver that this process has loaded says of memory. It loads none. A value; constant once
/// open; then any thread.
class GpuMemory {
 public:
  /// Looks for the driver. Once.
  void open();
  /// Whether only a GPU can get at this. False where nobody is to be asked, and what the driver does not know.
  bool holds(const void* memory) const;

 private:
  using Ask = cuda::DriverCode(unsigned number, cuda::PointerAttribute* attributes, void** values,
                               unsigned long long pointer);
  Ask* ask_ = nullptr;  // cuPointerGetAttributes
};

}  // namespace eccl::runtime
