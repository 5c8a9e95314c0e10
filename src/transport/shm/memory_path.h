// The path of two ends that look at one ring: threads of one process, or processes that share memory.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <tuple>

#include "program/remote_reads.h"
#include "transport/core/connection.h"
#include "transport/core/transport.h"
#include "transport/net/fd.h"
#include "transport/shm/shared_heap.h"

namespace eccl::transport {

/// Whether a receiver has a choice of ways.
inline bool weighsWays(const TransportContext& context) {
  return context.slotStreaming != 0 || context.allowDirect;
}
/// What a receiver chooses among. The ring says what it wants at first. `readable`: the sender's plain memory
/// can be read from here.
WayChoices firstChoices(const TransportContext& context, bool readable, RingControl& control);

/// What two paths have in common at one rank: those of the same channel and tag to and from a peer.
struct Exchange {
  ExchangeAreas areas;
  RingMemory rings[2];  // that the areas are in
};
/// Those of a rank. Owner: its transport. Threads: the driver's.
class Exchanges {
 public:
  std::shared_ptr<Exchange> of(int peer, const ConnectionId& id) {
    std::shared_ptr<Exchange>& its = exchanges_[{peer, id.channel, id.tag}];
    if (its == nullptr) its = std::make_shared<Exchange>();
    return its;
  }

 private:
  std::map<std::tuple<int, int16_t, int16_t>, std::shared_ptr<Exchange>> exchanges_;
};

/// Moves nothing: lanes publish and release in the ring itself. What is left is to wake a peer that sleeps.
///
/// Sleep protocol: the sleeper raises its flag, passes a full barrier and looks once more; the other side
/// publishes, passes a full barrier and looks at the flag. One of the two sees the other's store.
///
/// Owner: the Connection. Threads: the driver's. Failure: none of its own; a dead peer is found by PeerWatch.
class MemoryPath final : public Path {
 public:
  enum class Between : uint8_t { threads, processes };
  /// One of `sendEnd`, `receiveEnd` is this side's, the other is null. The end is attached to `memory`, has
  /// its windows, and outlives the path. `peerHeap`: what the end's window `theirs` is in, if anything.
  /// `doorbell` is the peer's.
  MemoryPath(Between between, RingMemory memory, PeerHeap peerHeap, SendEnd* sendEnd, ReceiveEnd* receiveEnd,
             std::shared_ptr<Fd> doorbell);
  /// Poisons: whoever is still there must not wait for this side.
  ~MemoryPath() override;

  /// Receiver: it chooses the ways of messages. Null: they cannot be read from the sender's process.
  void choose(const WayChoices& choices, std::unique_ptr<RemoteReads> process);

  /// Before the first message: its data may go into areas that are exchanged, of the ring and of that of the
  /// path the other way.
  void exchange(std::shared_ptr<Exchange> with);

  const char* name() const override { return between_ == Between::threads ? "thread" : "shm"; }
  bool inMemory() const override { return true; }
  void kick() override;
  void kickAfterBarrier() override;
  void wake() override;
  bool waitsOn(uint32_t processor) override;
  void beforeSleep() override;
  void afterSleep() override;
  void giveBack() override;
  bool drained() const override;
  void endReceiving() override { receiveEnd_->end(); }  // a sender that cares looks now and then
  void poison() override;
  void closeAfterFork() override;

 private:
  RingEnd& end() { return sendEnd_ != nullptr ? static_cast<RingEnd&>(*sendEnd_) : *receiveEnd_; }
  const RingEnd& end() const { return sendEnd_ != nullptr ? static_cast<RingEnd&>(*sendEnd_) : *receiveEnd_; }
  void ringPeer();
  bool awaitPeer(const uint32_t* busy, const char* doing) const;
  void withdrawGrants() const;
  bool heapHasNews() const;
  void shareHeap();

  const Between between_;
  const RingMemory memory_;
  PeerHeap peerHeap_;
  SendEnd* const sendEnd_;
  ReceiveEnd* const receiveEnd_;
  RingControl* const control_;
  HeapNews *const myNews_, *const theirNews_;
  const bool showsHeap_;  // and not the whole address space, as threads do
  std::optional<WayChoices> choices_;
  ClaimChoice claimed_;
  std::unique_ptr<RemoteReads> process_;
  std::shared_ptr<Exchange> exchange_;  // null: there is none
  std::shared_ptr<Fd> doorbell_;        // null in a forked child
  uint64_t kicked_;                     // what `next` was when the peer was last looked after
  bool poisoned_ = false;
};

}  // namespace eccl::transport
