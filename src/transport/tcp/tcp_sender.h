// The sending end of a TCP connection.
#pragma once

#include <algorithm>

#include "transport/messages/credits.h"
#include "transport/tcp/lossy_sockets.h"
#include "transport/tcp/sent_parts.h"
#include "transport/tcp/tcp_path.h"

namespace eccl::transport {

/// Writes published messages straight from where they lie (inline, slot, or the user's memory for references)
/// and turns credits into released slots. Owner, threads, failure: see TcpPath.
///
/// What is to be sent is given to sockets in parts: each to the one in which the least waits, unsent or not
/// acknowledged, for its speed. So like rails carry alike, and a slower one less. A socket gets none while the
/// kernel does not take those it has, so a rail that stands still keeps little. One that loses packets gets
/// none for a while (LossySockets); the first then carries nothing but credits.
class TcpSender final : public TcpPath {
 public:
  /// `end` is attached to the Wiring's memory and outlives the path.
  TcpSender(Wiring wiring, SendEnd& end)
      : TcpPath(std::move(wiring), &end.control->receiverPoison), end_(end), message_(end.next) {
    twins_->sender = this;
  }
  ~TcpSender() override { twins_->sender = nullptr; }

  void kick() override;
  void poll() override;
  void askForReleases() override;
  void limitAhead(uint32_t messages) override { end_.most = std::min(messages, end_.shape.slots); }
  void weighSockets(const std::function<uint32_t(const SocketEnds&)>& megabits) override;
  void preferSockets(const std::function<bool(const SocketEnds&)>& takesLongOnes) override;
  void closeSpareSockets() override;
  std::vector<LossySocket> leaveOutLossy(TimePoint now) override;
  bool drained() const override { return end_.control->released == end_.next; }
  void endReceiving() override {}
  void poison() override;

  // For the twin.

  /// Looks for what has come over the first socket.
  void look() { receiveCredits(0); }
  /// A credit of the receiver, or its last words. False: the connection is broken or poisoned.
  bool take(const MessageFrame& credit);
  /// Messages that were released; false: that cannot be, and the connection is broken.
  bool release(const MessageFrame& frame);
  /// Short messages go over the twin's socket: whether one has been sent in part, or waits for room.
  bool ridesInPart() const { return ride_.partial > 0; }
  bool rideWaits() const { return live() && ride_.count > 0; }
  /// There is room.
  void rideOn();

 private:
  static constexpr size_t kBatch = 8;  // parts per system call

  /// A piece of a message, as it travels over one socket.
  struct Part {
    uint64_t message;
    uint32_t offset, bytes;
    uint64_t released;  // of the twin's messages, if `tells`
    bool tells;
  };
  /// What one socket is to send.
  struct Outbox {
    Part parts[kBatch];
    size_t count = 0;
    size_t partial = 0;     // bytes of the first part that the kernel has taken, header included
    bool blocked = false;   // until EPOLLOUT
    uint64_t load = 0;      // bytes that wait in the socket: when last asked, and what it was given since
    bool takesLong = true;  // parts of messages that are spread
    bool leftOut = false;   // for a while nothing, where another takes long ones
    size_t leaveLeft = 0;   // bytes of its last frame, if that was begun
    uint64_t number = 0;    // of all that ever joined
    SentParts sent;         // but for the first
    bool spare = false;     // it took no long messages when it ended
    double share = 1;       // of the bytes that go over all, in proportion
    double given = 0;       // bytes of payload, ever; of one that joins later as if it had been there
    MessageFrame credits[4];
    size_t creditBytes = 0;  // in credits
  };

  void onReady(size_t subflow, uint32_t events) override;
  void joined(size_t subflow) override;
  void giveUp(size_t subflow, const std::string& why) override;
  void lookAway(size_t subflow, const std::string& why);
  bool canSend() const;
  void sendMessages();
  bool takes(size_t subflow) const {
    return isOpen(subflow) && !isAside(subflow) && outboxes_[subflow].leaveLeft == 0;
  }
  bool mayTake(const Outbox& box) const;
  double mostGiven() const;
  void useOneAtLeast();
  void askForLoads();
  void give();
  Outbox* chooseFor(uint32_t length);
  void sendFrom(Outbox& box, size_t subflow);
  bool rides() const;
  void say(const MessageFrame& frame);
  void sendWords();
  void sendingFailed(size_t subflow, int error);
  void receiveCredits(size_t subflow);
  uint64_t sentWhole() const;
  CreditOrder creditOrder() const;
  bool refuse(const MessageFrame& frame);

  SendEnd& end_;
  std::deque<Outbox> outboxes_;  // by subflow
  Outbox ride_;                  // of the twin's first socket
  uint64_t message_;             // what is given next: of this message,
  uint32_t offset_ = 0;          // from here on
  std::string words_;            // frames that are no messages, and parts that were lost: over the first socket
  size_t wordsSent_ = 0;         // of these
  bool asks_ = false;            // for releases
  uint64_t joined_ = 0;          // sockets, ever
  LossySockets lossy_;           // by subflow
};

}  // namespace eccl::transport
