// What both ends of a TCP connection share: its sockets, their watch, and how the connection breaks.
#pragma once

#include <sys/uio.h>

#include <deque>
#include <functional>
#include <string>

#include "transport/core/connection.h"
#include "transport/core/reactor.h"
#include "transport/core/ring_memory.h"
#include "transport/net/socket_ends.h"
#include "transport/net/stream.h"

namespace eccl::transport {

class TcpReceiver;
class TcpSender;
struct MessageFrame;

/// The ends of twins (see TcpPath) at one rank, as far as they are there.
struct Twins {
  TcpSender* sender = nullptr;
  TcpReceiver* receiver = nullptr;
};

/// The lane's ring is private memory; the path moves messages between ring and sockets, in onReady(), poll()
/// and kick(), never waiting. A socket call that moves less than asked counts as "not ready": the reactor calls
/// again, and no system call is spent on hearing EAGAIN.
///
/// A connection begins with the socket over which it was set up, its first *subflow* (the term of RFC 8684).
/// Others may join at any time, over other rails or other ways through the fabric. Long messages are cut into
/// parts that travel over all of them; short ones, and credits, over the first. So only the receiver puts
/// messages in order.
///
/// *Twins* are the two connections of a pair of ranks, one each way, of the same channel and tag. The first
/// socket of the one from the lower rank carries messages of one packet both ways, and each message with it a
/// credit for the other way. So acknowledgements and credits travel with the messages that ranks exchange. Over
/// a socket that carries data one way only they are packets of their own, and take as long.
///
/// Owner: the Connection. Threads: the driver's. Failure: a broken socket, or a frame that cannot be, is told
/// to `onBroken` once; the peer's poison word in the ring is set, so that lanes see it, and all sockets are
/// closed. But a connection goes on without a socket that is not its first. The sender decides that one is
/// lost: it tells the receiver so over the first, and sends again what went over the other and is not released.
/// The receiver drops what has come.
class TcpPath : public Path {
 public:
  /// What an end is made of. It takes the socket, and keeps the memory that the ring is in.
  struct Wiring {
    Stream socket;
    std::shared_ptr<Twins> twins = std::make_shared<Twins>();  ///< shared with the twin's end at this rank
    bool fromLower = false;                                    ///< the sender's rank is the lower one
    Reactor* reactor = nullptr;
    RingMemory memory;
    /// Called last in whatever found the break; may poison this path, not destroy it.
    std::function<void(const Breakage& why)> onBroken;
    std::function<void()> onWantsMore;                                                 ///< Opening's; sender
    std::function<void(const SocketEnds& ends, const std::string& why)> onSocketLost;  ///< Opening's; sender
    uint32_t partBytes = 32 << 10;   ///< TransportContext's; sender
    size_t bytesPerCall = SIZE_MAX;  ///< for tests: at most this many bytes per socket call
  };
  ~TcpPath() override { shut(); }
  /// Begins to watch the first socket; needed before anything else. Error: see Poller. Not logged.
  Status open() { return addSocket(std::move(first_)); }
  Status addSocket(Stream socket) final;
  std::string checkSockets(const std::function<std::string(const SocketAddress& mine)>& downAt) override;
  std::vector<SocketReport> sockets() const override;
  const char* name() const override { return "tcp"; }
  bool polls() const override { return true; }
  void closeAfterFork() override;

  // For this end and its twin.

  bool live() const { return open_ && !poisoned_; }
  /// Bytes moved, 0: not now, -1: broken, errno says why. The parts are changed.
  ssize_t send(size_t subflow, iovec* parts, int count);
  static constexpr ssize_t kClosed = -2;
  /// Sends of a frame the last *left bytes, and takes those that went off it. False: broken, errno says why.
  bool sendRest(size_t subflow, const MessageFrame& frame, size_t* left);
  /// Bytes moved; 0: not now; less: broken, *why says how; kClosed: by the peer. Where that is no loss of a
  /// rail the connection is broken off.
  ssize_t receive(size_t subflow, iovec* parts, int count, Breakage* why);
  /// Something may have come that no event tells of: see Stream::pending().
  bool pending(size_t subflow) const { return subflows_[subflow].socket.pending(); }

 protected:
  /// `peerPoison`: the word by which this side's lanes see that the peer has failed.
  TcpPath(Wiring wiring, uint32_t* peerPoison);

  /// One socket is ready. `events` as ReadyHandler's.
  virtual void onReady(size_t subflow, uint32_t events) = 0;
  /// A socket has joined: a new number, or that of one that was closed.
  virtual void joined(size_t subflow) = 0;
  /// One that is not the first is of no use any more, as far as is seen here.
  virtual void giveUp(size_t subflow, const std::string& why) = 0;

  const std::shared_ptr<Twins> twins_;
  const bool fromLower_;  // Wiring's

  /// Over several sockets, a message travels in parts of so many bytes.
  uint32_t partBytes() const { return partBytes_; }
  /// Their numbers are below this; those of closed ones are free until others join.
  size_t subflows() const { return subflows_.size(); }
  bool isOpen(size_t subflow) const { return subflow < subflows() && subflows_[subflow].socket; }
  bool isAside(size_t subflow) const { return subflows_[subflow].aside(); }
  /// As they were when it joined: the kernel forgets those of a socket that was reset.
  const SocketEnds& endsOfSubflow(size_t subflow) const { return subflows_[subflow].ends; }
  SocketReport reportOfSubflow(size_t subflow) const { return reportOf(subflows_[subflow].socket); }
  /// Bytes that wait in a socket, unsent or not acknowledged; 0 where the kernel does not say.
  uint64_t loadOf(size_t subflow) const;
  /// Of several sockets, one that is needed no more; not the first.
  void close(size_t subflow);
  /// The same at once: the kernel forgets what waits in it.
  void reset(size_t subflow);
  /// Of several sockets, one that has ended, as all do when the peer leaves or dies: it is not looked at any
  /// more. What is still to come over the others counts; if nothing comes, the sender gives it up.
  void setAside(size_t subflow, const std::string& why);
  /// Awaits EPOLLIN, with or without EPOLLOUT, from now on.
  void watchFor(size_t subflow, uint32_t events);
  /// There are messages worth spreading. Only the first call counts.
  void wantMoreSockets() {
    if (onWantsMore_) std::exchange(onWantsMore_, nullptr)();
  }
  /// What a rail that is lost, or a peer that has ended, makes of a socket.
  static bool isLoss(int error);
  void socketLost(const SocketEnds& ends, const std::string& why) {
    if (onSocketLost_) onSocketLost_(ends, why);
  }
  /// The connection is broken: see Failure. Nothing happens if it is closed or poisoned already.
  void breakOff(const Breakage& why);
  /// The same, where one socket broke: of several it is named.
  void breakOff(size_t subflow, const Breakage& why);
  /// The peer has said that it failed; what the sockets do from now on is no news.
  void onPeerPoison();
  /// This side has failed. What was written is still delivered; nothing is read or written any more.
  void finish();

 private:
  struct Subflow final : public ReadyHandler {
    Subflow(TcpPath* owner, size_t at) : path(owner), number(at) {}
    bool aside() const { return asideFor > 0; }
    void onReady(uint32_t events) override { path->onReady(number, events); }
    TcpPath* const path;
    const size_t number;
    Stream socket;  // empty: closed
    SocketEnds ends;
    uint32_t watched = 0;
    int asideFor = 0;  // 1 and calls of checkSockets() since; 0: it is not
    std::string asideWhy;
  };
  void shut();
  std::string troubleWith(size_t subflow, const std::function<std::string(const SocketAddress& mine)>& downAt);
  std::string nameOf(size_t subflow) const;

  Stream first_;  // until open()
  Reactor* const reactor_;
  const RingMemory memory_;
  const std::function<void(const Breakage&)> onBroken_;
  std::function<void()> onWantsMore_;  // until it has been called
  const std::function<void(const SocketEnds&, const std::string&)> onSocketLost_;
  const uint32_t partBytes_;
  const size_t bytesPerCall_;
  uint32_t* const peerPoison_;
  std::deque<Subflow> subflows_;
  std::vector<SocketReport> last_;    // of the sockets, when they were closed by a break
  std::vector<SocketReport> closed_;  // sums over those closed before, by the hosts' addresses; ports are 0
  bool several_ = false;              // it has, or had
  bool open_ = false;
  bool poisoned_ = false;
};

}  // namespace eccl::transport
