// The receiving side of a connection: waits for the call, takes the memory offered or the TCP socket.
#pragma once

#include "transport/connect/link.h"
#include "transport/net/acceptor.h"
#include "transport/thread/thread_door.h"

namespace eccl::transport {

/// waiting → offered → answered (AF_UNIX), or waiting → ready at once (TCP). What fails on AF_UNIX leads back
/// to waiting: the dialer comes again by TCP.
class IncomingLink final : public Link {
 public:
  IncomingLink(LinkContext& context, ConnectionId id) : Link(context, id) {}
  /// A call that names this connection and fits its shape. A dialer tries one way after the other, so a new
  /// call ends an unfinished one. False: there is a connection already, and the caller is turned away.
  bool adopt(Incoming& incoming);
  /// The same for a thread of this process, whose connection is ready at once.
  bool adopt(ThreadOffer& offer);
  /// It holds descriptors that it will not need any more once the connection is ready.
  bool settingUp() const { return socket_.fd() >= 0; }

 private:
  void onReady(uint32_t events) override;
  void takeOffer(const SetupMessage& offer);
  Result<RingMemory> memoryOf(const SetupMessage& offer);
  void useMemory(uint64_t heapMapped);
  Status useTcp();
  void lose(const std::string& why);

  RingMemory memory_;
};

}  // namespace eccl::transport
