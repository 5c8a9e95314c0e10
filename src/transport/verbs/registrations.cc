#include "transport/verbs/registrations.h"

#include "base/log.h"

namespace eccl::transport::verbs {

void Registrations::add(const MemoryRange& memory) {
  Result<MemoryHandle> handle =
      registerWith(domain_, memory.base, memory.bytes, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  std::lock_guard lock(mutex_);
  if (handle.ok()) {
    registered_[memory] = handle.take();
    count_ = registered_.size();
  } else if (!std::exchange(saidRefused_, true)) {
    ECCL_WARN("%s. What the user has registered there goes by copies", handle.status().message().c_str());
  }
}

void Registrations::remove(const MemoryRange& memory) {
  decltype(registered_)::node_type node;  // ends last: that takes the kernel long, and lanes ask meanwhile
  std::lock_guard lock(mutex_);
  node = registered_.extract(memory);
  count_ = registered_.size();
}

// Few ranges are registered, and they may overlap.
Registrations::Keys Registrations::keysOf(const std::byte* memory, uint64_t length) const {
  const auto address = reinterpret_cast<uintptr_t>(memory);
  std::lock_guard lock(mutex_);
  for (const auto& [range, handle] : registered_) {
    const auto base = reinterpret_cast<uintptr_t>(range.base);
    if (base > address) break;
    if (length <= range.bytes && address - base <= range.bytes - length)
      return {true, handle->lkey, handle->rkey};
  }
  return {};
}

void Registrations::closeAfterFork() {
  for (auto& [range, handle] : registered_) handle.release();
  registered_.clear();
}

}  // namespace eccl::transport::verbs
