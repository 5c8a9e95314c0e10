#include "transport/connect/setup.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>

namespace eccl::transport {
namespace {
constexpr size_t kMaxFds = 3;
}

SetupMessage saying(SetupKind kind, const std::string& why) {
  SetupMessage message;
  message.kind = kind;
  why.copy(message.why, sizeof message.why - 1);
  return message;
}

Status SetupSocket::send(const SetupMessage& message, std::span<const int> list) {
  iovec part{const_cast<SetupMessage*>(&message), sizeof message};
  alignas(cmsghdr) char control[CMSG_SPACE(kMaxFds * sizeof(int))] = {};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  if (list.size() > 0) {
    header.msg_control = control;
    header.msg_controllen = CMSG_SPACE(list.size() * sizeof(int));
    cmsghdr* rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(list.size() * sizeof(int));
    std::memcpy(CMSG_DATA(rights), list.data(), list.size() * sizeof(int));
  }
  const ssize_t sent = sendmsg(socket_.get(), &header, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent < 0) return Status::fromErrno(errno, "cannot answer");
  if (static_cast<size_t>(sent) < sizeof message)
    return Status::error(Code::system, "the socket took half an answer");
  return {};
}

// Asks for no byte beyond the message: what follows on TCP belongs to the path.
Result<std::optional<SetupMessage>> SetupSocket::receive() {
  iovec part{reinterpret_cast<std::byte*>(&incoming_) + got_, sizeof incoming_ - got_};
  alignas(cmsghdr) char control[CMSG_SPACE(kMaxFds * sizeof(int))];
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof control;
  const ssize_t got = recvmsg(socket_.get(), &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
    return std::optional<SetupMessage>();
  if (got < 0) return Status::fromErrno(errno, "the connection broke while being set up");
  for (cmsghdr* each = CMSG_FIRSTHDR(&header); each != nullptr; each = CMSG_NXTHDR(&header, each)) {
    if (each->cmsg_level != SOL_SOCKET || each->cmsg_type != SCM_RIGHTS) continue;
    for (size_t at = CMSG_LEN(0); at + sizeof(int) <= each->cmsg_len; at += sizeof(int)) {
      int fd;
      std::memcpy(&fd, reinterpret_cast<char*>(each) + at, sizeof fd);
      fds.emplace_back(fd);
    }
  }
  if ((header.msg_flags & MSG_CTRUNC) != 0) lostDescriptors = true;
  if (got == 0) return Status::error(Code::remote, "the peer hung up while the connection was being set up");
  got_ += static_cast<size_t>(got);
  if (got_ < sizeof incoming_) return std::optional<SetupMessage>();
  got_ = 0;
  if (incoming_.magic != kWireMagic) return Status::error(Code::remote, "the peer sent garbage");
  incoming_.why[sizeof incoming_.why - 1] = '\0';
  for (char& c : incoming_.why) {
    if (c != '\0' && (c < 0x20 || c > 0x7e)) c = '?';  // it goes into logs
  }
  return std::optional<SetupMessage>(incoming_);
}

}  // namespace eccl::transport
