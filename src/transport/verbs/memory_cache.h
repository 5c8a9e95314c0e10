// Memory that the user has not registered and uses again and again, kept registered with a device.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "transport/verbs/adapter.h"
#include "transport/verbs/memory_watch.h"

namespace eccl::transport::verbs {

/// The registrations of one device, least recently used ones given up first. To register memory takes about as
/// long as to copy it once, so it is done when the same memory is used again; where it was unmapped in between,
/// later each time. A region ends when its pages have changed (MemoryWatch).
///
/// Owner: Registrations. Threads: one at a time.
class MemoryCache {
 public:
  /// A buffer, registered as long as somebody has a reference to it.
  struct Region {
    MemoryRange asked, pages;  // what peers may write to; what is locked and watched
    std::unique_ptr<MemoryWatch::Mark> mark;
    MemoryHandle handle;
    uint64_t usedAt = 0;
  };
  /// `limit`: bytes that are kept registered at most; 0: nothing is. `owner`: "rank 1 (host pid 12)", for the
  /// log.
  MemoryCache(ibv_pd* domain, uint64_t limit, std::string owner);
  /// Says what it was good for, if it was (INFO).
  ~MemoryCache();
  /// A region that holds all of this memory, which has to stay as it is while it is used. Null: there is none,
  /// and it goes by copies. Why there will be none for any memory is said once (INFO).
  std::shared_ptr<const Region> find(const MemoryRange& memory);
  /// Gives up what nobody refers to: others need memory to be locked. False: there is nothing.
  bool giveBack();
  /// In a forked child.
  void closeAfterFork();

 private:
  /// How often a buffer was used since it was last given up, and has to be before it is registered.
  struct Uses {
    uint32_t seen = 0, needed = 2;
  };
  bool ready();
  void dropChanged();
  bool makeRoom(uint64_t bytes);
  std::shared_ptr<Region> add(const MemoryRange& memory);
  template <class Which>
  void giveUp(const Which& which);

  ibv_pd* const domain_;
  uint64_t limit_;
  const std::string owner_;
  MemoryWatch* watch_ = nullptr;
  std::vector<std::shared_ptr<Region>> regions_;
  uint64_t bytes_ = 0, clock_ = 0;
  uint64_t most_ = 0, made_ = 0, found_ = 0, changed_ = 0;  // bytes; and regions, for ~MemoryCache()
  bool saidRefused_ = false;
  std::unordered_map<const std::byte*, Uses> uses_;
};

}  // namespace eccl::transport::verbs
