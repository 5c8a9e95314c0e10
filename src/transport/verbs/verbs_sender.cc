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
      sent_(end.next),
      reference_(end.next),
      credited_(end.next) {}

void VerbsSender::letGo() {
  for (MemoryKeys& each : references_) each.region.reset();
}

// As soon as they are published: what the memory is there for may end before the queue has room.
void VerbsSender::noteReferences() {
  for (; noted_ != end_.next; ++noted_) {
    Slot& slot = *end_.slot(noted_);
    if ((slot.flags & kSlotGet) != 0)
      references_[noted_ & (end_.shape.slots - 1)] = registrations().keysOf(payloadOf(end_, slot), slot.length);
  }
}

// As many as the queue has room for; it goes on when some are done.
void VerbsSender::sendMessages() {
  constexpr uint32_t kOfMessage = 2;  // requests
  noteReferences();
  bool references = false;
  for (; message_ != end_.next; ++message_) {
    if (queue().room() < kOfMessage + 1) {
      queue().submit(references);
      if (!live() || queue().room() < kOfMessage + 1) return;  // full, but for the last words
    }
    if ((end_.slot(message_)->flags & kSlotGet) != 0) {
      references = true;
      reference_ = message_ + 1;
    }
    sendMessage();
  }
  if (asks_ && queue().room() > 1) {
    asks_ = false;
    VerbsFrame ask{};
    ask.frame.kind = FrameKind::ask;
    ask.frame.sequence = message_;
    queue().send(&ask, sizeof ask, nullptr, 0, 0, message_);
  }
  queue().submit(references);
}

void VerbsSender::sendMessage() {
  Slot& slot = *end_.slot(message_);
  const std::byte* const data = payloadOf(end_, slot);
  const uint32_t length = slot.length;
  const MemoryKeys& reference = references_[message_ & (end_.shape.slots - 1)];
  const uint32_t key = (slot.flags & kSlotGet) != 0 ? reference.local : ringKey();
  VerbsFrame header{frameOf(end_, message_), 0, 0, Way::inFrame};
  if (length <= kInFrame) {
    queue().send(&header, sizeof header, data, key, length, message_ + 1);
    return;
  }
  const Grant& grant = grants_[message_ & (grants_.size() - 1)];
  if (grant.sequence == message_ + 1 && grant.length == length) {
    header.way = Way::granted;
    queue().write(data, key, length, grant.address, grant.key);
  } else {
    header.way = Way::landed;
    const uint64_t place = landingOf(end_.shape, message_, longs_);
    queue().write(data, key, length, landing_.address + place * landing_.slotBytes, landing_.key);
  }
  ++longs_;
  queue().send(&header, sizeof header, nullptr, 0, 0, message_ + 1);
}

void VerbsSender::askForReleases() {
  if (!live() || drained()) return;
  asks_ = true;
  sendMessages();
}

void VerbsSender::onSent(uint64_t tag) {
  if (!live()) return;
  sent_ = tag;
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
  if (static_cast<int64_t>(sent_ - reference_) < 0 && static_cast<int64_t>(sent_ - until) < 0) until = sent_;
  for (uint64_t message = end_.control->released; static_cast<int64_t>(until - message) > 0; ++message)
    references_[message & (end_.shape.slots - 1)].region.reset();
  if (until != end_.control->released && !takeReleases(end_, until, message_, CreditOrder::any)) return;
  if (ended_ && until == credited_)
    storeRelease(&end_.control->receiverEnded, 1u);  // pairs with SendEnd::untaken
}

}  // namespace eccl::transport::verbs
