// The socket over which a connection was set up, kept to notice that the peer is gone.
#pragma once

#include <functional>

#include "transport/core/reactor.h"
#include "transport/net/stream.h"

namespace eccl::transport {

/// For paths that send their messages by other means. Nothing is to come over the socket any more: whatever
/// makes it ready is its end. Owner: the path. Threads: the driver's. Failure: a socket that cannot be watched
/// is an error of open().
class PeerSocket final : public ReadyHandler {
 public:
  PeerSocket(Stream socket, Reactor& reactor, std::function<void()> onEnd)
      : socket_(std::move(socket)), reactor_(reactor), onEnd_(std::move(onEnd)) {}
  ~PeerSocket() override { close(); }
  PeerSocket(const PeerSocket&) = delete;
  /// Begins to watch. Error: see Reactor::watch(). Not logged.
  Status open() { return reactor_.watch(socket_.get(), EPOLLIN, this); }
  /// The peer sees the end; this side watches no more.
  void close() {
    if (!socket_) return;
    reactor_.forget(socket_.get(), this);
    socket_ = Stream();
  }
  void onReady(uint32_t) override {
    reactor_.forget(socket_.get(), this);
    onEnd_();
  }
  /// In a forked child.
  void closeAfterFork() { socket_ = Stream(); }

 private:
  Stream socket_;
  Reactor& reactor_;
  const std::function<void()> onEnd_;
};

}  // namespace eccl::transport
