// Messages between ranks whose GPUs do not reach each other's memory, as those of several hosts: they pass
// through memory of the hosts.
//
//   kernel ─▶ a ring here ─▶ relay ─▶ Connection ─▶ relay ─▶ a ring there ─▶ kernel
//
// Each of the two ranks has a whole ring of its own in pinned host memory (lanes/block_program.h), and its
// kernels know no other. The sender's relay is the receiver of the ring here: it takes messages as they come,
// and releases them when the receiver's kernel has released them. The receiver's relay is the sender of the
// ring there. So no more messages are on their way than a ring has slots, and there is room for all: no ring
// holds up another one, though those of two ranks share one connection each way. A sender's relay keeps what it
// has until the receiver has made its ring.
#pragma once

#include <atomic>
#include <map>
#include <mutex>
#include <vector>

#include "runtime/cuda/gpu.h"
#include "runtime/cuda/relay_link.h"

namespace eccl::runtime::cuda {

/// Of one rank, on that GPU. Owner: what goes from one of its kernels to the next. Threads: ring() any, one at
/// a time; the rest the driver's.
class Relay {
 public:
  /// See ExecutorContext.
  struct Ways {
    decltype(ExecutorContext::connection) connection;
    decltype(ExecutorContext::hasLeft) hasLeft;
    decltype(ExecutorContext::sendsFrom) sendsFrom;
  };
  Relay(Gpu& gpu, int rank, Ways ways) : gpu_(gpu), rank_(rank), ways_(std::move(ways)) {}
  /// No kernel uses a ring any more, unless keep() was called.
  ~Relay();

  /// This rank's own of the first `width` strips of a ring, of which it is one end. The GPU's context is
  /// current. Waits for no other rank. Error: Gpu::pin()'s.
  Result<std::vector<Rings::RingStrip>> ring(const RingId& id, uint32_t width);
  /// Some kernel may still use a ring: none is given back.
  void keep() { memory_.clear(); }
  /// Executor::relay(), relaysTo() and relayFailure().
  Result<bool> advance(bool ending, const std::function<void(int)>& moved, const Meeting& meeting);
  std::vector<int> waitsFor();
  Status failure(int rank) const;

 private:
  /// A strip that the driver does not know yet, as the host reaches it.
  struct New {
    RingId id;
    lanes::AtReceiver* receiver;
    lanes::AtSender* sender;
    std::span<std::byte> memory;
  };
  void takeNew();

  Gpu& gpu_;
  const int rank_;
  const Ways ways_;
  // Of those who make calls.
  std::map<RingId, std::vector<Rings::RingStrip>> made_;
  std::vector<Pinned> memory_;
  std::mutex mutex_;  // of the following
  std::vector<New> new_;
  std::atomic<bool> anyNew_{false};
  std::map<int, RelayLink> links_;  // the driver's, by rank
};

}  // namespace eccl::runtime::cuda
