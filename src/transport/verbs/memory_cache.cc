#include "transport/verbs/memory_cache.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "transport/verbs/on_demand.h"

namespace eccl::transport::verbs {
namespace {

constexpr size_t kMostKnown = 4096;     // buffers whose uses are counted
constexpr uint32_t kMostNeeded = 4096;  // uses before memory that comes and goes is registered again

}  // namespace

MemoryCache::MemoryCache(ibv_pd* domain, uint64_t limit, std::string owner, bool onDemand)
    : domain_(domain), limit_(limit), owner_(std::move(owner)), onDemand_(onDemand) {}

MemoryCache::~MemoryCache() {
  if (made_ == 0) return;
  const auto number = [](uint64_t value) { return static_cast<unsigned long long>(value); };
  ECCL_INFO(
      "%s registered memory with %s that the user had not: %llu buffers, %llu of them to receive into, %llu of "
      "them on demand, %llu bytes at most at once; used again %llu times, changed %llu times",
      owner_.c_str(), ibv_get_device_name(domain_->context->device), number(made_), number(writable_),
      number(unlocked_), number(most_), number(found_), number(changed_));
}

std::shared_ptr<const MemoryCache::Region> MemoryCache::find(const MemoryRange& memory, MemoryFor what,
                                                             MemoryKind kind, int dmabuf) {
  if (limit_ == 0 || (kind == MemoryKind::plain && !ready())) return nullptr;
  dropChanged();
  if (const auto* region = regions_.find(memory.base, memory.bytes, [what](const auto& each) {
        // Unseen, what is only sent from may lie by now in memory that nobody may write to.
        const bool exact = each->mark == nullptr && each->kind == MemoryKind::plain;
        return exact ? each->what == what : serves(each->what, what);
      })) {
    (*region)->usedAt = ++clock_;
    ++found_;
    return *region;
  }
  if (uses_.size() >= kMostKnown) uses_.clear();
  Uses& uses = uses_[{memory.base, what}];
  if (kind == MemoryKind::lasting) uses.needed = 1;
  return ++uses.seen < uses.needed ? nullptr : add(memory, what, kind, dmabuf);
}

// What has changed and does not show yet is not to be used.
bool MemoryCache::ready() {
  if (!std::exchange(readied_, true)) prepare();
  return watch_ != nullptr ? watch_->settle() : onDemand_;
}

void MemoryCache::prepare() {
  Result<MemoryWatch*> watch = MemoryWatch::ofProcess();
  if (watch.ok()) {
    watch_ = watch.take();
    return;
  }
  ECCL_INFO("%s: memory that the user has not registered %s: %s", owner_.c_str(),
            onDemand_ ? "is looked up by the device on demand" : "goes by copies",
            watch.status().message().c_str());
}

void MemoryCache::dropChanged() {
  if (watch_ == nullptr) return;
  const uint64_t changes = watch_->changes();
  if (std::exchange(changes_, changes) == changes) return;
  regions_.endIf([&](const std::shared_ptr<Region>& region) {
    if (region->mark == nullptr || !region->mark->changed()) return false;
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
  return giveUp([](const Region& region) { return !region.onDemand; }) > 0;
}

// Watched first: what changes from then on shows.
Result<MemoryHandle> MemoryCache::registerPages(Region& region, int dmabuf) {
  const MemoryRange& memory = region.asked;
  // What else lies in the pages is nobody's but the process's.
  const int access = region.what == MemoryFor::receiving ? IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE : 0;
  Status refused = Status::error(Code::system, "it cannot be watched");
  if (watch_ != nullptr && region.kind == MemoryKind::plain) {
    if (Result<std::unique_ptr<MemoryWatch::Mark>> mark = watch_->watch(memory); mark.ok())
      region.mark = mark.take();
  }
  if (dmabuf >= 0) return registerDevices(domain_, memory, access, dmabuf);
  if (region.mark != nullptr || region.kind != MemoryKind::plain) {
    Result<MemoryHandle> locked = registerUsers(domain_, memory, access, [this] { return giveBack(); });
    if (locked.ok()) return locked;
    refused = locked.status();
  }
  if (!onDemand_) return refused;
  region.onDemand = true;
  return registerOnDemand(domain_, memory, access);
}

std::shared_ptr<MemoryCache::Region> MemoryCache::add(const MemoryRange& memory, MemoryFor what,
                                                      MemoryKind kind, int dmabuf) {
  auto region = std::make_shared<Region>();
  region->asked = memory;
  region->what = what;
  region->kind = kind;
  region->pages = MemoryWatch::pagesOf(memory);
  const uint64_t bytes = region->pages.bytes;
  const auto refused = [&](uint32_t needed) {
    uses_[{memory.base, what}] = {0, needed};
    return nullptr;
  };
  if (bytes > limit_ || !makeRoom(bytes)) {
    if (kind == MemoryKind::lasting && !std::exchange(saidFull_, true))
      ECCL_INFO("%s: memory for messages of GPUs is not registered, as ECCL_IB_CACHE_BYTES=%llu allows no more",
                owner_.c_str(), static_cast<unsigned long long>(limit_));
    return refused(2);
  }
  Result<MemoryHandle> handle = registerPages(*region, dmabuf);
  if (!handle.ok()) {
    const bool tried = region->mark != nullptr || region->onDemand || kind != MemoryKind::plain;
    bool& said = kind == MemoryKind::lasting ? saidLasting_ : saidRefused_;
    if (tried && !std::exchange(said, true))
      ECCL_INFO("%s: %s. %s", owner_.c_str(), handle.status().message().c_str(),
                kind == MemoryKind::lasting ? "Messages of GPUs do not lie there"
                                            : "What the user has not registered there goes by copies");
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
  unlocked_ += region->onDemand;
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
