#include "runtime/cuda/staged_graphs.h"

#include <utility>

#include "runtime/cuda/staged_run.h"

namespace eccl::runtime::cuda {

Result<std::shared_ptr<const Pinned>> StagedGraphs::twin(const Key& key, size_t bytes) {
  std::weak_ptr<const Pinned>& known = twins_[key];
  if (std::shared_ptr<const Pinned> its = known.lock(); its != nullptr && its->bytes >= bytes) return its;
  ECCL_ASSIGN(const Pinned pinned, gpu_.pin(bytes));
  const auto giveBack = [&gpu = gpu_](const Pinned* its) {
    gpu.giveBack(*its, {});
    delete its;
  };
  std::shared_ptr<const Pinned> twin(new Pinned(pinned), giveBack);
  known = twin;
  return twin;
}

void StagedGraphs::begin(StagedRun& run) {
  {
    std::lock_guard lock(running_);
    if (ended_) return run.letGo();
    begun_.push_back(&run);
    any_.store(true, std::memory_order_release);
  }
  wanted_();
}

std::vector<StagedRun*> StagedGraphs::takeBegun() {
  std::lock_guard lock(running_);
  any_.store(false, std::memory_order_relaxed);
  return std::exchange(begun_, {});
}

void StagedGraphs::end() {
  std::lock_guard lock(running_);
  ended_ = true;
  for (StagedRun* run : std::exchange(begun_, {})) run->letGo();
}

}  // namespace eccl::runtime::cuda
