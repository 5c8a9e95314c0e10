#include "transport/verbs/registrations.h"

#include "base/log.h"

namespace eccl::transport::verbs {

class Registrations::Use final : public MemoryUse {
 public:
  Use(Registrations& its, std::list<Used>::iterator used) : its_(its), used_(used) {}
  ~Use() override {
    std::list<Used> ended;  // after the lock: that may end the region
    std::lock_guard lock(its_.mutex_);
    ended.splice(ended.begin(), its_.used_, used_);
    its_.count();
  }

 private:
  Registrations& its_;
  const std::list<Used>::iterator used_;
};

void Registrations::add(const MemoryRange& memory) {
  const auto make = [&] {
    return registerWith(domain_, memory.base, memory.bytes, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  };
  Result<MemoryHandle> handle = make();
  if (!handle.ok() && giveBack()) handle = make();
  std::lock_guard lock(mutex_);
  if (handle.ok()) {
    registered_[memory] = handle.take();
    count();
  } else if (!std::exchange(saidRefused_, true)) {
    ECCL_WARN("%s. What the user has registered there goes by copies", handle.status().message().c_str());
  }
}

void Registrations::remove(const MemoryRange& memory) {
  decltype(registered_)::node_type node;  // ends last: that takes the kernel long, and lanes ask meanwhile
  std::lock_guard lock(mutex_);
  node = registered_.extract(memory);
  count();
}

std::unique_ptr<MemoryUse> Registrations::use(const MemoryRange& memory) {
  std::lock_guard lock(mutex_);
  for (const auto& [range, handle] : registered_) {
    if (range.contains(memory.base, memory.bytes)) return nullptr;
  }
  std::shared_ptr<const MemoryCache::Region> region = cache_.find(memory);
  if (region == nullptr) return nullptr;
  used_.push_front({memory, std::move(region)});
  count();
  return std::make_unique<Use>(*this, used_.begin());
}

bool Registrations::giveBack() {
  std::lock_guard lock(mutex_);
  return cache_.giveBack();
}

// Few ranges are registered or used, and they may overlap.
MemoryKeys Registrations::keysOf(const std::byte* memory, uint64_t length) const {
  std::lock_guard lock(mutex_);
  for (const Used& used : used_) {
    if (used.memory.contains(memory, length))
      return {true, used.region->handle->lkey, used.region->handle->rkey, used.region};
  }
  for (const auto& [range, handle] : registered_) {
    if (range.base > memory) break;
    if (range.contains(memory, length)) return {true, handle->lkey, handle->rkey, nullptr};
  }
  return {};
}

void Registrations::closeAfterFork() {
  for (auto& [range, handle] : registered_) handle.release();
  registered_.clear();
  cache_.closeAfterFork();
}

}  // namespace eccl::transport::verbs
