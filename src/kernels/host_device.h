// The CPU as a Device.
#pragma once

#include "kernels/device.h"

namespace eccl::kernels {

/// Runs each task on the thread that submits it and completes before submit() returns: a reduction in host
/// memory is bound by memory bandwidth, which a second thread would only share. Stateless, hence thread-safe.
class HostDevice final : public Device {
 public:
  MemoryKind memoryKind() const override { return MemoryKind::host; }
  Result<void*> allocate(size_t bytes) override;
  void release(void* memory) override;
  Result<Ticket> submit(const ReduceTask& task) override;
  Result<bool> test(Ticket) override { return true; }
};

}  // namespace eccl::kernels
