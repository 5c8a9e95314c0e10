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

/// What the CUDA driver that this process has loaded says of memory. It loads none. Owner: a communicator. Any
/// thread, once it is open.
class GpuMemory {
 public:
  /// Looks for the driver. Once.
  void open();
  /// Whether there is somebody to be asked.
  bool asks() const { return ask_ != nullptr; }
  /// Whether only a GPU can get at this. False where nobody is to be asked, and what the driver does not know.
  bool holds(const void* memory) const { return ask_ != nullptr && memory != nullptr && ask(memory); }
  /// As holds(), but nobody is asked for an address that was the host's when it was asked for before: an answer
  /// takes as long as a short call. So a GPU's memory is not found where the host's was before.
  bool holdsWhatIsNew(const void* memory) const {
    return ask_ != nullptr && hosts_[placeOf(memory)].load(std::memory_order_relaxed) != memory &&
           holds(memory);
  }

 private:
  using Ask = cuda::DriverCode(unsigned number, cuda::PointerAttribute* attributes, void** values,
                               unsigned long long pointer);
  static constexpr int kPlaceBits = 6;
  /// Buffers lie at multiples of powers of two: a product's upper bits depend on all of an address.
  static size_t placeOf(const void* memory) {
    return reinterpret_cast<uintptr_t>(memory) * uint64_t{0x9E3779B97F4A7C15} >> (64 - kPlaceBits);
  }
  bool ask(const void* memory) const;

  Ask* ask_ = nullptr;  // cuPointerGetAttributes
  mutable std::array<std::atomic<const void*>, 1 << kPlaceBits> hosts_{};
};

}  // namespace eccl::runtime
