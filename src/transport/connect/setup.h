// What two Connectors say to each other between the handshake and the first message.
//
//   unix:  dialer → shm { nonce, bytes } + doorbell + ring [+ heap]
//          acceptor → accepted { nonce } + doorbell [+ heap] | otherWay { why } | refused { why } | later {
//          bytes } dialer → go
//   tcp:   acceptor → accepted | refused { why } | later { bytes }
//
// Both nonces are also written into the memory itself and read there by the other side. After otherWay, or if
// the dialer does not find the acceptor's nonce, it hangs up and comes back by TCP. After
// later it hangs up and comes back by the same way, after so many milliseconds. Each side gives the heap from
// which its user memory comes, if it has one, and says whether it has mapped the other's: without that no
// references and grants into it are sent. Threads of one process say nothing of this: thread/thread_door.h.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <vector>

#include "transport/core/connection.h"
#include "transport/core/ring_memory.h"
#include "transport/net/handshake.h"

namespace eccl::transport {

/// Hello::payload of a data connection.
struct DataHello {
  int32_t from, to;
  int16_t channel, tag;
  uint32_t slots, slotBytes;
  uint16_t epoch, zero;
  uint64_t firstMessage;
  ConnectionId id() const { return {from, to, channel, tag}; }
};
static_assert(sizeof(DataHello) == sizeof(Hello::payload));

enum class SetupKind : uint32_t { shm = 2, accepted = 3, go = 4, otherWay = 5, refused = 6, later = 7 };

/// Fixed size, sent as it lies in memory.
struct SetupMessage {
  uint32_t magic = kWireMagic;
  SetupKind kind{};
  uint64_t bytes = 0;      // of the ring; in `later`, milliseconds
  uint64_t heapBytes = 0;  // of the heap whose descriptor comes last; 0: none does
  uint64_t heapUsed = 0;   // from its beginning
  uint64_t mapped = 0;     // of the heap that was given: so much can be used here
  Nonce nonce{};
  char why[72] = {};
};
static_assert(sizeof(SetupMessage) == 128);
SetupMessage saying(SetupKind kind, const std::string& why);

/// Sends and receives SetupMessages, with descriptors on AF_UNIX. Non-blocking; one thread.
class SetupSocket {
 public:
  SetupSocket() = default;
  explicit SetupSocket(Fd socket) : socket_(std::move(socket)) {}
  int fd() const { return socket_.get(); }
  Fd take() { return std::move(socket_); }
  /// Whole or not at all: a fresh socket has room, so that none is an error.
  Status send(const SetupMessage& message, std::span<const int> fds = {});
  /// Nothing while incomplete. Reads no byte after the message. Errors: the end of the stream, and garbage.
  Result<std::optional<SetupMessage>> receive();
  /// Descriptors that came with messages, in order.
  std::vector<Fd> fds;
  /// Some that came could not be taken, for this process has too many.
  bool lostDescriptors = false;

 private:
  Fd socket_;
  SetupMessage incoming_;
  size_t got_ = 0;
};

}  // namespace eccl::transport
