// Messages between ranks whose GPUs do not reach each other's memory, as those of several hosts: the hosts
// carry them.
//
//   kernel ─▶ a ring here ─▶ relay ─▶ Connection ─▶ relay ─▶ a ring there ─▶ kernel
//
// Each of the two ranks has a whole ring of its own in pinned host memory (lanes/block_program.h), and its
// kernels know no other. By RDMA the slots of long messages may lie in the GPUs (relay_slots.h). The sender's
// relay is the receiver of the ring here: it takes messages as they come, and releases them when the receiver's
// kernel has released them. The receiver's relay is the sender of the ring there. So no more messages are on
// their way than a ring has slots, and there is room for all: no ring holds up another one, though those of two
// ranks share connections. A sender's relay keeps what it has until the receiver has made its ring.
#pragma once

#include <atomic>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "runtime/cuda/mapped_block.h"
#include "runtime/cuda/relay_link.h"

namespace eccl::runtime::cuda {

/// Of one rank, on that GPU. Owner: what goes from one of its kernels to the next. Threads: ring() and goOn()
/// any, one at a time; the rest the driver's.
class Relay {
 public:
  /// See ExecutorContext.
  struct Ways {
    decltype(ExecutorContext::connection) connection;
    decltype(ExecutorContext::hasLeft) hasLeft;
    decltype(ExecutorContext::usesMemory) usesMemory;
  };
  Relay(Gpu& gpu, int rank, Ways ways) : gpu_(gpu), rank_(rank), ways_(std::move(ways)) {}
  /// No kernel uses a ring any more, unless keep() was called.
  ~Relay();

  /// This rank's own of the first `width` strips of a ring, of which it is one end. The GPU's context is
  /// current. Waits for no other rank. Error: Gpu::pin()'s.
  Result<std::vector<Rings::RingStrip>> ring(const RingId& id, uint32_t width);
  /// Makes slots apart for rings that are there, where the driver has found that devices would use them. The
  /// GPU's context is current. Waits for the GPU's driver as ring() does. `dmabufs`: they may lie in the GPU.
  /// Where they do not, that is said once (INFO).
  void goOn(bool dmabufs);
  /// Some kernel may still use a ring: none is given back.
  void keep();
  /// Executor::relay(), relaysTo() and relayFailure().
  Result<bool> advance(bool ending, const std::function<void(int)>& moved, const Meeting& meeting);
  std::vector<int> waitsFor();
  std::optional<transport::Breakage> failure(int rank) const;

 private:
  /// A strip that the driver does not know yet, as the host reaches it.
  struct New {
    RingId id;
    RelayStrip strip;
  };
  /// The answer to a wish.
  struct Answer {
    RingId id;
    size_t strip;
    SlotsPlace place;
    std::shared_ptr<SlotsApart> apart;
    std::byte* slots;
    uint64_t slotsAt;
  };
  int peerOf(const RingId& id) const { return sends(id) ? std::get<1>(id) : std::get<0>(id); }
  bool sends(const RingId& id) const { return std::get<0>(id) == rank_; }
  /// Memory for slots apart.
  struct Block {
    std::shared_ptr<SlotsApart> apart;
    uint64_t at = 0;  // as kernels know it
  };
  Result<Block> makeOnGpu(size_t bytes, bool sends);
  Result<Block> makePinned(size_t bytes);
  RelayLink& linkTo(int peer);
  Block make(size_t bytes, bool sends, SlotsPlace& place);
  void refuse(bool sends, const std::string& why);
  void giveBack(const SlotsApart& apart);
  void takeNew();

  Gpu& gpu_;
  const int rank_;
  const Ways ways_;
  // Of those who make calls.
  std::map<RingId, std::vector<Rings::RingStrip>> made_;
  std::vector<Pinned> memory_;
  std::vector<std::shared_ptr<MappedBlock>> blocks_;
  bool refused_[2] = {};  // by the GPU or an RDMA device: slots in the GPU to receive by, and to send by
  std::mutex mutex_;      // of the following
  std::vector<New> new_;
  std::vector<RelayLink::Wish> wishes_;
  std::vector<Answer> answers_;
  std::atomic<bool> anyNew_{false}, anyWishes_{false};
  std::map<int, RelayLink> links_;  // the driver's, by rank
};

}  // namespace eccl::runtime::cuda
