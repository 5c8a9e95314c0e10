// What both ends of a TCP connection share: the socket, its watch, and how it breaks.
#pragma once

#include <sys/uio.h>

#include <functional>
#include <string>

#include "transport/core/connection.h"
#include "transport/core/reactor.h"
#include "transport/core/ring_memory.h"
#include "transport/net/fd.h"

namespace eccl::transport {

/// One socket per connection. The lane's ring is private memory; the path moves messages between ring and
/// socket, in onReady(), poll() and kick(), never waiting. A socket call that moves less than asked counts as
/// "not ready": the reactor calls again, and no system call is spent on hearing EAGAIN.
///
/// Owner: the Connection. Threads: the driver's. Failure: a broken socket, or a frame that cannot be, is told
/// to `onBroken` once; the peer's poison word in the ring is set, so that lanes see it, and the socket closed.
class TcpPath : public Path, protected ReadyHandler {
 public:
  /// What an end is made of. It takes the socket, and keeps the memory that the ring is in.
  struct Wiring {
    Fd socket;
    Reactor* reactor = nullptr;
    RingMemory memory;
    /// Called last in whatever found the break; may poison this path, not destroy it.
    std::function<void(const std::string& reason)> onBroken;
    size_t bytesPerCall = SIZE_MAX;  ///< for tests: at most this many bytes per socket call
  };
  ~TcpPath() override { shut(); }
  /// Begins to watch the socket; needed before anything else. Error: see Poller. Not logged.
  Status open() { return reactor_->watch(socket_.get(), watched_ = EPOLLIN, this); }
  const char* name() const override { return "tcp"; }
  bool polls() const override { return true; }
  void closeAfterFork() override { socket_.reset(); }

 protected:
  /// `peerPoison`: the word by which this side's lanes see that the peer has failed.
  TcpPath(Wiring wiring, uint32_t* peerPoison);

  bool live() const { return socket_ && !poisoned_; }
  /// Bytes moved, 0: not now, -1: broken, errno says why. The parts are cut to what one call may move.
  ssize_t send(iovec* parts, int count);
  /// Bytes moved, 0: not now or broken (and told).
  size_t receive(iovec* parts, int count);
  /// Awaits EPOLLIN, with or without EPOLLOUT, from now on.
  void watchFor(uint32_t events);
  /// The connection is broken: see Failure. Nothing happens if it is closed or poisoned already.
  void breakOff(const std::string& reason);
  /// The peer has said that it failed; what the socket does from now on is no news.
  void onPeerPoison();
  /// This side has failed. What was written is still delivered; nothing is read or written any more.
  void finish();

 private:
  void shut();

  Fd socket_;
  Reactor* const reactor_;
  const RingMemory memory_;
  const std::function<void(const std::string&)> onBroken_;
  const size_t bytesPerCall_;
  uint32_t* const peerPoison_;
  uint32_t watched_ = 0;
  bool poisoned_ = false;
};

}  // namespace eccl::transport
