#include "transport/messages/assemblies.h"

namespace eccl::transport {

Assemblies::Assemblies(ReceiveEnd& end)
    : end_(end), messages_(std::make_unique<Message[]>(end.shape.slots)), reclaimed_(end.next) {
  const auto lines = static_cast<uint32_t>(end.shape.slotBytes / kCacheLine);
  for (uint32_t area = end.shape.mostLong(); area > 0; --area) free_.push_back((area - 1) * lines);
}

const char* Assemblies::faultOf(const MessageFrame& frame) const {
  const Message& message = messages_[frame.sequence & (end_.shape.slots - 1)];
  const bool begun = message.begun && message.number == frame.sequence;
  if (frame.kind != FrameKind::message) return "its kind is unknown";
  if (frame.length > end_.shape.slotBytes) return "it is longer than a slot";
  if (frame.sequence - end_.next >= end_.shape.slots) return "it exceeds the credits given";
  if ((frame.flags & ~uint32_t{kWireFlags}) != 0) return "its flags are unknown";
  if (frame.offset > frame.length || frame.bytes > frame.length - frame.offset ||
      (frame.bytes == 0 && frame.length > 0))
    return "it has no such part";
  if (begun ? frame.length != message.frame.length || frame.bytes > message.unclaimed || message.missing == 0
            : loadRelaxed(&end_.slot(frame.sequence)->sequence) == frame.sequence + 1)
    return "it has come already";
  return nullptr;
}

Assemblies::Message* Assemblies::begin(const MessageFrame& frame, const char** wrong) {
  if ((*wrong = faultOf(frame)) != nullptr) return nullptr;
  Message& message = messages_[frame.sequence & (end_.shape.slots - 1)];
  if (message.begun && message.number == frame.sequence) {
    message.unclaimed -= frame.bytes;
    return &message;
  }
  reclaim();
  const PutOffer& offer = end_.offers[frame.sequence & (end_.shape.offers() - 1)];
  // Pairs with ReceiveEnd::offer. An offer that comes later than this is not used.
  const bool offered = loadAcquire(&offer.sequence) == frame.sequence + 1 && offer.length == frame.length &&
                       frame.length > kInlineBytes;
  if (!offered && takesArea(frame.length) && free_.empty()) {
    *wrong = "more long ones are on their way than may be";
    return nullptr;
  }
  message = {frame.sequence, true, 0, frame, nullptr, frame.length, frame.length - frame.bytes};
  message.placed = offered ? kSlotPut : 0;
  message.data = offered ? reinterpret_cast<std::byte*>(offer.offset) : place(frame.sequence, frame.length);
  return &message;
}

std::byte* Assemblies::place(uint64_t number, uint32_t length) {
  Slot& slot = *end_.slot(number);
  if (takesArea(length)) {
    slot.area = free_.back();
    free_.pop_back();
  }
  return end_.dataOf(slot, length);
}

// Of messages that were released. Before their places in the ring, and here, are taken by others.
void Assemblies::reclaim() {
  for (; reclaimed_ != end_.next; ++reclaimed_) {
    const Message& old = messages_[reclaimed_ & (end_.shape.slots - 1)];
    if (old.placed == 0 && takesArea(old.frame.length)) free_.push_back(end_.slot(reclaimed_)->area);
  }
}

bool Assemblies::isComplete(uint64_t number) const {
  if (static_cast<int64_t>(number - end_.next) < 0) return true;
  return number - end_.next < end_.shape.slots && loadRelaxed(&end_.slot(number)->sequence) == number + 1;
}

void Assemblies::add(Message& message, uint32_t bytes) {
  message.missing -= bytes;
  if (message.missing > 0) return;
  const MessageFrame& frame = message.frame;
  // The epoch is the sender's, for the lane to judge.
  end_.fill(message.number, frame.length, (frame.flags & kSlotFlags) | message.placed, frame.signature,
            frame.epoch);
}

}  // namespace eccl::transport
