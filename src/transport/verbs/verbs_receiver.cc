#include "transport/verbs/verbs_receiver.h"

#include <algorithm>
#include <cstring>

namespace eccl::transport::verbs {

VerbsReceiver::VerbsReceiver(Wiring wiring, ReceiveEnd& end)
    : VerbsPath(std::move(wiring), &end.control->senderPoison),
      end_(end),
      credits_(end),
      granted_(end.shape.offers()),
      arrived_(end.next) {}

void VerbsReceiver::kick() {
  if (!live()) return;
  grant();
  if (credits_.due()) sendCredit();
}

void VerbsReceiver::settle() {
  if (live() && credits_.awaited()) sendCredit();
}

void VerbsReceiver::flush() {
  if (!live()) return;
  grant();
  if (credits_.owed()) sendCredit();
}

void VerbsReceiver::endReceiving() {
  credits_.end();
  flush();
}

void VerbsReceiver::onSent(size_t, uint64_t) {
  if (credits_.asked() || credits_.awaited()) flush();
  kick();
}

void VerbsReceiver::letGo() {
  for (Granted& each : granted_) each.region.reset();
}

// What there is no room for is told later: the queue has some when a request is done.
void VerbsReceiver::sendCredit() {
  if (queue().room() < 2) return;
  VerbsFrame credit{};
  credit.frame = credits_.take();
  queue().send(&credit, sizeof credit, nullptr, 0, 0, 0);
  queue().submit(true);
}

// Offers of messages that have not come, and that the sender does not know.
void VerbsReceiver::grant() {
  if (registrations().empty()) return;
  const uint32_t offers = end_.shape.offers();
  // So many long ones may be on their way, and as many may follow.
  const uint64_t most = std::min(offers - (arrived_ - end_.next), uint64_t{2} * end_.shape.mostLong());
  for (uint64_t message = arrived_; message - arrived_ < most; ++message) {
    const PutOffer& offer = end_.offers[message & (offers - 1)];
    Granted& granted = granted_[message & (offers - 1)];
    if (loadAcquire(&offer.sequence) != message + 1 || offer.length <= kInFrame ||
        granted.sequence == message + 1 || hasCome(message))
      continue;
    if (queue().room() < 2) break;
    MemoryKeys keys =
        registrations().keysOf(kOwnAddressSpace.at(offer.offset), offer.length, MemoryFor::receiving);
    if (!keys.found) continue;
    granted = {message + 1, offer.length, std::move(keys.region)};
    VerbsFrame header{};
    header.frame.kind = FrameKind::grant;
    header.frame.sequence = message;
    header.frame.length = offer.length;
    header.address = offer.offset;
    header.key = keys.remote;
    queue().send(&header, sizeof header, nullptr, 0, 0, 0);
  }
  queue().submit(false);
}

void VerbsReceiver::onFrame(const std::byte* bytes, uint32_t length) {
  if (!live()) return;
  VerbsFrame header;
  if (length < sizeof header) return refuse(format("%u bytes where a frame has %zu", length, sizeof header));
  std::memcpy(&header, bytes, sizeof header);
  if (header.frame.kind == FrameKind::poison) return onPeerPoison();
  if (header.frame.kind == FrameKind::ask && credits_.onAsk(header.frame)) return flush();
  if (const char* fault = faultOf(header, length - sizeof header)) {
    const MessageFrame& frame = header.frame;
    return refuse(
        format("a message whose %s (kind %u, number %llu, expected %llu, %u bytes, slots of %u bytes)", fault,
               static_cast<unsigned>(frame.kind), static_cast<unsigned long long>(frame.sequence),
               static_cast<unsigned long long>(arrived_), frame.length, end_.shape.slotBytes));
  }
  credits_.onMessage(header.frame);
  take(header, bytes + sizeof header);
}

/// What of a message cannot be; nullptr: nothing. `behind`: bytes that came behind the frame.
const char* VerbsReceiver::faultOf(const VerbsFrame& header, uint32_t behind) const {
  const MessageFrame& frame = header.frame;
  if (frame.kind != FrameKind::message) return "kind is unknown";
  if (queues() == 1 && frame.sequence != arrived_) return "number is not the next";
  if (frame.sequence - end_.next >= end_.shape.slots) return "number exceeds the credits given";
  if (hasCome(frame.sequence)) return "number has come before";
  if (frame.length > end_.shape.slotBytes) return "length is more than a slot's";
  if (frame.offset != 0 || frame.bytes != frame.length) return "parts are not the whole";
  if ((frame.flags & ~uint32_t{kWireFlags}) != 0 || (frame.flags & kTells) != 0) return "flags are unknown";
  const Granted& granted = granted_[frame.sequence & (granted_.size() - 1)];
  switch (header.way) {
    case Way::inFrame:
      return frame.length <= kInFrame && behind == frame.length ? nullptr : "data is not behind it";
    case Way::landed:
      return frame.length > kInFrame && behind == 0 && header.address < end_.shape.mostLong()
                 ? nullptr
                 : "data cannot have been written";
    case Way::granted:
      return granted.sequence == frame.sequence + 1 && granted.length == frame.length && behind == 0
                 ? nullptr
                 : "place was not granted";
  }
  return "way is unknown";
}

void VerbsReceiver::take(const VerbsFrame& header, const std::byte* data) {
  const MessageFrame& frame = header.frame;
  Slot& slot = *end_.slot(frame.sequence);
  // Which counts in lines.
  if (header.way == Way::landed)
    slot.area = static_cast<uint32_t>(header.address * (end_.shape.slotBytes / kCacheLine));
  int placed = header.way == Way::granted ? kSlotPut : 0;
  if (header.way == Way::inFrame && frame.length > 0) {
    const PutOffer& offer = end_.offers[frame.sequence & (end_.shape.offers() - 1)];
    const bool offered = loadAcquire(&offer.sequence) == frame.sequence + 1 && offer.length == frame.length &&
                         frame.length > kInlineBytes;
    if (offered) placed = kSlotPut;
    std::memcpy(offered ? kOwnAddressSpace.at(offer.offset) : end_.dataOf(slot, frame.length), data,
                frame.length);
  }
  granted_[frame.sequence & (granted_.size() - 1)].region.reset();
  end_.fill(frame.sequence, frame.length, static_cast<uint16_t>((frame.flags & kSlotFlags) | placed),
            frame.signature, frame.epoch);
  while (hasCome(arrived_)) ++arrived_;
}

}  // namespace eccl::transport::verbs
