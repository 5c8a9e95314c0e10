// Which unfinished handshakes a listener keeps, and which go first when there are too many.
#pragma once

#include <sys/socket.h>

#include <atomic>
#include <map>
#include <string>
#include <vector>

#include "base/clock.h"
#include "transport/net/handshake.h"

namespace eccl::transport {

/// The unfinished handshakes of one listener, in a fixed number of slots.
///
/// When there is no room for a newcomer, the source that holds the most slots gives one up: first one that
/// has not sent a greeting, among those the oldest. A source is something that a stranger cannot have many
/// of: an IPv4 address, an IPv6 network of 64 bits, a user of this host.
///
/// No handshake is dropped for another before it has lasted as long as the patience, or ten times that once
/// it has sent a greeting. So many honest callers wait in the kernel's queue instead of displacing each
/// other. Each eviction shortens the patience, so that a flood of any length is worked off in about one
/// patience; with room it grows again.
///
/// Owner: the Acceptor. Threads: its one.
class HalfOpen {
 public:
  struct Slot {  // free when its handshake has no descriptor
    Handshake handshake;
    TimePoint since{};
    std::string source;
    std::string peer;       // for messages
    bool outsider = false;  // another user of this host
    bool viaUnix = false;
    int32_t pid = 0;
    bool taken() const { return handshake.fd() >= 0; }
  };

  explicit HalfOpen(size_t most) : most_(most) { slots_.reserve(most); }
  ~HalfOpen() { ofProcess_ -= count_; }
  HalfOpen(const HalfOpen&) = delete;
  HalfOpen& operator=(const HalfOpen&) = delete;
  size_t count() const { return count_; }
  /// Of all listeners of this process together. Any thread.
  static size_t ofProcess() { return ofProcess_.load(std::memory_order_relaxed); }
  size_t most() const { return most_; }
  /// Those that have been used: as many as were ever taken at a time. They stay where they are.
  std::vector<Slot>& slots() { return slots_; }
  const std::vector<Slot>& slots() const { return slots_; }

  /// Which handshake a newcomer may replace when only `room` slots are to be used: nullptr while there is
  /// room, else a slot that may be released from mayGo() on. Valid until the next take() or release().
  Slot* next(size_t room);
  /// From when a handshake may be dropped for a newcomer.
  TimePoint mayGo(const Slot& slot) const {
    return slot.since + (slot.handshake.greeted() ? kGreetedPatience : 1) * patience_;
  }
  /// To be called when the slot that next() named is given to a newcomer.
  void shortenPatience(size_t room);
  /// Other users of this host share an eighth of the slots. The slot of theirs that goes for another of them;
  /// nullptr while they have room.
  Slot* nextOutsider(size_t room);

  /// A free slot, for a handshake of this source. There must be one. The caller fills it in, the handshake
  /// too, at once.
  Slot& take(const std::string& source);
  /// The handshake is over; closes its socket.
  void release(Slot& slot);

 private:
  static constexpr Duration kPatience = std::chrono::milliseconds(50);
  static constexpr Duration kMinPatience = std::chrono::milliseconds(1);
  static constexpr int kGreetedPatience = 10;  // times: what honest callers on a busy host may need

  static inline std::atomic<size_t> ofProcess_{0};

  const size_t most_;
  std::vector<Slot> slots_;  // never moved: a forked child may find another thread in the middle of a change
  std::map<std::string, size_t> by_;  // source → slots it holds
  size_t count_ = 0;
  Duration patience_ = kPatience;
};

/// The source that a caller counts for.
std::string sourceOf(const sockaddr* address);
std::string sourceOf(const ucred& peer);

}  // namespace eccl::transport
