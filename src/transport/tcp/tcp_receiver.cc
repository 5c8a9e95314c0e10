#include "transport/tcp/tcp_receiver.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "transport/tcp/tcp_sender.h"

namespace eccl::transport {

/// `bytes` more of the current part are at their place.
void TcpReceiver::Inbox::take(Assemblies& assemblies, uint32_t bytes) {
  target += bytes;
  missing -= bytes;
  if (message != nullptr) assemblies.add(*message, bytes);
}

void TcpReceiver::onReady(size_t subflow, uint32_t events) {
  if ((events & EPOLLOUT) != 0) {
    // Whichever was sent in part goes first.
    TcpSender* const twin = subflow == 0 ? twins_->sender : nullptr;
    if (twin != nullptr && twin->ridesInPart()) twin->rideOn();
    sendCredit();
    if (twin != nullptr) twin->rideOn();
  }
  if ((events & ~EPOLLOUT) != 0) receiveFrom(subflow);
}

void TcpReceiver::joined(size_t subflow) {
  if (subflow == inboxes_.size()) inboxes_.emplace_back();
  Inbox& inbox = inboxes_[subflow];
  inbox.missing = 0;
  inbox.staged = 0;
  inbox.leaves = false;
  inbox.number = 0;
  inbox.came.clear();
}

void TcpReceiver::receiveFrom(size_t subflow) {
  Breakage why;
  if (!live() || !isOpen(subflow) || isAside(subflow)) return;
  const bool goesOn = read(inboxes_[subflow], *this, subflow, &why);
  if (!isOpen(subflow)) return;                                   // it was given up meanwhile
  if (live() && inboxes_[subflow].leaves) return close(subflow);  // what else is there counts for nothing
  if (goesOn) return;
  if (subflow > 0) return ended(subflow, why.reason);
  // Over another socket the sender may have said why, and what it sent before that counts.
  const bool first = !std::exchange(failing_, true);
  if (first) lookAtTwin();
  for (size_t other = 0; first && other < subflows() && live(); ++other) {
    if (other != subflow) receiveFrom(other);
  }
  breakOff(subflow, why);
}

// What comes over its first socket, if that carries messages of this connection too.
bool TcpReceiver::lookAtTwin() {
  const bool carried = !fromLower_ && twins_->sender != nullptr;
  if (carried) twins_->sender->look();
  return carried;
}

bool TcpReceiver::receiveOver(TcpSender& twin, std::string_view begun, Breakage* why) {
  begun.copy(reinterpret_cast<char*>(twinsInbox_.stage) + twinsInbox_.staged, begun.size());
  twinsInbox_.staged += begun.size();
  twinsInbox_.twin = &twin;
  return read(twinsInbox_, twin, 0, why);
}

// False: the socket is broken.
bool TcpReceiver::read(Inbox& inbox, TcpPath& over, size_t subflow, Breakage* why) {
  // The twin's last credits are read though this end is broken.
  for (int call = 0;
       (live() || inbox.twin != nullptr) && over.live() && (call < kCallsPerReady || over.pending(subflow));
       ++call) {
    iovec parts[] = {{inbox.target, inbox.missing}, {inbox.stage + inbox.staged, kStage - inbox.staged}};
    const size_t asked = inbox.missing + kStage - inbox.staged;
    const ssize_t got =
        inbox.missing > 0 ? over.receive(subflow, parts, 2, why) : over.receive(subflow, parts + 1, 1, why);
    if (got < 0) return false;
    const auto direct = static_cast<uint32_t>(std::min<size_t>(static_cast<size_t>(got), inbox.missing));
    if (direct > 0) inbox.take(assemblies_, direct);
    if (direct > 0 && inbox.missing == 0) partCame(inbox);
    inbox.staged += static_cast<size_t>(got) - direct;
    takeStage(inbox);
    if (static_cast<size_t>(got) < asked || inbox.leaves) break;  // that was all there is for now
  }
  return true;
}

// Frames and the beginnings of payloads; leaves at most a part of a frame in the stage.
void TcpReceiver::takeStage(Inbox& inbox) {
  const std::byte* at = inbox.stage;
  const std::byte* const stop = inbox.stage + inbox.staged;
  while (at < stop && (live() || inbox.twin != nullptr)) {
    if (inbox.missing > 0) {
      const auto here = static_cast<uint32_t>(std::min<size_t>(inbox.missing, static_cast<size_t>(stop - at)));
      std::memcpy(inbox.target, at, here);
      inbox.take(assemblies_, here);
      if (inbox.missing == 0) partCame(inbox);
      at += here;
      continue;
    }
    MessageFrame frame;
    if (static_cast<size_t>(stop - at) < sizeof frame) break;
    std::memcpy(&frame, at, sizeof frame);
    at += sizeof frame;
    if (frame.kind == FrameKind::leave && &inbox != &inboxes_[0] && inbox.twin == nullptr) {
      inbox.leaves = true;
      break;
    }
    if (frame.kind == FrameKind::lost && &inbox == &inboxes_[0]) {
      onLost(frame.sequence);
      continue;
    }
    if (&inbox != &inboxes_[0] && inbox.twin == nullptr && frame.kind == FrameKind::message) {
      inbox.number = frame.released;
      if ((inbox.leaves = lost_.has(inbox.number))) break;  // it was on its way for long
    }
    if (frame.kind == FrameKind::ask && credits_.onAsk(frame)) continue;
    if (inbox.twin != nullptr && frame.kind != FrameKind::message ? !inbox.twin->take(frame)
                                                                  : !begin(inbox, frame))
      break;
  }
  inbox.staged = static_cast<size_t>(stop - at);
  if (at != inbox.stage) std::memmove(inbox.stage, at, inbox.staged);
  if (credits_.asked()) flush();  // now: if it fails, what the sender said last is read into the stage
}

// Checks a frame and decides where its payload goes.
bool TcpReceiver::begin(Inbox& inbox, MessageFrame frame) {
  if (frame.kind == FrameKind::poison) {
    lookAtTwin();  // what it sent before that counts
    onPeerPoison();
    return false;
  }
  const bool again = (frame.flags & kAgain) != 0 && &inbox == &inboxes_[0] && !lost_.none();
  if (again && beginAgain(inbox, frame)) return true;
  const char* wrong = nullptr;
  Assemblies::Message* message = assemblies_.begin(frame, &wrong);
  if (message == nullptr) {
    breakOff(
        format("it sent a message that cannot be: %s (kind %u, number %llu, expected from %llu on, bytes %u to "
               "%u of %u, slots of %u bytes); is it another version of ECCL?",
               wrong, static_cast<unsigned>(frame.kind), static_cast<unsigned long long>(frame.sequence),
               static_cast<unsigned long long>(end_.next), frame.offset, frame.offset + frame.bytes,
               frame.length, end_.shape.slotBytes));
    return false;
  }
  credits_.onMessage(frame);
  if ((frame.flags & kTells) != 0 && twins_->sender != nullptr && !twins_->sender->release(frame)) return false;
  inbox.part = frame;
  inbox.message = message;
  inbox.target = message->data + frame.offset;
  inbox.missing = frame.bytes;
  if (frame.bytes == 0) inbox.take(assemblies_, 0);
  return true;
}

// True: the part is there already. False: it is like any other.
bool TcpReceiver::beginAgain(Inbox& inbox, MessageFrame& frame) {
  frame.flags &= static_cast<uint16_t>(~kAgain);
  if (frame.bytes > end_.shape.slotBytes || !lost_.came(assemblies_, frame)) return false;
  if (dropped_ == nullptr) dropped_ = std::make_unique<std::byte[]>(end_.shape.slotBytes);
  inbox.message = nullptr;
  inbox.target = dropped_.get();
  inbox.missing = frame.bytes;
  return true;
}

// Over which nothing has come there is nothing to remember of.
void TcpReceiver::ended(size_t subflow, const std::string& why) {
  if (inboxes_[subflow].number == 0) return close(subflow);
  setAside(subflow, why);
}

// The first socket is never lost alone.
void TcpReceiver::partCame(Inbox& inbox) {
  if (&inbox == &inboxes_[0] || inbox.twin != nullptr || inbox.message->missing == 0) return;
  const auto complete = [&](const LostSockets::Part& part) { return assemblies_.isComplete(part.first); };
  if (inbox.came.size() >= inbox.many) {
    std::erase_if(inbox.came, complete);
    inbox.many = std::max(inbox.many, 2 * inbox.came.size());
  }
  inbox.came.emplace_back(inbox.part.sequence, inbox.part.offset);
}

// What had come of a part in the middle of which it was cut comes again.
void TcpReceiver::onLost(uint64_t number) {
  lost_.forgetComplete(assemblies_);
  lost_.add(number, {});
  for (size_t i = subflows(); i-- > 1;) {
    Inbox& inbox = inboxes_[i];
    if (!isOpen(i) || inbox.number != number) continue;
    lost_.add(number, inbox.came);
    if (inbox.missing > 0)
      assemblies_.takeBack(*inbox.message, inbox.part.bytes, inbox.part.bytes - inbox.missing);
    inbox.missing = 0;
    close(i);
  }
}

// The first socket has short messages; of the others one in turn.
void TcpReceiver::poll() {
  if (!live()) return;
  constexpr unsigned kRarely = 4;  // where most messages come over the twin's socket
  const bool carried = lookAtTwin();
  if (!live() || (carried && ++polls_ % kRarely != 0)) return;
  receiveFrom(0);
  if (subflows() == 1 || !live()) return;
  polled_ = polled_ % (subflows() - 1) + 1;
  receiveFrom(polled_);
}

void TcpReceiver::kick() {
  if (credits_.due()) sendCredit();
}

void TcpReceiver::settle() {
  if (credits_.awaited()) sendCredit();
}

void TcpReceiver::flush() {
  if (credits_.owed()) sendCredit();
}

// Tells all releases up to now, unless the end of an earlier credit is still to go: then that first.
void TcpReceiver::sendCredit() {
  const TcpSender* const twin = twins_->sender;
  if (!live()) return;
  if (twin != nullptr && twin->ridesInPart()) return watchFirst();  // it goes on when there is room
  while (creditLeft_ > 0 || credits_.owed()) {
    if (creditLeft_ == 0) {
      credit_ = credits_.take();
      creditLeft_ = sizeof credit_;
    }
    if (!sendRest(0, credit_, &creditLeft_)) return sendingFailed(errno);
    if (creditLeft_ > 0) break;
  }
  watchFirst();
}

void TcpReceiver::watchFirst() {
  const TcpSender* const twin = twins_->sender;
  const bool waits = creditLeft_ > 0 || (twin != nullptr && twin->rideWaits());
  watchFor(0, waits ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

// The sender may have said why, and what it sent before that counts.
void TcpReceiver::sendingFailed(int error) {
  if (std::exchange(failing_, true)) return;  // its last words ask for another credit
  lookAtTwin();
  for (size_t subflow = 0; subflow < subflows() && live(); ++subflow) receiveFrom(subflow);
  breakOff(0, Breakage::ofSocket("sending to it", error));
}

void TcpReceiver::endReceiving() {
  credits_.end();
  sendCredit();
}

void TcpReceiver::poison() {
  if (!live()) return;
  MessageFrame frame{};
  frame.kind = FrameKind::poison;
  iovec part{&frame, sizeof frame};
  const bool amid = creditLeft_ > 0 || (twins_->sender != nullptr && twins_->sender->ridesInPart());
  if (!amid) [[maybe_unused]]
    ssize_t sent = send(0, &part, 1);
  finish();
}

}  // namespace eccl::transport
