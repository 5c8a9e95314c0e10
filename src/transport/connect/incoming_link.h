// The receiving side of a connection: waits for the call and takes what is offered.
#pragma once

#include "transport/connect/link.h"
#include "transport/connect/thread_listener.h"
#include "transport/net/acceptor.h"

namespace eccl::transport {

/// waiting → called → answered → ready. What fails leads back to waiting: the dialer comes again by another
/// transport.
class IncomingLink final : public Link {
 public:
  IncomingLink(LinkContext& context, ConnectionId id) : Link(context, id) {}
  /// A call that names this connection and fits its shape. A dialer tries one transport after the other, so a
  /// new call ends an unfinished one. False: there is a connection already, and the caller is turned away.
  bool adopt(Incoming& incoming);
  /// The same for a thread of this process.
  bool adopt(ThreadCall& call);
  /// Whether it holds descriptors that it will give up when the connection is ready.
  bool settingUp() const { return local_ && socket_.fd() >= 0; }
  void abandon(const Status& why) override;

 private:
  void onReady(uint32_t events) override;
  void takeOffer(size_t transport, SetupMessage& offer);
  void takeConfirmation(SetupMessage& message);
  Result<std::unique_ptr<Acceptance>> accept(size_t transport, SetupData& offer, SetupData* answer);
  void open();
  void forbid(const std::string& transport, const std::string& why);
  void lose(const std::string& why);

  bool local_ = false;  // socket_ is AF_UNIX
  int32_t caller_ = 0;  // Incoming::pid
  std::unique_ptr<Acceptance> acceptance_;
};

}  // namespace eccl::transport
