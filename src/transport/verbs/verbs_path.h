// What both ends of a connection over RDMA share.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "transport/core/connection.h"
#include "transport/core/peer_socket.h"
#include "transport/core/ring_memory.h"
#include "transport/verbs/queue_pair.h"
#include "transport/verbs/registrations.h"
#include "transport/verbs/verbs_frame.h"

namespace eccl::transport::verbs {

/// The lane's ring is private memory, which the device knows; the path moves messages from the sender's to the
/// receiver's. Short ones go in one SEND. Longer ones are written: to where the receiver wants them, if it has
/// said so in time (a *grant*: an offer of memory that is registered, by the user or for a call), else to the
/// place of their slot; a SEND with the frame follows. Messages in memory that the user has registered are
/// written from there.
///
/// Owner: the Connection. Threads: the driver's. Failure: a work request that fails, a lost port, a peer that
/// is gone, or a frame that cannot be, is told to `onBroken` once; the peer's poison word in the ring is set,
/// and the queue pair stopped.
///
/// Of several queue pairs the first has all short messages, and what is no message. Long ones go over all in
/// turn, each with its frame behind it, so the receiver may see them in another order.
class VerbsPath : public Path {
 public:
  /// What an end is made of.
  struct Wiring {
    Adapter* adapter = nullptr;
    Registrations* registrations = nullptr;
    RingMemory memory;  ///< that the ring is in
    MemoryHandle ring;  ///< what of it the device knows
    std::vector<std::unique_ptr<QueuePair>> queues;
    const TransportContext* context = nullptr;
    Stream socket;  ///< whose end says that the peer is gone
    std::function<void(const Breakage& why)> onBroken;
    std::function<void()> onWantsMore;  ///< Opening's; sender
  };
  /// Begins; needed before anything else. Error: the socket cannot be watched, or what has come already breaks
  /// the connection, which is not told to onBroken then. Not logged.
  Status start();
  const char* name() const override { return "verbs"; }
  bool polls() const override { return true; }
  bool pollsMemory() const override { return true; }
  bool grants() const override { return true; }
  void poll() override { adapter_.completions().poll(); }
  void beforeSleep() override { adapter_.completions().arm(); }
  LinkReport link() const override;
  std::vector<DeviceFlow> deviceFlows() const override;
  Status moveDeviceFlow(size_t flow, uint16_t port) override { return queues_[flow]->goFromPort(port); }
  void poison() override;
  void closeAfterFork() override;
  /// See QueueUser.
  virtual void onFrame(const std::byte* bytes, uint32_t length) = 0;
  virtual void onSent(size_t queue, uint64_t tag) = 0;

 protected:
  /// `peerPoison`: the word by which this side's lanes see that the peer has failed.
  VerbsPath(Wiring wiring, uint32_t* peerPoison);

  bool live() const { return !ended_; }
  size_t queues() const { return queues_.size(); }
  QueuePair& queue(size_t number = 0) const { return *queues_[number]; }
  uint32_t ringKey() const { return ring_->lkey; }
  const Registrations& registrations() const { return registrations_; }
  /// A message of `length` bytes is sent: the first that is long enough for its way to count is told, if there
  /// are flows whose way can be chosen.
  void noteLong(uint32_t length) {
    if (length <= partBytes_ || !onWantsMore_) return;
    const auto tell = std::exchange(onWantsMore_, nullptr);
    if (!deviceFlows().empty()) tell();
  }
  /// The connection is broken: see Failure. Nothing happens if it has ended already.
  void breakOff(const Breakage& why);
  /// Breaks the connection: what the peer has sent cannot be.
  void refuse(const std::string& what);
  /// The device uses no memory any more that messages refer to.
  virtual void letGo() = 0;
  /// The peer has said that it failed.
  void onPeerPoison();

 private:
  /// What is told of one queue pair.
  struct Line final : QueueUser {
    Line(VerbsPath& its, size_t itsNumber) : path(its), number(itsNumber) {}
    void onFrame(const std::byte* bytes, uint32_t length) override { path.onFrame(bytes, length); }
    void onSent(uint64_t tag) override { path.onSent(number, tag); }
    void onFailure(const std::string& why) override { path.breakOff(why); }
    VerbsPath& path;
    const size_t number;
  };
  void stopQueues();
  void onPeerGone();
  /// Nothing is sent or taken any more, and the peer sees that. False: it has ended before.
  bool end();

  System& system_;
  Adapter& adapter_;
  Registrations& registrations_;
  // In the order in which they have to outlive each other.
  RingMemory memory_;
  MemoryHandle ring_;
  std::vector<std::unique_ptr<QueuePair>> queues_;
  std::vector<Line> lines_;  // by queue pair
  PeerSocket socket_;
  const std::function<void(const Breakage&)> onBroken_;
  std::function<void()> onWantsMore_;  // until it has been called
  const uint32_t partBytes_;
  uint32_t* const peerPoison_;
  bool ended_ = false, starting_ = false;
  std::string fault_;  // why it is broken, found while it is started
};

}  // namespace eccl::transport::verbs
