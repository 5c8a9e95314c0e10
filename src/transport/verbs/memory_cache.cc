#include "transport/verbs/memory_cache.h"

#include <algorithm>
#include <utility>

#include "base/log.h"

namespace eccl::transport::verbs {
namespace {

constexpr size_t kMostKnown = 4096;     // buffers whose uses are counted
constexpr uint32_t kMostNeeded = 4096;  // uses before memory that comes and goes is registered again
constexpr int kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;

}  // namespace

MemoryCache::MemoryCache(ibv_pd* domain, uint64_t limit, std::string owner)
    : domain_(domain), limit_(limit), owner_(std::move(owner)) {}

MemoryCache::~MemoryCache() {
  if (made_ == 0) return;
  const auto number = [](uint64_t value) { return static_cast<unsigned long long>(value); };
  ECCL_INFO(
      "%s registered memory with %s that the user had not: %llu buffers, %llu bytes at most at once; used "
      "again %llu times, changed %llu times",
      owner_.c_str(), ibv_get_device_name(domain_->context->device), number(made_), number(most_),
      number(found_), number(changed_));
}

std::shared_ptr<const MemoryCache::Region> MemoryCache::find(const MemoryRange& memory) {
  if (limit_ == 0 || !ready()) return nullptr;
  dropChanged();
  for (const auto& region : regions_) {
    if (!region->asked.contains(memory.base, memory.bytes)) continue;
    region->usedAt = ++clock_;
    ++found_;
    return region;
  }
  if (uses_.size() >= kMostKnown) uses_.clear();
  Uses& uses = uses_[memory.base];
  return ++uses.seen < uses.needed ? nullptr : add(memory);
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
  const auto changed = std::partition(regions_.begin(), regions_.end(),
                                      [](const auto& region) { return !region->mark->changed(); });
  for (auto it = changed; it != regions_.end(); ++it) {
    bytes_ -= (*it)->pages.bytes;
    ++changed_;
    Uses& uses = uses_[(*it)->asked.base];
    uses = {0, std::min(2 * uses.needed, kMostNeeded)};
  }
  regions_.erase(changed, regions_.end());
}

/// Those of which `which` is true and that nobody refers to.
template <class Which>
void MemoryCache::giveUp(const Which& which) {
  const auto idle = std::partition(regions_.begin(), regions_.end(), [&](const auto& region) {
    return region.use_count() > 1 || !which(*region);
  });
  for (auto it = idle; it != regions_.end(); ++it) bytes_ -= (*it)->pages.bytes;
  regions_.erase(idle, regions_.end());
}

bool MemoryCache::makeRoom(uint64_t bytes) {
  while (bytes_ + bytes > limit_) {
    const Region* oldest = nullptr;
    for (const auto& region : regions_) {
      if (region.use_count() == 1 && (oldest == nullptr || region->usedAt < oldest->usedAt))
        oldest = region.get();
    }
    if (oldest == nullptr) return false;
    uses_[oldest->asked.base].seen = 0;
    giveUp([&](const Region& region) { return &region == oldest; });
  }
  return true;
}

bool MemoryCache::giveBack() {
  const size_t before = regions_.size();
  giveUp([](const Region&) { return true; });
  return regions_.size() < before;
}

// Watched first: what changes from then on shows.
std::shared_ptr<MemoryCache::Region> MemoryCache::add(const MemoryRange& memory) {
  auto region = std::make_shared<Region>();
  region->asked = memory;
  region->pages = MemoryWatch::pagesOf(memory);
  const uint64_t bytes = region->pages.bytes;
  const auto refused = [&](uint32_t needed) {
    uses_[memory.base] = {0, needed};
    return nullptr;
  };
  if (bytes > limit_ || !makeRoom(bytes)) return refused(2);
  Result<std::unique_ptr<MemoryWatch::Mark>> mark = watch_->watch(memory);
  if (!mark.ok()) return refused(kMostNeeded);
  region->mark = mark.take();
  // What else lies in the pages is nobody's but the process's.
  Result<MemoryHandle> handle = registerWith(domain_, memory.base, memory.bytes, kAccess);
  if (!handle.ok() && giveBack()) handle = registerWith(domain_, memory.base, memory.bytes, kAccess);
  if (!handle.ok()) {
    if (!std::exchange(saidRefused_, true))
      ECCL_INFO("%s: %s. What the user has not registered there goes by copies", owner_.c_str(),
                handle.status().message().c_str());
    return refused(kMostNeeded);
  }
  region->handle = handle.take();
  giveUp([&](const Region& other) { return memory.contains(other.asked.base, other.asked.bytes); });
  region->usedAt = ++clock_;
  most_ = std::max(most_, bytes_ += bytes);
  ++made_;
  regions_.push_back(region);
  return region;
}

void MemoryCache::closeAfterFork() {
  made_ = 0;
  for (const auto& region : regions_) {
    region->handle.release();
    region->mark.release();
  }
}

}  // namespace eccl::transport::verbs
