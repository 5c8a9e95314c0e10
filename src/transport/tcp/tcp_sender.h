// The sending end of a TCP connection.
#pragma once

#include "transport/tcp/frames.h"
#include "transport/tcp/tcp_path.h"

namespace eccl::transport {

/// Writes published messages straight from where they lie (inline, slot, or the user's memory for references)
/// and turns credits into released slots. Owner, threads, failure: see TcpPath.
class TcpSender final : public TcpPath {
 public:
  /// `end` is attached to the Wiring's memory and outlives the path.
  TcpSender(Wiring wiring, SendEnd& end)
      : TcpPath(std::move(wiring), &end.control->receiverPoison), end_(end), sent_(end.next) {}

  void kick() override;
  void poll() override;
  void askForReleases() override;
  bool drained() const override { return end_.control->released == end_.next; }
  void endReceiving() override {}
  void poison() override;

 private:
  void onReady(uint32_t events) override;
  void sendMessages();
  void sendAsk();
  void sendingFailed(int error);
  void receiveCredits();
  bool take(const CreditFrame& credit);

  static constexpr int kBatch = 8;  // messages per system call
  SendEnd& end_;
  uint64_t sent_;         // messages the kernel has taken whole
  size_t partial_ = 0;    // bytes of message sent_ it has taken, header included
  bool blocked_ = false;  // until EPOLLOUT
  size_t askLeft_ = 0;    // bytes of a frame that asks which have not been sent
  CreditFrame credits_[16];
  size_t creditBytes_ = 0;  // in credits_
};

}  // namespace eccl::transport
