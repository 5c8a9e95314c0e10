// A connected stream socket, plain or encrypted.
#pragma once

#include <sys/socket.h>
#include <sys/uio.h>

#include <memory>
#include <string>

#include "transport/net/fd.h"
#include "transport/net/tls.h"

namespace eccl::transport {

/// Owns the socket. Empty by default and after a move. send() and receive() never wait; everything else
/// (watching, options, shutdown, peeking for the end) is done on fd(). Threads: one at a time.
class Stream {
 public:
  Stream() = default;
  /// A plain one.
  Stream(Fd socket) : fd_(std::move(socket)) {}  // implicit: every socket is a stream
  Stream(Fd socket, std::unique_ptr<Tls> tls) : fd_(std::move(socket)), tls_(std::move(tls)) {}

  const Fd& fd() const { return fd_; }
  int get() const { return fd_.get(); }
  System& system() const { return fd_.system(); }
  explicit operator bool() const { return static_cast<bool>(fd_); }
  /// The socket of a plain stream.
  Fd takeFd() { return std::move(fd_); }
  void reset() {
    tls_.reset();
    fd_.reset();
  }

  /// Bytes that went, or -1 and errno. Fewer than asked: the socket takes no more now, and the next call has to
  /// begin with the bytes that did not go: an encrypted stream has prepared them. The parts are changed. Beside
  /// a plain stream's bytes go what System::sendmsg() allows.
  ssize_t send(msghdr& message);
  ssize_t send(const void* from, size_t count);
  /// Bytes that came, 0 at the end, or -1 and errno. Fewer than asked: there is no more now. errno EBADMSG:
  /// what came is not what the peer has sent. The parts are changed.
  ssize_t receive(msghdr& message);
  ssize_t receive(void* to, size_t count);
  /// Bytes that have left the socket may not have been received: whoever stops before a receive() that brings
  /// fewer than asked has to come back without being told by a descriptor. Never true for a plain one.
  bool pending() const { return tls_ != nullptr && tls_->pending(); }
  /// From now on receive() may take out of the socket more than what is asked for, which saves calls.
  void readAhead() {
    if (tls_ != nullptr) tls_->readAhead();
  }
  /// For tests: at most so many bytes per call of the socket.
  void limitCalls(size_t bytes) {
    most_ = bytes;
    if (tls_ != nullptr) tls_->limitCalls(bytes);
  }
  /// How it is encrypted, "TLS_AES_128_GCM_SHA256"; nullptr: it is not.
  const char* cipher() const { return tls_ != nullptr ? tls_->cipher() : nullptr; }

 private:
  Fd fd_;
  std::unique_ptr<Tls> tls_;
  size_t most_ = SIZE_MAX;
};

/// What an errno of send() or receive() means, for messages.
std::string describeError(int error);

}  // namespace eccl::transport
