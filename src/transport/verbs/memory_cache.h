// Memory that the user has not registered and uses again and again, kept registered with a device.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "transport/verbs/adapter.h"
#include "transport/verbs/memory_watch.h"
#include "transport/verbs/range_index.h"

namespace eccl::transport::verbs {

/// The registrations of one device, least recently used ones given up first. To register memory takes about as
/// long as to copy it once, so it is done when the same memory is used again; where it was unmapped in between,
/// later each time. A region ends when its pages have changed (MemoryWatch).
///
/// What cannot be watched or locked is registered only where devices look its pages up (on_demand.h); if it
/// cannot be watched, it stays registered when its pages change.
///
/// Owner: Registrations. Threads: one at a time.
class MemoryCache {
 public:
  /// A buffer, registered as long as somebody has a reference to it.
  struct Region {
    MemoryRange asked, pages;  // what the device gets at; what is locked and watched
    MemoryFor what;            // sending: peers cannot write to it
    MemoryKind kind;
    std::unique_ptr<MemoryWatch::Mark>
        mark;               // null: it is not plain, or it cannot be watched and is not locked
    bool onDemand = false;  // not locked: its pages are looked up
    MemoryHandle handle;
    uint64_t usedAt = 0;
  };
  /// `limit`: bytes that are kept registered at most; 0: nothing is. `owner`: "rank 1 (host pid 12)", for the
  /// log. `onDemand`: the device looks up pages (on_demand.h), and is to.
  MemoryCache(ibv_pd* domain, uint64_t limit, std::string owner, bool onDemand = false);
  /// Says what it was good for, if it was (INFO).
  ~MemoryCache();
  /// A region that holds all of this memory, which has to stay as it is while it is used. Null: there is none,
  /// and it goes by copies. Why there will be none for any memory is said once (INFO). Lasting memory is
  /// registered at once. `dmabuf`: Transport::useMemory()'s.
  std::shared_ptr<const Region> find(const MemoryRange& memory, MemoryFor what,
                                     MemoryKind kind = MemoryKind::plain, int dmabuf = -1);
  /// Gives up what is locked and nobody refers to: others need memory to be locked. False: there is nothing.
  bool giveBack();
  /// In a forked child.
  void closeAfterFork();

 private:
  /// How often a buffer was used since it was last given up, and has to be before it is registered.
  struct Uses {
    uint32_t seen = 0, needed = 2;
  };
  bool ready();
  void prepare();
  void dropChanged();
  bool makeRoom(uint64_t bytes);
  std::shared_ptr<Region> add(const MemoryRange& memory, MemoryFor what, MemoryKind kind, int dmabuf);
  Result<MemoryHandle> registerPages(Region& region, int dmabuf);
  template <class Which>
  size_t giveUp(const Which& which);

  ibv_pd* const domain_;
  const uint64_t limit_;
  const std::string owner_;
  const bool onDemand_;
  bool readied_ = false;
  MemoryWatch* watch_ = nullptr;                 // null: nothing can be watched here
  RangeIndex<std::shared_ptr<Region>> regions_;  // by what they were asked for
  uint64_t changes_ = 0;                         // of the watch, when all were looked at
  uint64_t bytes_ = 0, clock_ = 0;
  // Bytes; and regions, for ~MemoryCache().
  uint64_t most_ = 0, made_ = 0, writable_ = 0, unlocked_ = 0, found_ = 0, changed_ = 0;
  bool saidRefused_ = false, saidFull_ = false, saidLasting_ = false;
  std::map<std::pair<const std::byte*, MemoryFor>, Uses> uses_;  // by where a buffer begins
};

}  // namespace eccl::transport::verbs
