#include "transport/net/stream.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace eccl::transport {
namespace {

/// Shortens the parts to `most` bytes in all.
void cut(msghdr& message, size_t most) {
  size_t count = 0;
  for (; count < message.msg_iovlen && most > 0; ++count) {
    iovec& part = message.msg_iov[count];
    part.iov_len = std::min(part.iov_len, most);
    most -= part.iov_len;
  }
  message.msg_iovlen = count;
}

}  // namespace

ssize_t Stream::send(msghdr& message) {
  if (tls_ != nullptr) return tls_->send(message.msg_iov, message.msg_iovlen);
  if (most_ != SIZE_MAX) cut(message, most_);
  return system().sendmsg(get(), &message);
}

ssize_t Stream::receive(msghdr& message) {
  if (tls_ != nullptr) {
    message.msg_controllen = 0;
    return tls_->receive(message.msg_iov, message.msg_iovlen);
  }
  if (most_ != SIZE_MAX) cut(message, most_);
  return system().recvmsg(get(), &message, 0);
}

ssize_t Stream::send(const void* from, size_t count) {
  iovec part{const_cast<void*>(from), count};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  return send(message);
}

ssize_t Stream::receive(void* to, size_t count) {
  iovec part{to, count};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  return receive(message);
}

std::string describeError(int error) {
  if (error == EBADMSG)
    return "what came is not what the peer has sent: something on the way changes or injects data";
  return std::strerror(error);
}

}  // namespace eccl::transport
