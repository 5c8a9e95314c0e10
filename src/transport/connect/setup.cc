// Messages of a set-up on a socket: a header of fixed size, the content, and descriptors beside them.
#include "transport/connect/setup.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace eccl::transport {
namespace {

constexpr size_t kControlBytes = CMSG_SPACE(SetupData::kMaxDescriptors * sizeof(int));

void putText(char* to, size_t size, const std::string& text) {
  text.copy(to, size - 1);
}

// It goes into logs.
std::string takeText(const char* from, size_t size) {
  std::string text(from, strnlen(from, size));
  for (char& c : text) {
    if (c < 0x20 || c > 0x7e) c = '?';
  }
  return text;
}

}  // namespace

// FNV-1a, folded.
uint16_t transportId(std::string_view name) {
  uint32_t hash = 2166136261u;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619u;
  return static_cast<uint16_t>((hash ^ (hash >> 16)) % (kFurtherSocket - 1) + 1);
}

SetupMessage saying(SetupKind kind, const std::string& why) {
  SetupMessage message;
  message.kind = kind;
  message.why = why;
  return message;
}

Status SetupSocket::send(SetupMessage message) {
  if (torn_) return Status::error(Code::system, "the socket took half an answer");
  SetupData& data = message.data;
  std::vector<int> list;
  for (const Fd& fd : data.descriptors) list.push_back(fd.get());
  list.insert(list.end(), data.lent.begin(), data.lent.end());
  if (list.size() > SetupData::kMaxDescriptors || data.bytes.size() > SetupData::kMaxBytes)
    return Status::error(Code::internal, "a transport has more to say than a message holds; please report it");
  Header header;
  header.kind = message.kind;
  header.bytes = static_cast<uint32_t>(data.bytes.size());
  header.milliseconds = message.milliseconds;
  header.last = message.last ? 1 : 0;
  putText(header.transport, sizeof header.transport, message.transport);
  putText(header.why, sizeof header.why, message.why);
  iovec parts[] = {{&header, sizeof header}, {data.bytes.data(), data.bytes.size()}};
  alignas(cmsghdr) char control[kControlBytes] = {};
  msghdr envelope{};
  envelope.msg_iov = parts;
  envelope.msg_iovlen = 2;
  if (!list.empty()) {
    envelope.msg_control = control;
    envelope.msg_controllen = CMSG_SPACE(list.size() * sizeof(int));
    cmsghdr* rights = CMSG_FIRSTHDR(&envelope);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(list.size() * sizeof(int));
    std::memcpy(CMSG_DATA(rights), list.data(), list.size() * sizeof(int));
  }
  const ssize_t sent = socket_.send(envelope);
  // An encrypted stream has prepared what it did not send, and would send that first.
  torn_ =
      sent < 0 ? socket_.cipher() != nullptr : static_cast<size_t>(sent) < sizeof header + data.bytes.size();
  // More of this user's descriptors are in messages that nobody has read than one process may have.
  if (sent < 0 && errno == ETOOMANYREFS) lostDescriptors_ = true;
  if (sent < 0) return Status::fromErrno(errno, "cannot answer");
  if (torn_) return Status::error(Code::system, "the socket took half an answer");
  return {};
}

// Reads up to `bytes` and the descriptors that come with them. True: all of the bytes are there.
Result<bool> SetupSocket::fill(void* to, size_t bytes) {
  iovec part{to, bytes};
  alignas(cmsghdr) char control[kControlBytes];
  msghdr envelope{};
  envelope.msg_iov = &part;
  envelope.msg_iovlen = 1;
  envelope.msg_control = control;
  envelope.msg_controllen = sizeof control;
  const ssize_t got = socket_.receive(envelope);
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return false;
  if (got < 0) return Status::fromErrno(errno, "the connection broke while being set up");
  for (cmsghdr* each = CMSG_FIRSTHDR(&envelope); each != nullptr; each = CMSG_NXTHDR(&envelope, each)) {
    if (each->cmsg_level != SOL_SOCKET || each->cmsg_type != SCM_RIGHTS) continue;
    for (size_t at = CMSG_LEN(0); at + sizeof(int) <= each->cmsg_len; at += sizeof(int)) {
      int fd;
      std::memcpy(&fd, reinterpret_cast<char*>(each) + at, sizeof fd);
      data_.descriptors.emplace_back(fd, socket_.system());
    }
  }
  if ((envelope.msg_flags & MSG_CTRUNC) != 0) lostDescriptors_ = true;
  if (data_.descriptors.size() > SetupData::kMaxDescriptors)
    return Status::error(Code::remote, "the peer sent more descriptors than a message may carry");
  if (got == 0) return Status::error(Code::remote, "the peer hung up while the connection was being set up");
  got_ += static_cast<size_t>(got);
  return static_cast<size_t>(got) == bytes;
}

// Asks for no byte beyond the message: what follows on the socket belongs to the path.
Result<std::optional<SetupMessage>> SetupSocket::receive() {
  if (got_ < sizeof header_) {
    ECCL_ASSIGN(const bool whole, fill(reinterpret_cast<std::byte*>(&header_) + got_, sizeof header_ - got_));
    if (!whole) return std::optional<SetupMessage>();
    if (header_.magic != kWireMagic || header_.bytes > SetupData::kMaxBytes)
      return Status::error(Code::remote, "the peer sent garbage");
    data_.bytes.resize(header_.bytes);
  }
  const size_t at = got_ - sizeof header_;
  if (at < data_.bytes.size()) {
    ECCL_ASSIGN(const bool whole, fill(data_.bytes.data() + at, data_.bytes.size() - at));
    if (!whole) return std::optional<SetupMessage>();
  }
  got_ = 0;
  SetupMessage message = saying(header_.kind, takeText(header_.why, sizeof header_.why));
  message.milliseconds = header_.milliseconds;
  message.last = header_.last != 0;
  message.transport = takeText(header_.transport, sizeof header_.transport);
  message.data = std::exchange(data_, {});
  return std::optional<SetupMessage>(std::move(message));
}

}  // namespace eccl::transport
