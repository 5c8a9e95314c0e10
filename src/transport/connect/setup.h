// What two Connectors say to each other between the handshake and the first message.
//
//   dialer → offer { transport, content }, unless the call itself makes the offer (DataHello::transport)
//   acceptor → accepted { content } | otherWay { why } | refused { why } | later { milliseconds }
//   dialer → confirmed { content }, unless the answer had no content
//
// After otherWay, or if the dialer does not like the answer, it hangs up and comes by its next transport. After
// later it hangs up and comes back by the same one. The contents are the transport's (core/transport.h).
// Threads of one process say the same without a socket: thread_listener.h.
#pragma once

#include <optional>
#include <string_view>

#include "transport/core/transport.h"
#include "transport/net/handshake.h"

namespace eccl::transport {

/// Names a transport in a Hello: a hash of its name, from 1 to kFurtherSocket - 1. The same on all ranks.
uint16_t transportId(std::string_view name);
/// Set beside the id: the dialer has no other transport.
inline constexpr uint16_t kLastTransport = 0x8000;
/// In the place of an id: this socket is for a connection that is there already (Path::addSocket()).
inline constexpr uint16_t kFurtherSocket = 0x7fff;

/// Hello::payload of a data connection.
struct DataHello {
  int32_t from, to;
  int16_t channel, tag;
  uint32_t slots, slotBytes;
  uint16_t epoch, transport;  // transport: what an offer without content is of; 0: the offer follows
  uint64_t firstMessage;
  ConnectionId id() const { return {from, to, channel, tag}; }
};
static_assert(sizeof(DataHello) == sizeof(Hello::payload));

/// The messages of a set-up, as above. Values go over the wire.
enum class SetupKind : uint32_t {
  offer = 2,
  accepted = 3,
  confirmed = 4,
  otherWay = 5,
  refused = 6,
  later = 7
};

/// One message of a set-up. Fields that its kind has no use for are empty.
struct SetupMessage {
  SetupKind kind{};
  uint32_t milliseconds = 0;  // of `later`
  bool last = false;          // of `offer`: the dialer has no other transport
  std::string transport;      // of `offer`
  std::string why;            // cut to what fits
  SetupData data;
};
/// A message of this kind, with a reason or "".
SetupMessage saying(SetupKind kind, const std::string& why);

/// Sends and receives SetupMessages, with descriptors on AF_UNIX. Owns the socket until take(). Non-blocking;
/// one thread.
class SetupSocket {
 public:
  SetupSocket() = default;
  explicit SetupSocket(Stream socket) : socket_(std::move(socket)) {}
  int fd() const { return socket_.get(); }
  const Fd& socket() const { return socket_.fd(); }
  Stream take() { return std::move(socket_); }
  /// Sends all of it or fails: a fresh socket has room, so that too little of it is an error. Where a part of
  /// it may have gone or may still go, further ones fail: the peer would take them for the path's. The peer
  /// gets the descriptors, and those that were not lent are closed here. Errors: system if the socket does not
  /// take it, internal if the transport said too much. Not logged.
  Status send(SetupMessage message);
  /// A message, or nothing while it is incomplete. Reads no byte after the message, so what follows is the
  /// path's. Errors: remote at the end of the stream and for garbage, system if the socket is broken. Not
  /// logged.
  Result<std::optional<SetupMessage>> receive();
  /// Whether descriptors that came could not be taken, because this process has too many open, or those to be
  /// sent, because too many of this user are in messages that nobody has read.
  bool lostDescriptors() const { return lostDescriptors_; }

 private:
  /// Fixed size, sent as it lies in memory; `bytes` of content follow.
  struct Header {
    uint32_t magic = kWireMagic;
    SetupKind kind{};
    uint32_t bytes = 0, milliseconds = 0, last = 0;
    char transport[20] = {};
    char why[88] = {};
  };
  static_assert(sizeof(Header) == 128);
  Result<bool> fill(void* to, size_t bytes);

  Stream socket_;
  Header header_;
  SetupData data_;  // of the message that is being received
  size_t got_ = 0;  // of header and content
  bool lostDescriptors_ = false;
  bool torn_ = false;  // what was sent last may have gone in part
};

}  // namespace eccl::transport
