// The sending side of a connection: tries one transport after the other.
#pragma once

#include "transport/connect/flow_placing.h"
#include "transport/connect/link.h"
#include "transport/connect/thread_listener.h"
#include "transport/connect/widening.h"
#include "transport/fault/fault_path.h"
#include "transport/net/descriptors.h"
#include "transport/net/dialer.h"

namespace eccl::transport {

/// States: offered in this process → ready, or: its turn → dialing → offered → ready. See setup.h for what is
/// said.
///
/// A link that waits for its turn, or has been told to come later, holds no descriptor. An offer by AF_UNIX
/// that the peer has not asked for is taken back when others wait for their turn, and is made again later.
class OutgoingLink final : public Link {
 public:
  OutgoingLink(LinkContext& context, ConnectionId id) : Link(context, id) {}
  ~OutgoingLink() override {
    stopDialing();
    withdraw();
  }
  /// Begins, by the best transport that the settings allow.
  void start() { tryFrom(0); }
  bool pending() const override {
    return wanted_ || dialer_ != nullptr || call_ != nullptr || turn_.held() || fault_ != nullptr || widens() ||
           (placing_ != nullptr && placing_->pending());
  }
  void progress() override;
  TimePoint nextDeadline() const override;
  void look() override {
    if (widening_ != nullptr) widening_->look();
    if (widens()) context_.onPending(*this);
    if (placing_ != nullptr) placing_->look();
  }
  void abandon(const Status& why) override;
  void closeAfterFork() override;

 private:
  void onReady(uint32_t events) override;
  void tryFrom(size_t index);
  void tryNext(const Status& why, bool unreached = false);
  void note(const Status& why);
  void giveUp();
  bool last() const;
  const TransportEntry& entry() const { return context_.transports.entry(current_); }
  Hello hello() const;
  Status makeOffer();
  bool callThread();
  void lookAtCall();
  void dial();
  void beginDialing();
  bool isShortForLong();
  void waitForDescriptors();
  void comeLater(Duration wait);
  void recall();
  void stopDialing();
  void dialed(Stream socket);
  Status sendOffer();
  void onAnswer(SetupMessage& answer);
  Status takeAnswer(SetupData& answer);
  void open();
  Result<std::unique_ptr<Path>> makePath();
  void withdraw();
  void widen() override;
  void narrowed(const SocketEnds& lost, const std::string& why) override {
    if (widening_ != nullptr) widening_->lost(lost, why);
  }
  bool widens() const { return widening_ != nullptr && widening_->pending(); }
  void growFlows();

  size_t current_ = 0;  // the transport that is being tried
  SetupTurn turn_;
  bool wanted_ = false;  // a dial is to begin at until_
  TimePoint until_{};
  TimePoint shortSince_ = TimePoint::max();  // there have been no descriptors
  TimePoint recall_{};                       // when the offer may be taken back for others
  Duration hold_ = std::chrono::milliseconds(20);
  std::unique_ptr<Dialer> dialer_;
  std::unique_ptr<Offer> offer_;
  SetupData content_;                 // of offer_, until it is sent
  std::shared_ptr<ThreadCall> call_;  // to a thread of this process
  std::string tried_;                 // what failed before, for messages
  Code failure_ = Code::remote;       // the latest
  FaultPath* fault_ = nullptr;        // connection's path, if decorated
  std::unique_ptr<Widening> widening_;
  std::unique_ptr<FlowPlacing> placing_;
};

}  // namespace eccl::transport
