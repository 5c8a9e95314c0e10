// A Connection: one end of one first-in-first-out stream of messages between two ranks.
//
// Whatever the path (threads of one process, shared memory, TCP), lanes see the same thing: a SendEnd or a
// ReceiveEnd, plain data over a ring of slots (program/slot_ring.h). For shared memory both ends look at one
// ring. For TCP each side has a ring of its own, and the path moves slots from one to the other.
//
// Direct, two modes, for messages of at least SendEnd::directFrom bytes in memory that a Window shows. Pull: a
// slot refers to the sender's memory; it is released when the receiver has read it. Push: the receiving lane
// grants its destination, and the message is delivered there and its slot marked as placed: by the sender on
// the same host, by the path where a TCP socket reads into the user's buffer.
//
// Slots of a message are given back by the receiver's release, which travels as a credit; never by a socket's
// acceptance of the bytes.
//
// Threads: everything here is used by the communicator's driver, one thread at a time, except where said.
#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "program/slot_ring.h"

namespace eccl::transport {

/// Names a connection in its communicator. Both ends derive it from the Program (or from the Send/Recv call).
struct ConnectionId {
  int32_t from = 0, to = 0;
  int16_t channel = 0, tag = 0;
  auto operator<=>(const ConnectionId&) const = default;
};

/// The tag of connections that carry Send and Recv; algorithms use small numbers from 0.
inline constexpr int16_t kPointToPointTag = 0x7fff;

/// What an established connection does besides its ring. A transport makes it (core/transport.h).
class Path {
 public:
  virtual ~Path() = default;
  /// Its transport's.
  virtual const char* name() const = 0;
  /// Both sides look at one ring: nothing but kick() is needed for messages and credits to pass.
  virtual bool inMemory() const { return false; }
  /// The lane has published or released: make the other side notice. Cheap when there is nothing to do.
  virtual void kick() = 0;
  /// The driver found nothing to do: send what was held back (credits).
  virtual void flush() {}
  /// The driver is about to sleep: have it woken when this end can go on. After this call it looks once more.
  virtual void beforeSleep() {}
  virtual void afterSleep() {}
  /// Sender: every published message has been released by the receiver. Receiver: every release has been told.
  virtual bool drained() const = 0;
  /// Receiver: no message will be taken any more. Tells the sender, after every release.
  virtual void endReceiving() = 0;
  /// Tells the peer in-band that this rank has failed, and revokes its access to this side's memory: when this
  /// returns, the peer reads and writes none of it any more. Idempotent. Any thread may call while the driver
  /// is stopped.
  virtual void poison() = 0;
  /// In a forked child: closes descriptors, unmaps nothing that matters, tells nobody.
  virtual void closeAfterFork() = 0;
};

class Connection {
 public:
  enum class State : uint8_t { connecting, ready, failed };

  Connection(ConnectionId id, int self) : id_(id), sends_(id.from == self) {}
  const ConnectionId& id() const { return id_; }
  bool sends() const { return sends_; }
  int peer() const { return sends_ ? id_.to : id_.from; }
  State state() const { return state_; }
  /// Why it failed: names the peer, the path and what to do.
  const Status& failure() const { return failure_; }
  /// Not null when ready.
  Path* path() const { return path_.get(); }

  /// The end that lanes use. Addresses are constant from construction; contents are valid once ready.
  SendEnd sendEnd;
  ReceiveEnd receiveEnd;

  /// Runs hold connections in turn: a lane may use this one while its ticket is being served.
  uint64_t takeTicket() { return issued_++; }
  bool serves(uint64_t ticket) const { return serving_ == ticket; }
  void finishTicket() { ++serving_; }
  /// Whether anybody is served, or memory that messages refer to is still read.
  bool inUse() { return issued_ != serving_ || (sends_ && !sendEnd.referencesReleased()); }

  // For those who establish connections.
  void becomeReady(std::unique_ptr<Path> path) {
    path_ = std::move(path);
    state_ = State::ready;
  }
  void fail(Status why) {
    if (state_ == State::failed) return;
    failure_ = std::move(why);
    state_ = State::failed;
  }

 private:
  const ConnectionId id_;
  const bool sends_;
  State state_ = State::connecting;
  Status failure_;
  std::unique_ptr<Path> path_;
  uint64_t issued_ = 0, serving_ = 0;
};

}  // namespace eccl::transport
