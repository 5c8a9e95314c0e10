// Tells memory of a GPU from the host's where no executor of a GPU is.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
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
  /// Of addresses that were the host's of late nobody is asked again: a driver's answer takes as long as a
  /// short call.
  bool holds(const void* memory) const {
    return ask_ != nullptr && memory != nullptr &&
           hosts_[placeOf(memory)].load(std::memory_order_relaxed) != memory && isGpus(memory);
  }

 private:
  using Ask = cuda::DriverCode(unsigned number, cuda::PointerAttribute* attributes, void** values,
                               unsigned long long pointer);
  static constexpr size_t kRemembered = 64;
  static size_t placeOf(const void* memory) {
    const auto address = reinterpret_cast<uintptr_t>(memory);
    return (address >> 6 ^ address >> 12) % kRemembered;  // by lines and pages
  }
  bool isGpus(const void* memory) const;

  Ask* ask_ = nullptr;  // cuPointerGetAttributes
  mutable std::array<std::atomic<const void*>, kRemembered> hosts_{};
};

}  // namespace eccl::runtime
