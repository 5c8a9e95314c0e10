// What a receiver tells its sender of released slots, and what the sender makes of it.
#pragma once

#include "transport/messages/message_frame.h"

namespace eccl::transport {

/// What a receiver still has to tell its sender. Credits are held back until half a ring, or of its long
/// messages, is released, or until the driver has nothing to do; those that the sender waits for, until the
/// lane needs the connection no more; none that it waits for soon, and none after it asked.
///
/// Owner and threads: the receiving path's.
class CreditsDue {
 public:
  /// `end` outlives this.
  explicit CreditsDue(const ReceiveEnd& end);
  /// The header of a message has come.
  void onMessage(const MessageFrame& frame);
  /// The sender asks; false: it cannot ask so.
  bool onAsk(const MessageFrame& frame);
  /// Nothing more will be taken: the next frame is the last.
  void end() { ends_ = true; }

  bool asked() const { return asked_; }
  /// There is something to tell.
  bool owed() const { return told_ != end_.next || ends_; }
  /// It is worth telling now, as the lane has released something: fewer small packets, and the sender never
  /// runs dry.
  bool due() const;
  /// The sender waits for some of it.
  bool awaited() const;
  /// The frame that tells all; what it tells counts as told.
  MessageFrame take();
  /// Releases so far, for a message that tells them; they count as told.
  uint64_t tell() { return told_ = end_.next; }

 private:
  const ReceiveEnd& end_;
  uint64_t told_;        // releases the sender knows of
  uint64_t wanted_;      // the sender waits for the releases before this one
  uint64_t wantedSoon_;  // the sender waits for each release before this one
  uint64_t long_;        // the last long message that came is the one before this
  bool asked_ = false;   // nothing is held back any more
  bool ends_ = false;
};

/// A lane of the sender waits for releases: it has no room, or has sent what refers to memory of the caller.
inline bool awaitsReleases(SendEnd& end) {
  return !end.getsReleased() || end.next - end.control->released >= end.most;
}

/// How the receiver's words may come: as they were sent, or an earlier one behind a later one.
enum class CreditOrder : uint8_t { asSent, any };

/// Messages before number `released` were released, says the receiver. `sent`: messages before this one have
/// been sent. False: that cannot be, and nothing is changed.
bool takeReleases(SendEnd& end, uint64_t released, uint64_t sent, CreditOrder order);
/// The same of a frame, which may be the last.
bool takeCredit(SendEnd& end, const MessageFrame& credit, uint64_t sent, CreditOrder order);

}  // namespace eccl::transport
