#include "transport/verbs/verbs_sender.h"

#include <algorithm>
#include <cstring>

#include "transport/messages/credits.h"

namespace eccl::transport::verbs {

VerbsSender::VerbsSender(Wiring wiring, SendEnd& end, const LandingPlace& landing)
    : VerbsPath(std::move(wiring), &end.control->receiverPoison),
      end_(end),
      landing_(landing),
      grants_(end.shape.offers()),
      references_(end.shape.slots),
      noted_(end.next),
      message_(end.next),
      sent_(queues(), {end.next, end.next}),
      credited_(end.next) {}

void VerbsSender::letGo() {
  for (MemoryKeys& each : references_) each.region.reset();
}

// As soon as they are published: what the memory is there for may end before the queue has room.
void VerbsSender::noteReferences() {
  for (; noted_ != end_.next; ++noted_) {
    Slot& slot = *end_.slot(noted_);
    if ((slot.flags & kSlotGet) != 0)
      references_[noted_ & (end_.shape.slots - 1)] =
          registrations().keysOf(payloadOf(end_, slot), slot.length, MemoryFor::sending);
  }
}

size_t VerbsSender::queueFor(const Slot& slot) const {
  return slot.length > kInFrame ? longs_ % queues() : 0;
}

// As many as the queues have room for; it goes on when some are done.
void VerbsSender::sendMessages() {
  constexpr uint32_t kNeeded = 3;  // requests: of a message, and the last words
  noteReferences();
  uint32_t references = 0;  // a bit for each queue pair
  for (; message_ != end_.next; ++message_) {
    const Slot& slot = *end_.slot(message_);
    const size_t number = queueFor(slot);
    QueuePair& by = queue(number);
    if (by.room() < kNeeded) {
      by.submit((references >> number & 1) != 0);
      if (!live() || by.room() < kNeeded) break;
    }
    if ((slot.flags & kSlotGet) != 0) {
      references |= 1u << number;
      sent_[number].reference = message_ + 1;
    }
    sendMessage(by);
  }
  if (asks_ && message_ == end_.next && queue().room() > 1) {
    asks_ = false;
    VerbsFrame ask{};
    ask.frame.kind = FrameKind::ask;
    ask.frame.sequence = message_;
    queue().send(&ask, sizeof ask, nullptr, 0, 0, message_);
  }
  for (size_t i = 0; i < queues(); ++i) queue(i).submit((references >> i & 1) != 0);
}

void VerbsSender::sendMessage(QueuePair& by) {
  Slot& slot = *end_.slot(message_);
  const std::byte* const data = payloadOf(end_, slot);
  const uint32_t length = slot.length;
  const MemoryKeys& reference = references_[message_ & (end_.shape.slots - 1)];
  const uint32_t key = (slot.flags & kSlotGet) != 0 ? reference.local : ringKey();
  VerbsFrame header{frameOf(end_, message_), 0, 0, Way::inFrame};
  if (length <= kInFrame) {
    by.send(&header, sizeof header, data, key, length, message_ + 1);
    return;
  }
  const Grant& grant = grantFor(message_);
  if (grant.sequence == message_ + 1 && grant.length == length) {
    header.way = Way::granted;
    by.write(data, key, length, grant.address, grant.key);
  } else {
    // So many long ones may be on their way, so each has a place of its own.
    header.way = Way::landed;
    header.address = end_.shape.longOnes > 0 ? longs_ % landing_.places : message_ & (landing_.places - 1);
    by.write(data, key, length, landing_.address + header.address * landing_.slotBytes, landing_.key);
  }
  ++longs_;
  by.send(&header, sizeof header, nullptr, 0, 0, message_ + 1);
  noteLong(length);
}

void VerbsSender::askForReleases() {
  if (!live() || drained()) return;
  asks_ = true;
  sendMessages();
}

void VerbsSender::onSent(size_t queue, uint64_t tag) {
  if (!live()) return;
  sent_[queue].until = tag;
  takeReleased();
  kick();
}

void VerbsSender::onFrame(const std::byte* bytes, uint32_t length) {
  if (!live()) return;
  VerbsFrame header;
  if (length != sizeof header) return refuse(format("%u bytes where a frame has %zu", length, sizeof header));
  std::memcpy(&header, bytes, sizeof header);
  const MessageFrame& frame = header.frame;
  switch (frame.kind) {
    case FrameKind::poison:
      return onPeerPoison();
    case FrameKind::credit:
    case FrameKind::end:
      if (frame.released - credited_ > message_ - credited_ || frame.length != 0 || frame.bytes != 0) break;
      credited_ = frame.released;
      ended_ = frame.kind == FrameKind::end;
      return takeReleased();
    case FrameKind::grant:
      // One for a message that has gone by is of no use, and one from afar cannot be.
      if (static_cast<int64_t>(frame.sequence - credited_) > 2 * int64_t{end_.shape.offers()}) break;
      grants_[frame.sequence & (grants_.size() - 1)] = {frame.sequence + 1, header.address, header.key,
                                                        frame.length};
      return;
    default:
      break;
  }
  refuse(format("a credit or grant of kind %u, %llu messages released of %llu sent",
                static_cast<unsigned>(frame.kind), static_cast<unsigned long long>(frame.released),
                static_cast<unsigned long long>(message_)));
}

// The user may take memory back when its message is released, and the device may still look at it: to send
// again what was not acknowledged. What lies in the ring stays there.
void VerbsSender::takeReleased() {
  uint64_t until = credited_;
  for (const Sent& each : sent_) {
    if (static_cast<int64_t>(each.until - each.reference) < 0 && static_cast<int64_t>(each.until - until) < 0)
      until = each.until;
  }
  for (uint64_t message = end_.control->released; static_cast<int64_t>(until - message) > 0; ++message)
    references_[message & (end_.shape.slots - 1)].region.reset();
  if (until != end_.control->released && !takeReleases(end_, until, message_, CreditOrder::any)) return;
  if (ended_ && until == credited_)
    storeRelease(&end_.control->receiverEnded, 1u);  // pairs with SendEnd::untaken
}

}  // namespace eccl::transport::verbs
