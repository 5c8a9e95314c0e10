// A Connection: one end of one first-in-first-out stream of messages between two ranks.
//
// Whatever the path (threads of one process, shared memory, TCP), lanes see the same thing: a SendEnd or a
// ReceiveEnd, plain data over a ring of slots (program/slot_ring.h). For shared memory both ends look at one
// ring. For TCP each side has a ring of its own, and the path moves slots from one to the other.
//
// Messages of at least SendEnd::directFrom bytes, in memory that a Window shows, may go without a copy, in
// two ways. Rendezvous get: a slot refers to the sender's memory, and is released when the receiver has read
// it. Rendezvous put: the receiving lane offers its destination, the message is delivered there, and its slot
// is marked as placed. On the same host the sender delivers it; over TCP the path does, which reads from the
// socket into the user's buffer.
//
// Slots are given back by the receiver's release, which travels as a credit; never by a socket's acceptance
// of the bytes.
//
// Threads: everything here is used by the communicator's driver, one thread at a time, except where said.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "program/slot_ring.h"
#include "transport/core/breakage.h"
#include "transport/core/device_flow.h"
#include "transport/core/link_report.h"
#include "transport/core/lossy_socket.h"
#include "transport/core/socket_report.h"
#include "transport/net/address.h"
#include "transport/net/stream.h"

namespace eccl::transport {

/// Names a connection in its communicator. Both ends derive it from the Program (or from the Send/Recv call).
struct ConnectionId {
  int32_t from = 0, to = 0;
  int16_t channel = 0, tag = 0;
  auto operator<=>(const ConnectionId&) const = default;
};

/// The tag of connections that carry Send and Recv; algorithms use small numbers from 0.
inline constexpr int16_t kPointToPointTag = 0x7fff;
/// The tags of those that an executor has for itself, which no call has. It tells itself what is lost there.
inline constexpr int16_t kRelayTag = 0x7ffe, kRelayedSlotsTag = 0x7ffd;
constexpr bool isRelays(int16_t tag) {
  return tag == kRelayTag || tag == kRelayedSlotsTag;
}
/// The tag of those that calls in graphs have, in place of the ones with `tag`: when a graph runs is known to
/// the device alone, so its calls have no place among the others.
constexpr int16_t tagInGraphs(int16_t tag) {
  return static_cast<int16_t>(~tag);
}
constexpr bool isInGraphs(int16_t tag) {
  return tag < 0;
}
constexpr bool isPointToPoint(int16_t tag) {
  return tag == kPointToPointTag || tag == tagInGraphs(kPointToPointTag);
}

/// What an established connection does besides its ring. A transport makes it (core/transport.h).
///
/// Owner: the Connection. Its end of the ring outlives it. Failure: a path that breaks tells
/// Opening::onBroken, sets the poison word that this side's lanes look at, and stays until it is destroyed.
/// None of these calls waits, but for poison().
class Path {
 public:
  virtual ~Path() = default;
  /// Its transport's.
  virtual const char* name() const = 0;
  /// Both sides look at one ring: nothing but kick() is needed for messages and credits to pass.
  virtual bool inMemory() const { return false; }
  /// The lane has published or released: make the other side notice. Cheap when there is nothing to do.
  virtual void kick() = 0;
  /// The same after a full barrier that came after what the lane did.
  virtual void kickAfterBarrier() { kick(); }
  /// Of a path inMemory(), after such a barrier: wakes the other side if it sleeps, and tells it nothing else.
  /// Any thread.
  virtual void wake() {}
  /// This side waits, on `processor` (processorHere()). True: the other side did so there when it last waited;
  /// it may want to run there now.
  virtual bool waitsOn(uint32_t /*processor*/) { return false; }
  /// poll() looks once for what the peer has sent, which is cheaper than to ask the reactor. For drivers that
  /// spin. False: only the reactor, or Transport::progress(), finds out.
  virtual bool polls() const { return false; }
  virtual void poll() {}
  /// poll() takes no system call: it looks at memory of a device's.
  virtual bool pollsMemory() const { return false; }
  /// The lane needs the connection no more for now: send the credits that the sender waits for. Others may be
  /// held back until flush().
  virtual void settle() { flush(); }
  /// The driver found nothing to do: send all that was held back (credits).
  virtual void flush() {}
  /// Sender: at most `messages`, two or more, are to be on their way at once from now on; UINT32_MAX: as many
  /// as there are slots. A path whose credits may come late goes on using all.
  virtual void limitAhead(uint32_t /*messages*/) {}
  /// Messages of some length can come straight to memory that the receiver offers in time, by a device. It
  /// tells the sender of such an offer by a grant.
  virtual bool grants() const { return false; }
  /// Sender, where that is so: the grant for this message, not sent yet, has not come.
  virtual bool awaitsGrant(uint64_t /*message*/) const { return false; }
  /// Sender: nothing more will be sent. Have the receiver tell its releases, though it may hold them back.
  virtual void askForReleases() {}
  /// Takes a further socket between the same two ranks, over another rail or another way through the network,
  /// and spreads messages over all. Both sides take it, the receiver first. Error (remote): it takes no more.
  /// Not logged.
  virtual Status addSocket(Stream /*socket*/) {
    return Status::error(Code::remote, "%s has one socket", name());
  }
  /// Sender: how fast each of its sockets can be, in 10^6 bits per second, 0: not known. Messages are spread
  /// accordingly; without, or where one is not known, as if all were alike.
  virtual void weighSockets(const std::function<uint32_t(const SocketEnds&)>& /*megabits*/) {}
  /// Sender: long messages go over these of its sockets alone, or over all if it has none of these; short ones
  /// over the first, as ever. Asked once for each socket; one that joins later takes long messages.
  virtual void preferSockets(const std::function<bool(const SocketEnds&)>& /*takesLongOnes*/) {}
  /// Sender: closes the sockets that take no long messages and in which nothing waits, but for the first. The
  /// receiver closes its ends. To be called again where something may have waited.
  virtual void closeSpareSockets() {}
  /// Sender of several sockets: has messages leave out, for a while, those that lose packets and hold the
  /// others up by it. To be called some times in a second. Which are left out from now on.
  virtual std::vector<LossySocket> leaveOutLossy(TimePoint /*now*/) { return {}; }
  /// Of several sockets: looks for what no descriptor tells, that an interface of this host is down (`downAt`
  /// gives its name, else ""), or that the peer's host acknowledges nothing any more. The sentence says which;
  /// empty: all is well. Over one socket the watch over the peer's host finds that out.
  virtual std::string checkSockets(const std::function<std::string(const SocketAddress& mine)>& /*downAt*/) {
    return "";
  }
  /// What its sockets have carried and how they fare, the first of them first; after a break as they were
  /// before. None: it has no sockets of its own.
  virtual std::vector<SocketReport> sockets() const { return {}; }
  /// Sender without sockets: its flows whose source port can be chosen, the same as long as the path is ready.
  virtual std::vector<DeviceFlow> deviceFlows() const { return {}; }
  /// Has one of these go from this port from now on, by its place among them. Error (system): the device does
  /// not do that. Not logged.
  virtual Status moveDeviceFlow(size_t /*flow*/, uint16_t /*port*/) {
    return Status::error(Code::system, "%s has no flows to move", name());
  }
  /// Of a path without sockets: which device it goes by.
  virtual LinkReport link() const { return {}; }
  /// The driver is about to sleep: have it woken when this end can go on. After this call the driver looks
  /// once more. It calls afterSleep() when it is awake.
  virtual void beforeSleep() {}
  virtual void afterSleep() {}
  /// Gives back the memory that data of messages was in, of what this side owns; a sender's if none is under
  /// way.
  virtual void giveBack() {}
  /// Sender: every published message has been released by the receiver. Receiver: the sender has been told of
  /// every release.
  virtual bool drained() const = 0;
  /// Receiver: no message will be taken any more. Tells the sender so, after every release. At most once.
  virtual void endReceiving() = 0;
  /// Tells the peer in-band that this rank has failed, and revokes its access to this side's memory. When
  /// this returns, the peer writes none of it any more. It reads none of it either, except that a process in
  /// the middle of a message for too long is not waited for; what that one reads counts for nothing.
  /// Idempotent. Any thread may call while the driver is stopped.
  virtual void poison() = 0;
  /// In a forked child: closes descriptors and tells nobody. What is mapped may stay mapped.
  virtual void closeAfterFork() = 0;
};

/// One end of a connection, from its first use until the communicator ends. Owner: the Connector, where its
/// address stays the same. Threads: the driver's.
///
/// Failure: state() is failed, with failure(), for good. The path may still be there then, and lanes see the
/// poison word of their end.
class Connection {
 public:
  /// connecting → ready, or failed from either.
  enum class State : uint8_t { connecting, ready, failed };

  /// `self`: this rank, which is one of the two.
  Connection(ConnectionId id, int self) : id_(id), sends_(id.from == self) {}
  const ConnectionId& id() const { return id_; }
  bool sends() const { return sends_; }
  int peer() const { return sends_ ? id_.to : id_.from; }
  State state() const { return state_; }
  /// Why it failed: names the peer, the path and what to do.
  const Status& failure() const { return failure_; }
  /// The same, as what broke it.
  Breakage breakage() const { return {failure_.message(), endedByPeer_}; }
  /// Not null when ready. After a failure it may be there or not.
  Path* path() const { return path_.get(); }

  /// The end that lanes use. Addresses are constant from construction; contents are valid once ready.
  SendEnd sendEnd;
  ReceiveEnd receiveEnd;

  /// Runs hold connections in turn. A Run takes a ticket at each of its connections, in the order of the
  /// calls. Its lane uses the connection while serves() its ticket, and calls finishTicket() once when its
  /// moves are complete.
  uint64_t takeTicket() { return issued_++; }
  bool serves(uint64_t ticket) const { return serving_ == ticket; }
  void finishTicket() { ++serving_; }
  /// Whether a ticket is being served, or memory that messages refer to is still read.
  bool inUse() { return issued_ != serving_ || !isRead(); }
  /// Whether the peer reads nothing any more that messages sent here referred to.
  bool isRead() { return !sends_ || sendEnd.getsReleased(); }

  // For those who establish connections. Of fail() the first reason stays; nothing is logged.
  void becomeReady(std::unique_ptr<Path> path) {
    path_ = std::move(path);
    state_ = State::ready;
  }
  void fail(Status why) {
    if (state_ == State::failed) return;
    failure_ = std::move(why);
    state_ = State::failed;
  }
  void markEndedByPeer() { endedByPeer_ = true; }
  /// Sets the word by which this side's lanes see that the peer is gone.
  void markPeerGone() {
    if (sends_ && sendEnd.control != nullptr) storeRelease(&sendEnd.control->receiverPoison, 1u);
    if (!sends_ && receiveEnd.control != nullptr) storeRelease(&receiveEnd.control->senderPoison, 1u);
  }

 private:
  const ConnectionId id_;
  const bool sends_;
  State state_ = State::connecting;
  Status failure_;
  bool endedByPeer_ = false;
  std::unique_ptr<Path> path_;
  uint64_t issued_ = 0, serving_ = 0;
};

}  // namespace eccl::transport
