// One end of a TCP connection, with sockets whose other ends the test has.
#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

#include "transport/net/handshake.h"
#include "transport/tcp/tcp_receiver.h"
#include "transport/tcp/tcp_sender.h"

namespace eccl::transport {

inline constexpr RingShape kShape{4, 256};

/// One end under test, the other a bare socket, or several.
template <class PathEnd, class RingEndKind>
struct Wire {
  explicit Wire(size_t bytesPerCall = SIZE_MAX, uint64_t first = 0, System& system = System::real(),
                size_t sockets = 1, uint32_t partBytes = 64, bool encrypts = false)
      : encrypts_(encrypts) {
    EXPECT_TRUE(reactor.open(System::real()).ok());
    TcpPath::Wiring wiring;
    wiring.socket = newSocket(system);
    wiring.reactor = &reactor;
    wiring.memory = mapPrivate(ringMemoryBytes(kShape)).take();
    wiring.onBroken = [this](const Breakage& why) {
      ++breaks;
      reason = why.reason;
    };
    wiring.onWantsMore = [this] { ++wants; };
    wiring.onSocketLost = [this](const SocketEnds&, const std::string& why) { losses.push_back(why); };
    wiring.bytesPerCall = bytesPerCall;
    wiring.partBytes = partBytes;
    formatRing(wiring.memory.get(), kShape, first);
    attachRing(end, wiring.memory.get(), kShape, first, 0);
    path = std::make_unique<PathEnd>(std::move(wiring), end);
    EXPECT_TRUE(path->open().ok());
    while (peers.size() < sockets) {
      Stream socket = newSocket(system);
      EXPECT_TRUE(path->addSocket(std::move(socket)).ok());
    }
  }
  /// A stream is a stream; TCP itself is in the conformance suite.
  Stream newSocket(System& system) {
    int pair[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair), 0);
    if (!encrypts_) {
      peers.emplace_back(Fd(pair[1]));
      return Fd(pair[0], system);
    }
    Secret secret;
    secret.encrypts = true;
    Handshake mine = Handshake::dialing(Fd(pair[0], system), secret, {}, {});
    Handshake theirs = Handshake::accepting(Fd(pair[1]), secret, {});
    for (int i = 0; i < 10; ++i) {
      mine.advance();
      theirs.advance();
    }
    peers.push_back(theirs.takeSocket());
    return mine.takeSocket();
  }
  void put(const void* bytes, size_t count, size_t socket = 0) {
    ASSERT_EQ(send(peers[socket].get(), bytes, count, MSG_NOSIGNAL), static_cast<ssize_t>(count));
    while (reactor.poll(Duration::zero())) {}
  }
  template <class MessageFrame>
  void put(const MessageFrame& frame) {
    put(&frame, sizeof frame);
  }
  std::string take(size_t socket = 0) {
    while (reactor.poll(Duration::zero())) {}
    char bytes[1 << 16];
    const ssize_t got = read(peers[socket].get(), bytes, sizeof bytes);
    return got > 0 ? std::string(bytes, static_cast<size_t>(got)) : "";
  }
  Reactor reactor;
  std::vector<Stream> peers;
  RingEndKind end;
  std::unique_ptr<PathEnd> path;
  int breaks = 0, wants = 0;
  std::string reason;
  std::vector<std::string> losses;  // of sockets without which the path goes on

 private:
  const bool encrypts_;
};
using Receiving = Wire<TcpReceiver, ReceiveEnd>;
using Sending = Wire<TcpSender, SendEnd>;

/// The frame of a whole message.
inline MessageFrame message(uint64_t sequence, uint32_t length) {
  return {sequence, 0, length, 0, length, 77, kSlotLast, 3, FrameKind::message};
}

/// A frame of a receiver.
inline MessageFrame creditOf(uint64_t released, FrameKind kind = FrameKind::credit) {
  return {.released = released, .kind = kind};
}

/// A frame of a sender that is no message.
inline MessageFrame word(FrameKind kind, uint64_t sequence = 0) {
  return {.sequence = sequence, .kind = kind};
}

}  // namespace eccl::transport
