#include "transport/ucx/ucx_receiver.h"

#include <cstring>

namespace eccl::transport {

UcxReceiver::UcxReceiver(Wiring wiring, ReceiveEnd& end)
    : UcxPath(std::move(wiring), &end.control->senderPoison, end.shape.slots + 1),
      end_(end),
      assemblies_(end),
      credits_(end) {}

// The end of the socket may overtake a credit that UCX has.
UcxReceiver::~UcxReceiver() {
  if (live()) tell({.kind = UcxWord::Kind::credit, .released = end_.next});
  close();
}

// Eager data is copied here; other data comes on its own way to its place.
void UcxReceiver::take(const MessageFrame& frame, const UcxData& data) {
  if (!live()) return;
  if (!toldMet()) return refuse(frame, data.bytes, "the two have not met");
  if (frame.kind == FrameKind::ask) {
    if (data.bytes > 0 || !credits_.onAsk(frame))
      return refuse(frame, data.bytes, "it asks for what was not sent");
    return callLater();
  }
  const char* wrong = nullptr;
  if (frame.bytes != data.bytes || frame.bytes != frame.length || frame.offset != 0)
    return refuse(frame, data.bytes, "its data has another length");
  Assemblies::Message* const message = assemblies_.begin(frame, &wrong);
  if (message == nullptr) return refuse(frame, data.bytes, wrong);
  credits_.onMessage(frame);
  if (data.rendezvous) {
    UcxOperation& receiving = receiveOf(frame.sequence);
    receiving.message = message;
    if (receive(receiving, data, message->data)) assemblies_.add(*message, frame.bytes);
    return;
  }
  if (data.bytes > 0) std::memcpy(message->data, data.at, data.bytes);
  assemblies_.add(*message, frame.bytes);
}

void UcxReceiver::refuse(const MessageFrame& frame, size_t bytes, const char* wrong) {
  breakLater(
      format("it sent a message that cannot be: %s (kind %u, number %llu, expected from %llu on, %zu bytes of "
             "%u, slots of %u bytes); is it another version of ECCL?",
             wrong, static_cast<unsigned>(frame.kind), static_cast<unsigned long long>(frame.sequence),
             static_cast<unsigned long long>(end_.next), bytes, frame.length, end_.shape.slotBytes));
}

void UcxReceiver::ended(UcxOperation& operation) {
  if (&operation != &crediting()) return assemblies_.add(*operation.message, operation.message->frame.bytes);
  crediting_ = false;
  if (credits_.due() || credits_.awaited()) callLater();
}

void UcxReceiver::kick() {
  if (credits_.due()) sendCredit();
}

void UcxReceiver::settle() {
  if (credits_.awaited()) sendCredit();
}

void UcxReceiver::flush() {
  if (credits_.owed()) sendCredit();
}

void UcxReceiver::sendCredit() {
  if (!live() || crediting_) return;
  crediting_ = !send(crediting(), credits_.take(), nullptr, 0);
}

void UcxReceiver::endReceiving() {
  if (!live()) return;
  credits_.end();
  tell({.kind = UcxWord::Kind::end, .released = credits_.take().released});
}

}  // namespace eccl::transport
