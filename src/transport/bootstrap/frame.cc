#include "transport/bootstrap/frame.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "transport/net/bytes.h"

namespace eccl::transport {

std::shared_ptr<const std::string> Frame::encode() const {
  FrameHeader out = header;
  out.size = static_cast<uint32_t>(body.size());
  auto bytes = std::make_shared<std::string>(bytesOf(out));
  bytes->append(body);
  return bytes;
}

Result<std::optional<Frame>> Frame::take(std::string_view& bytes) {
  if (bytes.size() < sizeof(FrameHeader)) return std::optional<Frame>();
  Frame frame;
  std::memcpy(&frame.header, bytes.data(), sizeof frame.header);
  const FrameHeader& header = frame.header;
  if (header.type < FrameType::join || header.type > FrameType::later || header.zero != 0 ||
      header.size > kMaxBody || header.origin < 0 || header.target < 0) {
    return Status::error(Code::remote, "sent a malformed frame (type %u, %u bytes)",
                         static_cast<unsigned>(header.type), header.size);
  }
  // Nothing is allocated for what is merely announced: memory grows with what has arrived.
  if (bytes.size() - sizeof header < header.size) return std::optional<Frame>();
  frame.body = bytes.substr(sizeof header, header.size);
  bytes.remove_prefix(sizeof header + header.size);
  return std::optional<Frame>(std::move(frame));
}

void FrameSocket::queue(std::shared_ptr<const std::string> encoded) {
  queuedBytes_ += encoded->size();
  queue_.push_back(std::move(encoded));
}

Status FrameSocket::flush() {
  while (!queue_.empty()) {
    const std::string& first = *queue_.front();
    const ssize_t sent = socket_.send(first.data() + sentOfFirst_, first.size() - sentOfFirst_);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      if (queuedBytes_ <= kMaxQueued) return {};
      return Status::error(Code::remote, "has stopped reading: %zu MiB wait for it", queuedBytes_ >> 20);
    }
    if (sent < 0) {
      // The peer may have said why before it closed: reading goes on to the end, which this shutdown makes sure
      // of.
      queue_.clear();
      queuedBytes_ = sentOfFirst_ = 0;
      socket_.system().shutdown(socket_.get(), SHUT_RDWR);
      return {};
    }
    sentOfFirst_ += static_cast<size_t>(sent);
    if (sentOfFirst_ < first.size()) continue;
    queuedBytes_ -= first.size();
    sentOfFirst_ = 0;
    queue_.pop_front();
  }
  return {};
}

// The peer sees the end behind the last frame, while this side goes on reading.
void FrameSocket::finishSending() {
  socket_.system().shutdown(socket_.get(), SHUT_WR);
}

Status FrameSocket::receive(const std::function<Result<bool>(Frame&&)>& onFrame, bool* ended) {
  char chunk[64u << 10];
  Status broken;
  for (int reads = 0; reads < 16 || socket_.pending();
       ++reads) {  // bounded: other sockets and the heartbeat wait
    const ssize_t count = socket_.receive(chunk, sizeof chunk);
    if (count < 0 && errno == EINTR) continue;
    if (count == 0) *ended = true;
    if (count < 0 && errno != EAGAIN && errno != EWOULDBLOCK) {
      broken = Status::error(Code::remote, "connection broken (%s)", describeError(errno).c_str());
    }
    if (count <= 0) break;
    input_.append(chunk, static_cast<size_t>(count));
    if (static_cast<size_t>(count) < sizeof chunk) break;
  }
  std::string_view rest = input_;
  while (true) {
    ECCL_ASSIGN(std::optional<Frame> frame, Frame::take(rest));
    if (!frame) break;
    ECCL_ASSIGN(const bool more, onFrame(std::move(*frame)));
    if (!more) return {};
  }
  input_.erase(0, input_.size() - rest.size());
  return broken;  // only after what had arrived before
}

}  // namespace eccl::transport
