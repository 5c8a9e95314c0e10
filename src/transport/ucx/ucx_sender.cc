#include "transport/ucx/ucx_sender.h"

namespace eccl::transport {

UcxSender::UcxSender(Wiring wiring, SendEnd& end)
    : UcxPath(std::move(wiring), &end.control->receiverPoison, end.shape.slots + 1),
      end_(end),
      message_(end.next),
      done_(end.next),
      credited_(end.next) {}

void UcxSender::kick() {
  if (message_ == end_.next || !met()) return;
  while (live() && message_ != end_.next) {
    Slot& slot = *end_.slot(message_);
    UcxOperation& sending = sendOf(message_);
    const MessageFrame frame = frameOf(end_, message_);
    ++message_;
    if (!send(sending, frame, slot.length > 0 ? payloadOf(end_, slot) : nullptr, slot.length) &&
        !sending.underWay)
      return;
  }
  release();
}

// A look may be a system call: where nothing is under way and no lane waits for room, there is nothing to find.
void UcxSender::poll() {
  if (done_ != message_ || awaitsReleases(end_)) look();
}

void UcxSender::ended(UcxOperation& operation) {
  if (&operation != &ask()) release();
}

// What both sides have done with, in order.
void UcxSender::release() {
  while (done_ != message_ && !sendOf(done_).underWay) ++done_;
  const uint64_t both = static_cast<int64_t>(credited_ - done_) < 0 ? credited_ : done_;
  if (both != end_.control->released)
    storeRelease(&end_.control->released, both);  // pairs with SendEnd::reserve
  if (ends_ && both == credited_)
    storeRelease(&end_.control->receiverEnded, 1u);  // pairs with SendEnd::untaken
}

// False: it cannot be. Credits come by two ways, so an earlier one may come behind a later one.
bool UcxSender::credit(uint64_t released) {
  const uint64_t more = released - credited_;
  if (static_cast<int64_t>(more) > 0) {
    if (more > message_ - credited_) return false;
    credited_ = released;
  }
  release();
  return true;
}

void UcxSender::take(const MessageFrame& frame, const UcxData& data) {
  if (!live()) return;
  if (frame.kind == FrameKind::credit && frame.length == 0 && data.bytes == 0 && credit(frame.released)) return;
  breakLater(
      format("it sent a credit that cannot be (kind %u, %llu messages released of %llu sent, %zu bytes); is it "
             "another version of ECCL?",
             static_cast<unsigned>(frame.kind), static_cast<unsigned long long>(frame.released),
             static_cast<unsigned long long>(message_), data.bytes));
}

bool UcxSender::hear(const UcxWord& word) {
  if (word.kind != UcxWord::Kind::credit && word.kind != UcxWord::Kind::end) return false;
  ends_ |= word.kind == UcxWord::Kind::end;
  return credit(word.released);
}

void UcxSender::askForReleases() {
  if (!live() || drained()) return;
  asks_ = true;
  sendAsk();
}

void UcxSender::sendAsk() {
  if (ask().underWay || !met() || !std::exchange(asks_, false)) return;
  send(ask(), {.sequence = message_, .kind = FrameKind::ask}, nullptr, 0);
}

void UcxSender::goOn() {
  sendAsk();
}

}  // namespace eccl::transport
