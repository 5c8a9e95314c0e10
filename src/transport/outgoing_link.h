// The sending side of a connection: dials, offers memory, falls back to TCP.
#pragma once

#include "transport/fault/fault_path.h"
#include "transport/link.h"
#include "transport/net/dialer.h"

namespace eccl {

/// dialing → offered (AF_UNIX) or waiting (TCP) → ready. See setup.h for what is said.
class OutgoingLink final : public Link {
 public:
  OutgoingLink(LinkContext& context, ConnectionId id) : Link(context, id) {}
  ~OutgoingLink() override {
    stopDialing();
    withdraw();
  }
  /// Begins, by the best way the settings allow.
  void start();
  bool pending() const override { return dialer_ != nullptr || fault_ != nullptr; }
  void progress() override;
  TimePoint nextDeadline() const override;
  void abandon(const Status& why) override;
  void closeAfterFork() override;

 private:
  void onReady(uint32_t events) override;
  void dial(Via via);
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

  std::unique_ptr<Dialer> dialer_;
  Via via_ = Via::tcp;
  bool local_ = false;          // socket_ is AF_UNIX
  bool thread_ = false;         // the peer is in this process
  RingMemory memory_;           // offered
  Nonce nonce_{};               // of the offer
  bool left_ = false;           // memory_ lies in the hand-over table
  std::string tried_;           // what failed before, for messages
  FaultPath* fault_ = nullptr;  // connection's path, if decorated
};

}  // namespace eccl
