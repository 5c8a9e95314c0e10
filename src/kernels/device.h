// Where buffers live and reductions run. Everything is submit and test: whoever drives a lane must never block.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/status.h"
#include "kernels/reduce.h"

namespace eccl::kernels {

enum class MemoryKind : uint8_t { host, cuda };

/// Names one submitted operation of one device. A plain value, never freed.
struct Ticket {
  uint64_t sequence = 0;
};

/// One processor with memory of its kind. Owned by the communicator's resources, and outlives every buffer
/// allocated from it and every ticket. Thread-safe.
class Device {
 public:
  virtual ~Device() = default;

  /// The kind of memory that allocate() gives and that tasks must refer to.
  virtual MemoryKind memoryKind() const = 0;

  /// `bytes` > 0 of uninitialised memory, aligned for any vector (64 bytes at least). The caller owns it and
  /// returns it by release(). Error: system when there is no such memory left.
  virtual Result<void*> allocate(size_t bytes) = 0;
  /// Takes back what allocate() gave; nullptr is allowed. No submitted task may still use it.
  virtual void release(void* memory) = 0;

  /// Starts `task`, which is copied; the memory it refers to must stay untouched until test() says true. Tasks
  /// of one device may run in any order. Error: internal when the task is malformed, system when the device
  /// refuses.
  virtual Result<Ticket> submit(const ReduceTask& task) = 0;
  /// True once the task's destinations hold its result, visible to the calling thread. Error: the device
  /// failed, and so did every task not yet done.
  virtual Result<bool> test(Ticket ticket) = 0;
};

}  // namespace eccl::kernels
