// The user's memory that a device can get at.
#pragma once

#include <atomic>
#include <map>
#include <mutex>

#include "transport/core/transport.h"
#include "transport/verbs/adapter.h"

namespace eccl::transport::verbs {

/// What the user has registered (ecclCommRegister), with one device. Messages in it go without a copy. Owner:
/// the VerbsTransport. Any thread.
class Registrations final : public Reachable {
 public:
  explicit Registrations(ibv_pd* domain) : domain_(domain) {}
  /// What the device refuses is said (WARN, once), and goes by copies.
  void add(const MemoryRange& memory);
  void remove(const MemoryRange& memory);
  bool holds(uint64_t address, uint64_t length) const override {
    return keysOf(reinterpret_cast<const std::byte*>(address), length).found;
  }
  bool empty() const { return count_.load(std::memory_order_relaxed) == 0; }
  /// What names memory in work requests.
  struct Keys {
    bool found = false;
    uint32_t local = 0, remote = 0;  ///< in this device's requests, and in those of peers
  };
  /// Of these bytes, if one registration holds them all.
  Keys keysOf(const std::byte* memory, uint64_t length) const;
  /// In a forked child.
  void closeAfterFork();

 private:
  ibv_pd* const domain_;
  mutable std::mutex mutex_;
  std::map<MemoryRange, MemoryHandle> registered_;
  std::atomic<size_t> count_ = 0;  // of them
  bool saidRefused_ = false;
};

}  // namespace eccl::transport::verbs
