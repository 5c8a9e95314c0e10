#include "transport/verbs/memory_cache.h"

#include <algorithm>
#include <utility>

#include "base/log.h"

namespace eccl::transport::verbs {
namespace {

constexpr size_t kMostKnown = 4096;     // buffers whose uses are counted
constexpr uint32_t kMostNeeded = 4096;  // uses before memory that comes and goes is registered again

}  // namespace

MemoryCache::MemoryCache(ibv_pd* domain, uint64_t limit, std::string owner)
    : domain_(domain), limit_(limit), owner_(std::move(owner)) {}

MemoryCache::~MemoryCache() {
  if (made_ == 0) return;
  const auto number = [](uint64_t value) { return static_cast<unsigned long long>(value); };
  ECCL_INFO(
      "%s registered memory with %s that the user had not: %llu buffers, %llu of them to receive into, %llu "
      "bytes at most at once; used again %llu times, changed %llu times",
      owner_.c_str(), ibv_get_device_name(domain_->context->device), number(made_), number(writable_),
      number(most_), number(found_), number(changed_));
}

std::shared_ptr<const MemoryCache::Region> MemoryCache::find(const MemoryRange& memory, MemoryFor what) {
  if (limit_ == 0 || !ready()) return nullptr;
  dropChanged();
  if (const auto* region = regions_.find(memory.base, memory.bytes,
                                         [what](const auto& each) { return serves(each->what, what); })) {
    (*region)->usedAt = ++clock_;
    ++found_;
    return *region;
  }
  if (uses_.size() >= kMostKnown) uses_.clear();
  Uses& uses = uses_[{memory.base, what}];
  return ++uses.seen < uses.needed ? nullptr : add(memory, what);
}

// What has changed and does not show yet is not to be used.
bool MemoryCache::ready() {
  if (watch_ == nullptr) {
    Result<MemoryWatch*> watch = MemoryWatch::ofProcess();
    if (!watch.ok()) {
      limit_ = 0;
      ECCL_INFO("%s: memory that the user has not registered goes by copies: %s", owner_.c_str(),
                watch.status().message().c_str());
      return false;
    }
    watch_ = watch.take();
  }
  return watch_->settle();
}

void MemoryCache::dropChanged() {
  const uint64_t changes = watch_->changes();
  if (std::exchange(changes_, changes) == changes) return;
  regions_.endIf([&](const std::shared_ptr<Region>& region) {
    if (!region->mark->changed()) return false;
    bytes_ -= region->pages.bytes;
    ++changed_;
    Uses& uses = uses_[{region->asked.base, region->what}];
    uses = {0, std::min(2 * uses.needed, kMostNeeded)};
    return true;
  });
}

/// Those of which `which` is true and that nobody refers to. How many.
template <class Which>
size_t MemoryCache::giveUp(const Which& which) {
  return regions_.endIf([&](const std::shared_ptr<Region>& region) {
    if (region.use_count() > 1 || !which(*region)) return false;
    bytes_ -= region->pages.bytes;
    return true;
  });
}

bool MemoryCache::makeRoom(uint64_t bytes) {
  while (bytes_ + bytes > limit_) {
    const Region* oldest = nullptr;
    for (const auto& each : regions_) {
      const std::shared_ptr<Region>& region = each.value;
      if (region.use_count() == 1 && (oldest == nullptr || region->usedAt < oldest->usedAt))
        oldest = region.get();
    }
    if (oldest == nullptr) return false;
    uses_[{oldest->asked.base, oldest->what}].seen = 0;
    giveUp([&](const Region& region) { return &region == oldest; });
  }
  return true;
}

bool MemoryCache::giveBack() {
  return giveUp([](const Region&) { return true; }) > 0;
}

// Watched first: what changes from then on shows.
std::shared_ptr<MemoryCache::Region> MemoryCache::add(const MemoryRange& memory, MemoryFor what) {
  auto region = std::make_shared<Region>();
  region->asked = memory;
  region->what = what;
  region->pages = MemoryWatch::pagesOf(memory);
  const uint64_t bytes = region->pages.bytes;
  const auto refused = [&](uint32_t needed) {
    uses_[{memory.base, what}] = {0, needed};
    return nullptr;
  };
  if (bytes > limit_ || !makeRoom(bytes)) return refused(2);
  Result<std::unique_ptr<MemoryWatch::Mark>> mark = watch_->watch(memory);
  if (!mark.ok()) return refused(kMostNeeded);
  region->mark = mark.take();
  // What else lies in the pages is nobody's but the process's.
  const int access = what == MemoryFor::receiving ? IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE : 0;
  Result<MemoryHandle> handle = registerWith(domain_, memory.base, memory.bytes, access);
  if (!handle.ok() && giveBack()) handle = registerWith(domain_, memory.base, memory.bytes, access);
  if (!handle.ok()) {
    if (!std::exchange(saidRefused_, true))
      ECCL_INFO("%s: %s. What the user has not registered there goes by copies", owner_.c_str(),
                handle.status().message().c_str());
    return refused(kMostNeeded);
  }
  region->handle = handle.take();
  giveUp([&](const Region& other) {
    return memory.contains(other.asked.base, other.asked.bytes) && serves(what, other.what);
  });
  region->usedAt = ++clock_;
  most_ = std::max(most_, bytes_ += bytes);
  ++made_;
  writable_ += what == MemoryFor::receiving;
  regions_.add(memory, region);
  return region;
}

void MemoryCache::closeAfterFork() {
  made_ = 0;
  for (const auto& each : regions_) {
    each.value->handle.release();
    each.value->mark.release();
  }
}

}  // namespace eccl::transport::verbs
