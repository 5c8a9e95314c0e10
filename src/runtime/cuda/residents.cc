#include "runtime/cuda/residents.h"

#include <algorithm>

#include "runtime/cuda/lanes/block_program.h"

namespace eccl::runtime::cuda {

Residents& Residents::of(Gpu& gpu) {
  static std::mutex mutex;
  static auto* const all = new std::map<Gpu*, Residents*>;
  std::lock_guard lock(mutex);
  Residents*& its = (*all)[&gpu];
  if (its == nullptr) its = new Residents(gpu);
  return *its;
}

void Residents::join(uint64_t communicator, uint32_t sharers) {
  std::lock_guard lock(mutex_);
  members_.emplace(communicator, sharers);
}

// The context may go with the last communicator, and its events with it.
void Residents::leave(uint64_t communicator, uint32_t sharers) {
  std::lock_guard lock(mutex_);
  members_.erase(members_.find({communicator, sharers}));
  if (!members_.empty()) return;
  for (auto& [place, kernels] : kernels_)
    for (const Kernel& kernel : kernels) events_.push_back(kernel.behind);
  kernels_.clear();
  for (Event event : std::exchange(events_, {})) gpu_.driver().cuEventDestroy(event);
}

uint32_t Residents::share() {
  std::lock_guard lock(mutex_);
  return shareOf();
}

uint32_t Residents::shareOf() const {
  uint32_t most = 1;
  for (const auto& [communicator, sharers] : members_) most = std::max(most, sharers);
  return gpu_.multiprocessors() * lanes::kBlocksOfMultiprocessor / most;
}

void Residents::forgetEnded(std::deque<Kernel>& kernels) {
  while (!kernels.empty() && gpu_.driver().cuEventQuery(kernels.front().behind) == kSuccess) {
    events_.push_back(kernels.front().behind);
    kernels.pop_front();
  }
}

Status Residents::makeRoom(const Blocks& blocks, NativeStream stream) {
  std::lock_guard lock(mutex_);
  if (!shared()) return {};
  for (const auto& [place, more] : blocks) {
    std::deque<Kernel>& kernels = kernels_[place];
    forgetEnded(kernels);
    uint32_t there = more;
    for (const Kernel& kernel : kernels) there += kernel.blocks;
    for (; there > shareOf() && !kernels.empty(); kernels.pop_front()) {
      const Kernel& first = kernels.front();
      ECCL_TRY(gpu_.driver().check(gpu_.driver().cuStreamWaitEvent(stream, first.behind, 0),
                                   "cuStreamWaitEvent", "in the stream %p of %s", static_cast<void*>(stream),
                                   gpu_.name().c_str()));
      there -= first.blocks;
      events_.push_back(first.behind);
    }
  }
  return {};
}

Status Residents::note(const Blocks& blocks, NativeStream stream) {
  std::lock_guard lock(mutex_);
  if (!shared()) return {};
  for (const auto& [place, its] : blocks) {
    Event behind = nullptr;
    if (events_.empty())
      ECCL_TRY(gpu_.driver().check(gpu_.driver().cuEventCreate(&behind, kEventWithoutTiming), "cuEventCreate",
                                   "on %s", gpu_.name().c_str()));
    else
      behind = events_.back(), events_.pop_back();
    kernels_[place].push_back({behind, its});
    ECCL_TRY(gpu_.driver().check(gpu_.driver().cuEventRecord(behind, stream), "cuEventRecord",
                                 "in the stream %p of %s", static_cast<void*>(stream), gpu_.name().c_str()));
  }
  return {};
}

}  // namespace eccl::runtime::cuda
