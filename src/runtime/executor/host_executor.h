// The processor as an executor.
#pragma once

#include "runtime/executor/executor.h"

namespace eccl::runtime {

/// Makes each move on the thread that submits it, before submit() returns: a reduction in host memory is
/// bound by memory bandwidth, which a second thread would only share. Takes all memory that no other executor
/// holds. Keeps how results are best written, with each plan. Its moves never fail; allocate() may.
class HostExecutor final : public Executor {
 public:
  const char* memory() const override { return "host"; }
  bool holds(const void*) const override { return true; }
  Result<std::byte*> allocate(size_t bytes) override;
  void release(std::byte* memory) override;
  Status begin(Work& work) override;
  /// The kernels' task for a move of `work`. It writes results past the caches where that is the choice.
  kernels::ReduceTask taskOf(const Work& work, const MoveTask& move) const;
  LaneAnswer advance(Work& work, int32_t lane, int budget) override;
  void cancel(Work&) override {}
  void quiesce(Work&) override {}
  /// Host streams are the runtime's own (execution/stream.h).
  Result<std::unique_ptr<StreamGate>> enter(void*, std::span<Work* const>, std::function<void()>) override;
  Status failure(const Work&) const override { return {}; }
};

}  // namespace eccl::runtime
