// The user's memory that a device can get at.
#pragma once

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
    return keyOf(reinterpret_cast<const std::byte*>(address), length) != 0;
  }
  /// The key for these bytes, which is the device's and the peers'; 0: there is none.
  uint32_t keyOf(const std::byte* memory, uint64_t length) const;
  /// In a forked child.
  void closeAfterFork();

 private:
  ibv_pd* const domain_;
  mutable std::mutex mutex_;
  std::map<MemoryRange, MemoryHandle> registered_;
  bool saidRefused_ = false;
};

}  // namespace eccl::transport::verbs
