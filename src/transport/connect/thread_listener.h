// How ranks that are threads of one process set up a connection: without a descriptor.
//
//   sender     call(): the call waits in the receiver's list, and rings it
//   receiver   take(), then reply(): the sender is rung
//   sender     looks at state(), and opens its end or goes on with the next transport
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "transport/core/transport.h"
#include "transport/net/handshake.h"

namespace eccl::transport {

/// An offer that a sender makes to a receiver of the same process. Owner: shared by both. Each field has one
/// writer, which writes it before the state says so. An acceptance is the last word: no confirmation follows.
class ThreadCall {
 public:
  enum class State : uint8_t { open, accepted, otherWay, refused, gone, withdrawn };

  // The sender's, before it calls.
  Secret secret;  // of its communicator
  Hello hello;
  std::string transport;
  bool last = false;  // the sender has no other transport
  SetupData offer;
  std::shared_ptr<Fd> senderBell;  // of its reactor
  // The receiver's, before it answers.
  SetupData answer;
  std::string why;

  State state() const { return state_.load(std::memory_order_acquire); }
  /// The receiver's word, of which there is one; rings the sender. False: the sender has withdrawn meanwhile,
  /// and the answer counts for nothing.
  bool reply(State with);
  /// The sender gives up. False: there is an answer already, or it has withdrawn before.
  bool withdraw();

 private:
  std::atomic<State> state_{State::open};
};

/// Where threads of this process find a rank: under the identity of its Acceptor, which is random and known
/// to those who are to come. Owner: the receiver's Connector. Threads: call() and hears() any; the rest the
/// driver's.
class ThreadListener {
 public:
  /// `bell` is rung for each call.
  ThreadListener(const Identity& identity, std::shared_ptr<Fd> bell);
  /// Who still waits learns that this rank is gone.
  ~ThreadListener();
  /// Hands a call to the rank with that identity and rings it. False: no rank of this process has it.
  static bool call(const Identity& identity, const std::shared_ptr<ThreadCall>& call);
  /// Whether some rank of this process has that identity.
  static bool hears(const Identity& identity);
  /// Whether take() has something to give. Cheap: one look at memory that is seldom written.
  bool hasCalls() const { return arrived_.load(std::memory_order_acquire); }
  /// All calls that have come since the last take(); each is to be answered.
  std::vector<std::shared_ptr<ThreadCall>> take();
  /// In a forked child: nothing is touched that another thread of the parent may have held.
  void closeAfterFork() { forked_ = true; }

 private:
  const Identity identity_;
  const std::shared_ptr<Fd> bell_;
  std::atomic<bool> arrived_{false};
  std::mutex mutex_;
  std::vector<std::shared_ptr<ThreadCall>> calls_;
  bool forked_ = false;
};

}  // namespace eccl::transport
