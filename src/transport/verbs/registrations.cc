#include "transport/verbs/registrations.h"

#include "base/log.h"
#include "transport/verbs/on_demand.h"

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
  constexpr int kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
  Result<MemoryHandle> handle = registerUsers(domain_, memory, kAccess, [this] { return giveBack(); });
  std::string refused = handle.ok() ? "" : handle.status().message();
  if (!handle.ok() && onDemand_) {
    handle = registerOnDemand(domain_, memory, kAccess);
    if (!handle.ok()) refused += "; " + handle.status().message();
  }
  std::lock_guard lock(mutex_);
  bool& said = handle.ok() ? saidOnDemand_ : saidRefused_;
  if (!refused.empty() && !std::exchange(said, true))
    ECCL_WARN("%s. What is sent from there or received into it %s", refused.c_str(),
              handle.ok() ? "is slower: it is not locked, and the device looks its pages up on demand"
                          : "goes by copies");
  if (!handle.ok()) return;
  registered_.add(memory, handle.take());
  count();
}

void Registrations::remove(const MemoryRange& memory) {
  std::optional<MemoryHandle> handle;  // ends last: that takes the kernel long, and lanes ask meanwhile
  std::lock_guard lock(mutex_);
  handle = registered_.take(memory);
  count();
}

std::unique_ptr<MemoryUse> Registrations::use(const MemoryRange& memory, MemoryFor what, MemoryKind kind,
                                              int dmabuf) {
  std::lock_guard lock(mutex_);
  if (registered(memory.base, memory.bytes) != nullptr) return nullptr;
  std::shared_ptr<const MemoryCache::Region> region = cache_.find(memory, what, kind, dmabuf);
  if (region == nullptr) return nullptr;
  used_.push_front({memory, std::move(region)});
  count();
  return std::make_unique<Use>(*this, used_.begin());
}

bool Registrations::giveBack() {
  std::lock_guard lock(mutex_);
  return cache_.giveBack();
}

// Few are used by calls under way.
MemoryKeys Registrations::keysOf(const std::byte* memory, uint64_t length, MemoryFor what) const {
  std::lock_guard lock(mutex_);
  for (const Used& used : used_) {
    if (used.memory.contains(memory, length) && serves(used.region->what, what))
      return {true, used.region->handle->lkey, used.region->handle->rkey, used.region};
  }
  const MemoryHandle* const handle = registered(memory, length);
  return handle == nullptr ? MemoryKeys() : MemoryKeys{true, (*handle)->lkey, (*handle)->rkey, nullptr};
}

void Registrations::closeAfterFork() {
  for (auto& each : registered_) each.value.release();
  cache_.closeAfterFork();
}

}  // namespace eccl::transport::verbs
