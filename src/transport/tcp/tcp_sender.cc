#include "transport/tcp/tcp_sender.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace eccl::transport {
namespace {

void* payloadOf(const SendEnd& end, Slot& slot) {
  if ((slot.flags & kSlotGet) != 0) return reinterpret_cast<void*>(slot.offset);
  return end.dataOf(slot, slot.length);
}

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

void TcpSender::kick() {
  if (end_.next != sent_ && !blocked_ && live()) sendMessages();
}

// Credits that nothing waits for stay in the socket.
void TcpSender::poll() {
  if (!end_.getsReleased() || end_.next - end_.control->released >= end_.shape.slots) receiveCredits();
}

// Until all is sent or the socket is full. Headers are made anew for every call: slots keep their content until
// their credit comes, so a message cut short is continued from there.
void TcpSender::sendMessages() {
  while (end_.next != sent_) {
    MessageFrame frames[kBatch];
    iovec parts[2 * kBatch];
    const int batch = static_cast<int>(std::min<uint64_t>(kBatch, end_.next - sent_));
    size_t asked = 0;
    for (int i = 0; i < batch; ++i) {
      const uint64_t message = sent_ + static_cast<uint64_t>(i);
      Slot& slot = *end_.slot(message);
      const bool wants = (slot.flags & kSlotGet) != 0;
      frames[i] = {
          message,        slot.length,
          slot.signature, static_cast<uint16_t>((slot.flags & kSlotFlags) | (wants ? kWantsCredit : 0)),
          slot.epoch,     FrameKind::message};
      parts[2 * i] = {&frames[i], sizeof frames[i]};
      parts[2 * i + 1] = {payloadOf(end_, slot), slot.length};
      asked += sizeof frames[i] + slot.length;
    }
    skip(parts, partial_);
    asked -= partial_;
    const ssize_t sent = send(parts, 2 * batch);
    if (sent < 0) return sendingFailed(errno);
    partial_ += static_cast<size_t>(sent);
    for (int i = 0; i < batch && partial_ >= sizeof(MessageFrame) + frames[i].length; ++i) {
      partial_ -= sizeof(MessageFrame) + frames[i].length;
      ++sent_;
    }
    blocked_ = static_cast<size_t>(sent) < asked;
    if (blocked_) return watchFor(EPOLLIN | EPOLLOUT);
  }
  if (askLeft_ > 0) return sendAsk();
  watchFor(EPOLLIN);
}

void TcpSender::sendingFailed(int error) {
  receiveCredits();  // the peer may have said why
  breakOff(format("sending to it failed: %s", std::strerror(error)));
}

void TcpSender::sendAsk() {
  const MessageFrame frame{sent_, 0, 0, 0, 0, FrameKind::ask};
  iovec part{const_cast<MessageFrame*>(&frame + 1), askLeft_};
  part.iov_base = static_cast<std::byte*>(part.iov_base) - askLeft_;
  const ssize_t sent = send(&part, 1);
  if (sent < 0) return sendingFailed(errno);
  askLeft_ -= static_cast<size_t>(sent);
  blocked_ = askLeft_ > 0;
  watchFor(blocked_ ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

void TcpSender::askForReleases() {
  if (!live() || drained() || askLeft_ > 0) return;
  askLeft_ = sizeof(MessageFrame);
  if (!blocked_) sendMessages();
}

void TcpSender::onReady(uint32_t events) {
  if ((events & ~EPOLLOUT) != 0) receiveCredits();
  if ((events & EPOLLOUT) != 0 && live()) {
    blocked_ = false;
    sendMessages();
  }
}

// Credits are cumulative and small; one call takes many.
void TcpSender::receiveCredits() {
  if (!live()) return;
  iovec part{reinterpret_cast<std::byte*>(credits_) + creditBytes_, sizeof credits_ - creditBytes_};
  creditBytes_ += receive(&part, 1);
  const size_t count = creditBytes_ / sizeof(CreditFrame);
  for (size_t i = 0; i < count; ++i) {
    if (!take(credits_[i])) return;
  }
  creditBytes_ -= count * sizeof(CreditFrame);
  std::memmove(credits_, credits_ + count, creditBytes_);
}

// Only messages that were sent whole can have been released; false ends the connection.
bool TcpSender::take(const CreditFrame& credit) {
  if (credit.kind == FrameKind::poison) {
    onPeerPoison();
    return false;
  }
  const uint64_t released = end_.control->released;
  const bool ends = credit.kind == FrameKind::end;
  if ((credit.kind != FrameKind::credit && !ends) || credit.zero != 0 ||
      credit.released - released > sent_ - released) {
    breakOff(
        format("it sent a credit that cannot be (kind %u, %llu messages released of %llu sent); is it another "
               "version of ECCL?",
               static_cast<unsigned>(credit.kind), static_cast<unsigned long long>(credit.released),
               static_cast<unsigned long long>(sent_)));
    return false;
  }
  storeRelease(&end_.control->released, credit.released);    // pairs with SendEnd::reserve
  if (ends) storeRelease(&end_.control->receiverEnded, 1u);  // pairs with SendEnd::untaken
  return true;
}

void TcpSender::poison() {
  if (!live()) return;
  MessageFrame frame{sent_, 0, 0, 0, 0, FrameKind::poison};
  iovec part{&frame, sizeof frame};
  // Best effort: in the middle of a frame there is no place for it, and the peer sees the stream end instead.
  if (partial_ == 0 && askLeft_ % sizeof frame == 0) [[maybe_unused]]
    ssize_t sent = send(&part, 1);
  finish();
}

}  // namespace eccl::transport
