#include "transport/tcp/tcp_sender.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "transport/tcp/tcp_receiver.h"

namespace eccl::transport {
namespace {

/// Messages up to this length, with their frame, are one packet of Ethernet. From two packets on the receiver
/// acknowledges at once, so that nothing is gained where acknowledgements could travel with messages.
constexpr uint32_t kOnePacket = 1024;

// Leaves out the first `bytes` bytes.
void skip(iovec* parts, size_t bytes) {
  for (; bytes > 0; ++parts) {
    const size_t here = std::min(bytes, parts->iov_len);
    parts->iov_base = static_cast<std::byte*>(parts->iov_base) + here;
    parts->iov_len -= here;
    bytes -= here;
  }
}

}  // namespace

/// Whether there is something to send, and a socket that may take it.
bool TcpSender::canSend() const {
  const auto can = [this](const Outbox& box) {
    const bool takes = !box.leftOut && (box.takesLong || &box == &outboxes_[0] || &box == &ride_);
    return !box.blocked && (box.count > 0 || (takes && message_ != end_.next));
  };
  return std::any_of(outboxes_.begin(), outboxes_.end(), can) ||
         (rides() && !outboxes_[0].leftOut && can(ride_));
}

void TcpSender::kick() {
  if (live() && canSend()) sendMessages();
}

// Credits that nothing waits for stay in the socket, unless it carries messages, too.
void TcpSender::poll() {
  if (awaitsReleases(end_)) receiveCredits(0);
}

// Until all is sent or no socket takes more.
void TcpSender::sendMessages() {
  if (!live()) return;
  if (subflows() > 1 && message_ != end_.next) askForLoads();
  do {
    give();
    if (ride_.count > 0 && !ride_.blocked && rides()) sendFrom(ride_, 0);
    for (size_t i = 0; i < subflows() && live(); ++i)
      if (outboxes_[i].count > 0 && !outboxes_[i].blocked) sendFrom(outboxes_[i], i);
    if (!words_.empty() && live()) sendWords();
    // One that was full may have sent all, and the first takes messages again when there are no words.
  } while (live() && message_ != end_.next && chooseFor(end_.slot(message_)->length) != nullptr);
}

// Only for messages that are to be spread.
void TcpSender::askForLoads() {
  if (end_.slot(message_)->length <= partBytes()) return;
  for (size_t i = 0; i < subflows(); ++i)
    if (outboxes_[i].takesLong) outboxes_[i].load = loadOf(i);
}

// Gives parts to sockets that take them.
void TcpSender::give() {
  while (message_ != end_.next) {
    const uint32_t length = end_.slot(message_)->length;
    if (length > partBytes()) wantMoreSockets();
    Outbox* box = chooseFor(length);
    if (box == nullptr) break;
    const uint32_t bytes = subflows() == 1 ? length - offset_ : std::min(partBytes(), length - offset_);
    TcpReceiver* const twin = twins_->receiver;
    const bool tells = twin != nullptr && box == (fromLower_ ? &outboxes_[0] : &ride_);
    box->parts[box->count++] = {message_, offset_, bytes, tells ? twin->tell() : 0, tells};
    box->load += bytes;
    box->given += bytes;
    offset_ += bytes;
    if (offset_ == length) {
      ++message_;
      offset_ = 0;
    }
  }
}

/// Room for another part; none before words that wait.
bool TcpSender::mayTake(const Outbox& box) const {
  return !box.blocked && box.count < kBatch && (&box != &outboxes_[0] || words_.empty());
}

/// What a short message needs most is to be seen soon: the peer looks at the first socket most often. Of
/// sockets in which about the same waits, the one that has sent the least; both for its share.
TcpSender::Outbox* TcpSender::chooseFor(uint32_t length) {
  Outbox& first = outboxes_[0];  // the twin's goes over the same rails
  if (length <= kOnePacket && rides() && !first.leftOut && !ride_.blocked && ride_.count < kBatch)
    return &ride_;
  const bool isShort = subflows() == 1 || length <= partBytes();
  if (isShort && !first.leftOut && mayTake(first)) return &first;
  const auto before = [this](const Outbox& one, const Outbox& other) {
    const auto parts = [this](const Outbox& box) {
      return static_cast<uint64_t>(static_cast<double>(box.load) / (box.share * partBytes()));
    };
    const uint64_t waits = parts(one), waitsThere = parts(other);
    return waits != waitsThere ? waits < waitsThere : one.given * other.share < other.given * one.share;
  };
  Outbox* best = nullptr;
  for (Outbox& box : outboxes_) {
    const bool takes = box.takesLong && !box.leftOut && mayTake(box);
    if (takes && (best == nullptr || before(box, *best))) best = &box;
  }
  return best;
}

// Headers are made anew for every call: slots keep their content until their credit comes, so a part cut short
// is continued from there.
void TcpSender::sendFrom(Outbox& box, size_t subflow) {
  MessageFrame frames[kBatch];
  iovec parts[2 * kBatch];
  size_t asked = 0;
  for (size_t i = 0; i < box.count; ++i) {
    const Part& part = box.parts[i];
    MessageFrame& frame = frames[i] = frameOf(end_, part.message);
    frame.offset = part.offset;
    frame.bytes = part.bytes;
    frame.released = part.released;
    if (part.tells) frame.flags |= kTells;
    if (subflow > 0) frame.released = box.number;
    parts[2 * i] = {&frames[i], sizeof frames[i]};
    parts[2 * i + 1] = {payloadOf(end_, *end_.slot(part.message)) + part.offset, part.bytes};
    asked += sizeof frames[i] + part.bytes;
  }
  skip(parts, box.partial);
  asked -= box.partial;
  TcpReceiver* const twin = twins_->receiver;
  const bool rides = &box == &ride_;
  const ssize_t sent =
      (rides ? static_cast<TcpPath&>(*twin) : *this).send(subflow, parts, static_cast<int>(2 * box.count));
  if (sent < 0) return rides ? twin->sendingFailed(errno) : sendingFailed(subflow, errno);
  box.partial += static_cast<size_t>(sent);
  size_t whole = 0;
  for (; whole < box.count && box.partial >= sizeof(MessageFrame) + box.parts[whole].bytes; ++whole) {
    const Part& part = box.parts[whole];
    box.partial -= sizeof(MessageFrame) + part.bytes;
    if (subflow > 0) box.sent.add(end_, part.message, part.offset, part.bytes);
  }
  std::copy(box.parts + whole, box.parts + box.count, box.parts);
  box.count -= whole;
  box.blocked = static_cast<size_t>(sent) < asked;
  if (rides)
    twin->watchFirst();
  else
    watchFor(subflow, box.blocked ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

/// Short messages go over the twin's first socket.
bool TcpSender::rides() const {
  return !fromLower_ && twins_->receiver != nullptr && twins_->receiver->carries();
}

void TcpSender::rideOn() {
  ride_.blocked = false;
  if (live()) sendMessages();
}

void TcpSender::sendingFailed(size_t subflow, int error) {
  for (size_t i = 0; i < subflows() && live(); ++i) receiveCredits(i);  // the peer may have said why
  if (!live()) return;
  const Breakage why = Breakage::ofSocket("sending to it", error);
  if (subflow > 0 && isLoss(error)) return lookAway(subflow, why.reason);
  breakOff(subflow, why);
}

void TcpSender::say(const MessageFrame& frame) {
  words_.append(reinterpret_cast<const char*>(&frame), sizeof frame);
}

// Over the first socket, between two parts.
void TcpSender::sendWords() {
  Outbox& box = outboxes_[0];
  if (box.blocked || box.count > 0) return;
  iovec rest{words_.data() + wordsSent_, words_.size() - wordsSent_};
  const ssize_t sent = send(0, &rest, 1);
  if (sent < 0) return sendingFailed(0, errno);
  wordsSent_ += static_cast<size_t>(sent);
  box.blocked = wordsSent_ < words_.size();
  if (!box.blocked) words_.clear(), wordsSent_ = 0;
  watchFor(0, box.blocked ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

void TcpSender::askForReleases() {
  if (!live() || drained() || std::exchange(asks_, true)) return;
  sendMessages();
  say({.sequence = message_, .kind = FrameKind::ask});
  sendMessages();
}

void TcpSender::onReady(size_t subflow, uint32_t events) {
  if ((events & ~EPOLLOUT) != 0) receiveCredits(subflow);
  if (live() && isAside(subflow)) return sendMessages();  // over others
  if ((events & EPOLLOUT) != 0 && live()) {
    Outbox& box = outboxes_[subflow];
    box.blocked = false;
    sendMessages();
    if (!box.blocked) watchFor(subflow, EPOLLIN);
  }
}

// Credits are cumulative and small; one call takes many.
void TcpSender::receiveCredits(size_t subflow) {
  if (!live() || !isOpen(subflow) || isAside(subflow)) return;
  Outbox& box = outboxes_[subflow];
  if (TcpReceiver* const twin = twins_->receiver; subflow == 0 && fromLower_ && twin != nullptr) {
    const std::string_view begun(reinterpret_cast<const char*>(box.credits), std::exchange(box.creditBytes, 0));
    Breakage why;
    if (!twin->receiveOver(*this, begun, &why)) breakOff(0, why);
    return;
  }
  iovec part{reinterpret_cast<std::byte*>(box.credits) + box.creditBytes, sizeof box.credits - box.creditBytes};
  const size_t asked = part.iov_len;
  Breakage why;
  const ssize_t got = receive(subflow, &part, 1, &why);
  // The last credits come over the first socket, and may come later.
  if (got < 0 && subflow > 0) return live() ? lookAway(subflow, why.reason) : void();
  if (got < 0) return breakOff(subflow, why);
  box.creditBytes += static_cast<size_t>(got);
  const size_t count = box.creditBytes / sizeof(MessageFrame);
  for (size_t i = 0; i < count; ++i) {
    // Over the others only poison can come.
    const MessageFrame& frame = box.credits[i];
    if (subflow == 0 || frame.kind == FrameKind::poison ? !take(frame) : !refuse(frame)) return;
  }
  box.creditBytes -= count * sizeof(MessageFrame);
  std::memmove(box.credits, box.credits + count, box.creditBytes);
  if (static_cast<size_t>(got) == asked && pending(subflow)) receiveCredits(subflow);
}

/// The kernel has taken all messages before this one.
uint64_t TcpSender::sentWhole() const {
  uint64_t whole = message_;
  const auto look = [&whole](const Outbox& box) {
    if (box.count > 0 && static_cast<int64_t>(box.parts[0].message - whole) < 0) whole = box.parts[0].message;
  };
  for (const Outbox& box : outboxes_) look(box);
  look(ride_);
  return whole;
}

bool TcpSender::take(const MessageFrame& frame) {
  if (frame.kind == FrameKind::poison) {
    onPeerPoison();
    return false;
  }
  return takeCredit(end_, frame, sentWhole(), creditOrder()) || refuse(frame);
}

bool TcpSender::release(const MessageFrame& frame) {
  return takeReleases(end_, frame.released, sentWhole(), creditOrder()) || refuse(frame);
}

// Of twins, credits come over two sockets, one of which is looked at rarely: an earlier one may come much
// later.
CreditOrder TcpSender::creditOrder() const {
  return twins_->receiver != nullptr ? CreditOrder::any : CreditOrder::asSent;
}

/// Breaks the connection: the frame cannot be.
bool TcpSender::refuse(const MessageFrame& frame) {
  breakOff(
      format("it sent a credit that cannot be (kind %u, %llu messages released of %llu sent); is it another "
             "version of ECCL?",
             static_cast<unsigned>(frame.kind), static_cast<unsigned long long>(frame.released),
             static_cast<unsigned long long>(sentWhole())));
  return false;
}

void TcpSender::poison() {
  if (!live()) return;
  MessageFrame frame{message_, 0, 0, 0, 0, 0, 0, 0, FrameKind::poison};
  // Best effort: in the middle of a frame there is no place for it, and the peer sees the stream end instead.
  for (size_t i = 0; i < subflows(); ++i) {
    iovec part{&frame, sizeof frame};
    if (takes(i) && outboxes_[i].partial == 0 && (i > 0 || wordsSent_ == 0)) [[maybe_unused]]
      ssize_t sent = send(i, &part, 1);
  }
  finish();
}

}  // namespace eccl::transport
