#include "transport/messages/credits.h"

#include <algorithm>
#include <utility>

namespace eccl::transport {

CreditsDue::CreditsDue(const ReceiveEnd& end)
    : end_(end), told_(end.next), wanted_(end.next), wantedSoon_(end.next), long_(end.next) {}

void CreditsDue::onMessage(const MessageFrame& frame) {
  const auto raise = [&](uint64_t& until) {
    if (static_cast<int64_t>(frame.sequence + 1 - until) > 0) until = frame.sequence + 1;
  };
  if ((frame.flags & kWantsCredit) != 0) raise(wanted_);
  if ((frame.flags & kWantsCreditSoon) != 0) raise(wantedSoon_);
  if (frame.length > end_.shape.shortBytes) raise(long_);
}

// It may have waited while others carried messages.
bool CreditsDue::onAsk(const MessageFrame& frame) {
  if (static_cast<int64_t>(frame.sequence - end_.next) > int64_t{end_.shape.slots} || frame.length != 0)
    return false;
  return asked_ = true;
}

bool CreditsDue::due() const {
  const bool soon = asked_ || static_cast<int64_t>(wantedSoon_ - told_) > 0;
  const uint32_t most = static_cast<int64_t>(long_ - told_) > 0 ? end_.shape.mostLong() : end_.shape.slots;
  return end_.next - told_ >= (soon ? 1 : std::max(1u, most / 2));
}

bool CreditsDue::awaited() const {
  return static_cast<int64_t>(wanted_ - told_) > 0 && told_ != end_.next;
}

MessageFrame CreditsDue::take() {
  MessageFrame frame{};
  frame.kind = std::exchange(ends_, false) ? FrameKind::end : FrameKind::credit;
  frame.released = tell();
  return frame;
}

// Only messages that were sent can have been released.
bool takeReleases(SendEnd& end, uint64_t released, uint64_t sent, CreditOrder order) {
  const uint64_t before = end.control->released, more = released - before;
  if (order == CreditOrder::any && static_cast<int64_t>(more) <= 0) return true;
  if (more > sent - before) return false;
  storeRelease(&end.control->released, released);  // pairs with SendEnd::reserve
  return true;
}

bool takeCredit(SendEnd& end, const MessageFrame& credit, uint64_t sent, CreditOrder order) {
  const bool ends = credit.kind == FrameKind::end;
  if ((credit.kind != FrameKind::credit && !ends) || credit.length != 0 || credit.bytes != 0) return false;
  if (!takeReleases(end, credit.released, sent, order)) return false;
  if (ends) storeRelease(&end.control->receiverEnded, 1u);  // pairs with SendEnd::untaken
  return true;
}

}  // namespace eccl::transport
