// How ranks that are threads of one process connect: in its memory, without a descriptor.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "transport/core/ring_memory.h"
#include "transport/net/fd.h"
#include "transport/net/handshake.h"

namespace eccl::transport {

/// A ring that a sender offers to a receiver of the same process. Both hold it; each field has one writer,
/// before the state says so.
class ThreadOffer {
 public:
  enum class State : uint8_t { open, accepted, otherWay, refused, gone, withdrawn };

  // The sender's, before it knocks.
  Secret secret;  // of its communicator
  Hello hello;
  RingMemory memory;
  bool direct = false;             // it shows its memory
  std::shared_ptr<Fd> senderBell;  // of its reactor
  // The receiver's, before it answers.
  bool receiverDirect = false;
  std::shared_ptr<Fd> receiverBell;
  std::string why;

  State state() const { return state_.load(std::memory_order_acquire); }
  /// The receiver's word; rings the sender. False: the sender has withdrawn meanwhile.
  bool answer(State with);
  /// The sender gives up. False: an answer is there already.
  bool withdraw();

 private:
  std::atomic<State> state_{State::open};
};

/// Where threads of this process find a rank: under the identity of its Acceptor, which is random and known to
/// those who are to come. Owner: the receiver's Connector. Threads: knock() any; the rest the driver's.
class ThreadDoor {
 public:
  /// `bell` is rung for each offer.
  ThreadDoor(const Identity& identity, std::shared_ptr<Fd> bell);
  /// Who still waits learns that this rank is gone.
  ~ThreadDoor();
  /// False: no rank of this process has that identity.
  static bool knock(const Identity& identity, const std::shared_ptr<ThreadOffer>& offer);
  /// Costs one look at memory that is seldom written.
  bool hasOffers() const { return arrived_.load(std::memory_order_acquire); }
  std::vector<std::shared_ptr<ThreadOffer>> take();
  /// In a forked child: nothing is touched that another thread of the parent may have held.
  void closeAfterFork() { forked_ = true; }

 private:
  const Identity identity_;
  const std::shared_ptr<Fd> bell_;
  std::atomic<bool> arrived_{false};
  std::mutex mutex_;
  std::vector<std::shared_ptr<ThreadOffer>> offers_;
  bool forked_ = false;
};

/// Rings what sleeps on the eventfd.
void ringBell(const Fd& bell);

}  // namespace eccl::transport
