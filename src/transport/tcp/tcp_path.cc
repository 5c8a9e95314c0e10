#include "transport/tcp/tcp_path.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace eccl::transport {
namespace {

// Shortens the parts to `most` bytes in all.
msghdr cut(iovec* parts, int count, size_t most) {
  msghdr message{};
  message.msg_iov = parts;
  for (int i = 0; i < count && most > 0; ++i) {
    parts[i].iov_len = std::min(parts[i].iov_len, most);
    most -= parts[i].iov_len;
    ++message.msg_iovlen;
  }
  return message;
}

bool isTransient(int error) {
  return error == EAGAIN || error == EWOULDBLOCK || error == EINTR;
}

}  // namespace

TcpPath::TcpPath(Wiring wiring, uint32_t* peerPoison)
    : socket_(std::move(wiring.socket)),
      reactor_(wiring.reactor),
      memory_(std::move(wiring.memory)),
      onBroken_(std::move(wiring.onBroken)),
      bytesPerCall_(wiring.bytesPerCall),
      peerPoison_(peerPoison) {}

ssize_t TcpPath::send(iovec* parts, int count) {
  const msghdr message = cut(parts, count, bytesPerCall_);
  const ssize_t sent = socket_.system().sendmsg(socket_.get(), &message);
  return sent < 0 && isTransient(errno) ? 0 : sent;
}

size_t TcpPath::receive(iovec* parts, int count) {
  msghdr message = cut(parts, count, bytesPerCall_);
  const ssize_t got = socket_.system().recvmsg(socket_.get(), &message, 0);
  if (got > 0) return static_cast<size_t>(got);
  if (got == 0)
    breakOff("the peer closed the connection");
  else if (!isTransient(errno))
    breakOff(format("receiving from it failed: %s", std::strerror(errno)));
  return 0;
}

void TcpPath::watchFor(uint32_t events) {
  if (events == watched_ || !live()) return;
  watched_ = events;
  if (Status status = reactor_->watch(socket_.get(), events, this); !status.ok()) breakOff(status.message());
}

void TcpPath::breakOff(const std::string& reason) {
  if (!live()) return;
  storeRelease(peerPoison_, 1u);
  shut();
  onBroken_(reason);
}

void TcpPath::onPeerPoison() {
  storeRelease(peerPoison_, 1u);
  shut();
}

void TcpPath::finish() {
  if (!live()) return;
  poisoned_ = true;
  reactor_->forget(socket_.get(), this);
  // Not closed yet: closing with unread bytes would reset the connection and take the last words with it.
  socket_.system().shutdown(socket_.get(), SHUT_WR);
}

void TcpPath::shut() {
  if (!socket_) return;
  reactor_->forget(socket_.get(), this);
  socket_.reset();
}

}  // namespace eccl::transport
