// The sending side of a connection: dials, offers memory, falls back to TCP.
#pragma once

#include "transport/connect/link.h"
#include "transport/fault/fault_path.h"
#include "transport/net/descriptors.h"
#include "transport/net/dialer.h"
#include "transport/thread/thread_door.h"

namespace eccl::transport {

/// offered in this process → ready, or: its turn → dialing → offered (AF_UNIX) or waiting (TCP) → ready. See
/// setup.h for what is said. Whoever waits for its turn or has been told to come later holds no descriptor, and
/// an offer by AF_UNIX that nobody has asked for is taken back when others wait for their turn.
class OutgoingLink final : public Link {
 public:
  OutgoingLink(LinkContext& context, ConnectionId id) : Link(context, id) {}
  ~OutgoingLink() override {
    stopDialing();
    withdraw();
  }
  /// Begins, by the best way the settings allow.
  void start();
  bool pending() const override {
    return wanted_ || dialer_ != nullptr || offer_ != nullptr || turn_.held() || fault_ != nullptr;
  }
  void progress() override;
  TimePoint nextDeadline() const override;
  void abandon(const Status& why) override;
  void closeAfterFork() override;

 private:
  void onReady(uint32_t events) override;
  Hello hello() const;
  void takeNext();
  bool offerToThread();
  void lookAtOffer();
  Status useThread();
  void dial(Via via);
  void beginDialing();
  void waitForDescriptors();
  void comeLater(Duration wait);
  void recall();
  void stopDialing();
  void dialed(Fd socket);
  Status offer();
  void onAnswer(const SetupMessage& answer);
  Status acceptMemory(const SetupMessage& answer);
  void takeTcp(const std::string& why);
  void withdraw();
  /// Makes the path with `make`, under the fault decorator if there is one.
  template <class Make>
  Status establish(const char* name, const Make& make);

  std::shared_ptr<ThreadOffer> offer_;  // to a thread of this process
  SetupTurn turn_;
  bool wanted_ = false;  // a dial is to begin at until_
  TimePoint until_{};
  TimePoint shortSince_ = TimePoint::max();  // there have been no descriptors
  TimePoint recall_{};                       // when the offer may be taken back for others
  Duration hold_ = std::chrono::milliseconds(20);
  std::unique_ptr<Dialer> dialer_;
  Via via_ = Via::tcp;
  bool local_ = false;          // socket_ is AF_UNIX
  RingMemory memory_;           // offered
  Nonce nonce_{};               // of the offer
  std::string tried_;           // what failed before, for messages
  FaultPath* fault_ = nullptr;  // connection's path, if decorated
};

}  // namespace eccl::transport
