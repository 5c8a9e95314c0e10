#include "runtime/cuda/staged_graphs.h"

#include <utility>

#include "runtime/cuda/staged_run.h"

namespace eccl::runtime::cuda {

Result<std::shared_ptr<const Pinned>> StagedGraphs::twin(const Key& key, size_t bytes) {
  std::shared_ptr<const Pinned>& twin = twins_[key];
  if (twin != nullptr && twin->bytes >= bytes) return twin;
  ECCL_ASSIGN(const Pinned pinned, gpu_.pin(bytes));
  twin = std::shared_ptr<const Pinned>(new Pinned(pinned), [&gpu = gpu_](const Pinned* its) {
    gpu.giveBack(*its, {});
    delete its;
  });
  return twin;
}

void StagedGraphs::add(const std::shared_ptr<StagedRun>& run) {
  std::lock_guard lock(running_);
  if (all_.size() == all_.capacity()) std::erase_if(all_, [](const auto& each) { return each.expired(); });
  all_.push_back(run);
}

void StagedGraphs::begin(StagedRun& run) {
  {
    std::lock_guard lock(running_);
    begun_.push_back(&run);
    any_.store(true, std::memory_order_release);
  }
  ring();
}

std::vector<StagedRun*> StagedGraphs::takeBegun() {
  std::lock_guard lock(running_);
  any_.store(false, std::memory_order_relaxed);
  return std::exchange(begun_, {});
}

void StagedGraphs::end() {
  std::lock_guard lock(running_);
  for (const auto& each : all_) {
    if (const std::shared_ptr<StagedRun> run = each.lock()) run->end();
  }
}

}  // namespace eccl::runtime::cuda
