// The receiving end of a TCP connection.
#pragma once

#include "transport/tcp/frames.h"
#include "transport/tcp/tcp_path.h"

namespace eccl::transport {

/// Reads messages into the ring, or straight into the user's memory where an offer allows, and sends the
/// sender credits for what was released. Owner, threads, failure: see TcpPath.
///
/// One system call reads the rest of the current payload into its place and whatever follows into a small
/// stage, so that a large message costs one call and many small ones share one. Credits are held back until
/// half a ring is released, or flush(); those that the sender waits for, until settle(); none after it asked.
class TcpReceiver final : public TcpPath {
 public:
  /// `end` is attached to the Wiring's memory and outlives the path.
  TcpReceiver(Wiring wiring, ReceiveEnd& end);

  void kick() override;
  void poll() override;
  void settle() override;
  void flush() override;
  bool drained() const override { return told_ == end_.next && creditLeft_ == 0; }
  void endReceiving() override;
  void poison() override;

 private:
  void onReady(uint32_t events) override;
  void takeStage();
  bool begin(const MessageFrame& frame);
  void publish();
  void sendCredit();
  void sendingFailed(int error);

  static constexpr size_t kStage = 4096;
  static constexpr int kCallsPerReady = 16;  // then others have their turn

  ReceiveEnd& end_;
  SendEnd producer_;  // this path is the sender of the local ring
  MessageFrame frame_{};
  std::byte* target_ = nullptr;  // where the rest of the current payload goes
  size_t missing_ = 0;           // how much of it has not come
  uint16_t placed_ = 0;          // kSlotPut if target_ is the user's memory
  size_t staged_ = 0;
  alignas(MessageFrame) std::byte stage_[kStage];
  uint64_t told_;       // releases the sender knows of, or will from `credit_`
  uint64_t wanted_;     // the sender waits for the releases before this one
  bool asked_ = false;  // nothing is held back any more
  CreditFrame credit_{};
  size_t creditLeft_ = 0;  // bytes of credit_ not yet sent
  bool ends_ = false;      // the next credit is the last
  bool failing_ = false;   // a credit could not be sent
};

}  // namespace eccl::transport
