// The user's memory that a device can get at.
#pragma once

#include <atomic>
#include <list>
#include <mutex>

#include "transport/verbs/memory_cache.h"

namespace eccl::transport::verbs {

/// What names memory in work requests. Requests under way have to keep it: a call may use memory that is only
/// there for another one.
struct MemoryKeys {
  bool found = false;
  uint32_t local = 0, remote = 0;                     ///< in this device's requests, and in those of peers
  std::shared_ptr<const MemoryCache::Region> region;  ///< null: the user's
};

/// What the user has registered (ecclCommRegister) with one device, and memory that calls under way use and
/// that is in its MemoryCache. Messages in it go without a copy. Owner: the VerbsTransport, as long as there
/// are Uses. Any thread.
class Registrations final {
 public:
  /// See MemoryCache.
  Registrations(ibv_pd* domain, uint64_t cached, const std::string& owner, bool onDemand = false)
      : domain_(domain), onDemand_(onDemand), cache_(domain, cached, owner, onDemand) {}
  /// What the device refuses is said (WARN, once), and goes by copies.
  void add(const MemoryRange& memory);
  void remove(const MemoryRange& memory);
  /// A call uses this memory, as long as it keeps what is returned. Null: it goes by copies, or is registered
  /// anyway.
  std::unique_ptr<MemoryUse> use(const MemoryRange& memory, MemoryFor what, MemoryKind kind = MemoryKind::plain,
                                 int dmabuf = -1);
  /// Others need memory to be locked; see MemoryCache.
  bool giveBack();
  /// What messages can be sent from without a copy, or received into.
  const Reachable& reachable(MemoryFor what) const {
    return what == MemoryFor::sending ? sentFrom_ : receivedInto_;
  }
  bool empty() const { return count_.load(std::memory_order_relaxed) == 0; }
  /// Of these bytes, if one registration holds them all and is for that.
  MemoryKeys keysOf(const std::byte* memory, uint64_t length, MemoryFor what) const;
  /// In a forked child.
  void closeAfterFork();

 private:
  /// Bytes of a region, which may be more, and may have changed elsewhere.
  struct Used {
    MemoryRange memory;
    std::shared_ptr<const MemoryCache::Region> region;
  };
  class Use;
  class Part final : public Reachable {
   public:
    Part(const Registrations& its, MemoryFor what) : its_(its), what_(what) {}
    bool holds(uint64_t address, uint64_t length) const override {
      return its_.keysOf(reinterpret_cast<const std::byte*>(address), length, what_).found;
    }

   private:
    const Registrations& its_;
    const MemoryFor what_;
  };
  const MemoryHandle* registered(const std::byte* memory, uint64_t length) const {
    return registered_.find(memory, length, [](const MemoryHandle&) { return true; });
  }
  void count() { count_ = registered_.size() + used_.size(); }

  ibv_pd* const domain_;
  const bool onDemand_;
  mutable std::mutex mutex_;
  RangeIndex<MemoryHandle> registered_;
  MemoryCache cache_;
  std::list<Used> used_;
  std::atomic<size_t> count_ = 0;  // of both
  const Part sentFrom_{*this, MemoryFor::sending}, receivedInto_{*this, MemoryFor::receiving};
  bool saidRefused_ = false, saidOnDemand_ = false;
};

}  // namespace eccl::transport::verbs
