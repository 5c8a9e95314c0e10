#include "transport/tcp/tcp_receiver.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace eccl::transport {

TcpReceiver::TcpReceiver(Wiring wiring, ReceiveEnd& end)
    : TcpPath(std::move(wiring), &end.control->senderPoison), end_(end), told_(end.next), wanted_(end.next) {
  static_cast<RingEnd&>(producer_) = end;
}

void TcpReceiver::onReady(uint32_t events) {
  if ((events & EPOLLOUT) != 0) sendCredit();
  if ((events & ~EPOLLOUT) == 0) return;
  for (int call = 0; call < kCallsPerReady && live(); ++call) {
    iovec parts[] = {{target_, missing_}, {stage_ + staged_, kStage - staged_}};
    const size_t asked = missing_ + kStage - staged_;
    const size_t got = missing_ > 0 ? receive(parts, 2) : receive(parts + 1, 1);
    const size_t direct = std::min(got, missing_);
    if (direct > 0) {
      target_ += direct;
      missing_ -= direct;
      if (missing_ == 0) publish();
    }
    staged_ += got - direct;
    takeStage();
    if (got < asked) return;  // that was all there is for now
  }
}

// Frames and the beginnings of payloads; leaves at most a part of a frame in the stage.
void TcpReceiver::takeStage() {
  const std::byte* at = stage_;
  const std::byte* const stop = stage_ + staged_;
  while (at < stop && live()) {
    if (missing_ > 0) {
      const size_t here = std::min(missing_, static_cast<size_t>(stop - at));
      std::memcpy(target_, at, here);
      target_ += here;
      missing_ -= here;
      at += here;
      if (missing_ == 0) publish();
      continue;
    }
    MessageFrame frame;
    if (static_cast<size_t>(stop - at) < sizeof frame) break;
    std::memcpy(&frame, at, sizeof frame);
    at += sizeof frame;
    if (frame.kind == FrameKind::ask && frame.sequence == producer_.next && frame.length == 0) {
      asked_ = true;
      continue;
    }
    if (!begin(frame)) return;
    if (missing_ == 0) publish();
  }
  staged_ = static_cast<size_t>(stop - at);
  if (at != stage_) std::memmove(stage_, at, staged_);
  if (asked_) flush();  // now: if it fails, what the sender said last is read into the stage
}

// Checks a frame and decides where its payload goes.
bool TcpReceiver::begin(const MessageFrame& frame) {
  if (frame.kind == FrameKind::poison) {
    onPeerPoison();
    return false;
  }
  const uint64_t message = producer_.next;
  const char* wrong = frame.kind != FrameKind::message             ? "its kind is unknown"
                      : frame.sequence != message                  ? "it is out of sequence"
                      : frame.length > end_.shape.slotBytes        ? "it is longer than a slot"
                      : message - end_.next >= end_.shape.slots    ? "it exceeds the credits given"
                      : (frame.flags & ~uint32_t{kWireFlags}) != 0 ? "its flags are unknown"
                                                                   : nullptr;
  if (wrong != nullptr) {
    breakOff(format(
        "it sent a message that cannot be: %s (kind %u, number %llu, expected %llu, %u bytes, slots of %u "
        "bytes); is it another version of ECCL?",
        wrong, static_cast<unsigned>(frame.kind), static_cast<unsigned long long>(frame.sequence),
        static_cast<unsigned long long>(message), frame.length, end_.shape.slotBytes));
    return false;
  }
  frame_ = frame;
  missing_ = frame.length;
  if ((frame.flags & kWantsCredit) != 0) wanted_ = message + 1;
  const PutOffer& offer = end_.offers[message & (end_.shape.offers() - 1)];
  // Pairs with ReceiveEnd::offer. An offer that comes later than this is not used.
  const bool offered = loadAcquire(&offer.sequence) == message + 1 && offer.length == frame.length &&
                       frame.length > kInlineBytes;
  placed_ = offered ? kSlotPut : 0;
  if (offered)
    target_ = reinterpret_cast<std::byte*>(offer.offset);
  else
    target_ = producer_.place(frame.length);
  return true;
}

void TcpReceiver::publish() {
  producer_.epoch = frame_.epoch;  // the sender's, for the lane to judge
  producer_.publish(frame_.length, (frame_.flags & kSlotFlags) | placed_, frame_.signature);
}

void TcpReceiver::poll() {
  if (live()) onReady(EPOLLIN);
}

void TcpReceiver::kick() {
  // Half a ring's worth at once: fewer small packets, and the sender never runs dry.
  if (end_.next - told_ >= (asked_ ? 1 : std::max(1u, end_.shape.slots / 2))) sendCredit();
}

// A sender that waits for no credit sends on: half a ring at least is free.
void TcpReceiver::settle() {
  if (static_cast<int64_t>(wanted_ - told_) > 0) flush();
}

void TcpReceiver::flush() {
  if (end_.next != told_) sendCredit();
}

// Tells all releases up to now, unless the end of an earlier credit is still to go: then that first.
void TcpReceiver::sendCredit() {
  if (!live()) return;
  while (creditLeft_ > 0 || end_.next != told_ || ends_) {
    if (creditLeft_ == 0) {
      told_ = end_.next;
      credit_ = {std::exchange(ends_, false) ? FrameKind::end : FrameKind::credit, 0, told_};
      creditLeft_ = sizeof credit_;
    }
    iovec part{reinterpret_cast<std::byte*>(&credit_ + 1) - creditLeft_, creditLeft_};
    const ssize_t sent = send(&part, 1);
    if (sent < 0) return sendingFailed(errno);
    creditLeft_ -= static_cast<size_t>(sent);
    if (creditLeft_ > 0) return watchFor(EPOLLIN | EPOLLOUT);
  }
  watchFor(EPOLLIN);
}

// The sender may have said why, and what it sent before that counts.
void TcpReceiver::sendingFailed(int error) {
  if (std::exchange(failing_, true)) return;  // its last words ask for another credit
  onReady(EPOLLIN);
  breakOff(format("sending to it failed: %s", std::strerror(error)));
}

void TcpReceiver::endReceiving() {
  ends_ = true;
  sendCredit();
}

void TcpReceiver::poison() {
  if (!live()) return;
  CreditFrame frame{FrameKind::poison, 0, 0};
  iovec part{&frame, sizeof frame};
  if (creditLeft_ == 0) [[maybe_unused]]
    ssize_t sent = send(&part, 1);
  finish();
}

}  // namespace eccl::transport
