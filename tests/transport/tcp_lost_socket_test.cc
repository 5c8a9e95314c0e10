// A TCP connection that goes on without one of its sockets.
#include <gmock/gmock.h>

#include <random>

#include "transport/wire.h"

namespace eccl::transport {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

const auto kNothingIsDown = [](const SocketAddress&) { return std::string(); };

std::string contentOf(uint64_t number, uint32_t from, uint32_t count) {
  std::string bytes;
  for (uint32_t i = 0; i < count; ++i) bytes += static_cast<char>(number * 37 + from + i);
  return bytes;
}

/// A part as it goes over socket `socket`.
std::string partOver(uint64_t socket, uint64_t number, uint32_t length, uint32_t from, uint32_t count,
                     uint16_t flags = 0) {
  MessageFrame frame = message(number, length);
  frame.released = socket;
  frame.offset = from;
  frame.bytes = count;
  frame.flags |= flags;
  return std::string(reinterpret_cast<const char*>(&frame), sizeof frame) + contentOf(number, from, count);
}

std::string wordOf(FrameKind kind, uint64_t sequence) {
  const MessageFrame frame = word(kind, sequence);
  return std::string(reinterpret_cast<const char*>(&frame), sizeof frame);
}

void give(Receiving& wire, const std::string& bytes, size_t socket) {
  wire.put(bytes.data(), bytes.size(), socket);
}

/// Takes the next message, which is as it was sent.
void expectNext(Receiving& wire, uint32_t length) {
  Received received;
  ASSERT_TRUE(wire.end.peek(received)) << wire.reason;
  ASSERT_EQ(received.length, length);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(received.data), length),
            contentOf(wire.end.next, 0, length));
  wire.end.release();
}

void publishNext(SendEnd& end, uint32_t length) {
  ASSERT_NE(end.reserve(), nullptr);
  const std::string bytes = contentOf(end.next, 0, length);
  std::memcpy(end.place(length), bytes.data(), length);
  end.publish(length, 0, 0);
}

/// How many frames of this kind are in a stream.
size_t framesIn(const std::string& stream, FrameKind kind) {
  size_t found = 0;
  for (size_t at = 0; at + sizeof(MessageFrame) <= stream.size();) {
    MessageFrame frame;
    std::memcpy(&frame, stream.data() + at, sizeof frame);
    found += frame.kind == kind;
    at += sizeof frame + frame.bytes;
  }
  return found;
}

/// The peer closes the socket; the sender looks until it gives it up.
void lose(Sending& wire, size_t socket) {
  wire.peers[socket].reset();
  while (wire.reactor.poll(Duration::zero())) {}
  const size_t before = wire.losses.size();
  for (int look = 0; look < 4 && wire.losses.size() == before; ++look)
    EXPECT_EQ(wire.path->checkSockets(kNothingIsDown), "");
  EXPECT_THAT(wire.losses, SizeIs(before + 1));
}

TEST(TcpLostSocket, ItsPartsGoAgainOverTheFirstButForWhatWasReleased) {
  Sending wire(SIZE_MAX, 0, System::real(), 2);
  for (uint64_t k = 0; k < kShape.slots; ++k) publishNext(wire.end, 256);
  wire.path->kick();
  const std::string byFirst = wire.take(0), bySecond = wire.take(1);
  wire.put(creditOf(2));
  wire.path->poll();
  lose(wire, 1);
  const std::string again = wire.take(0);
  const std::string lost = wordOf(FrameKind::lost, 1);
  ASSERT_EQ(again.substr(0, lost.size()), lost);
  std::string expected;
  for (size_t at = 0; at < bySecond.size();) {
    MessageFrame frame;
    std::memcpy(&frame, bySecond.data() + at, sizeof frame);
    EXPECT_EQ(frame.released, 1u) << "the number of the socket";
    if (frame.sequence >= 2) {
      MessageFrame second = frame;
      second.released = 0;
      second.flags |= kAgain;
      expected += std::string(reinterpret_cast<const char*>(&second), sizeof second);
      expected += bySecond.substr(at + sizeof frame, frame.bytes);
    }
    at += sizeof frame + frame.bytes;
  }
  EXPECT_FALSE(expected.empty());
  EXPECT_EQ(again.substr(lost.size()), expected);
  EXPECT_THAT(wire.losses[0], HasSubstr("the peer closed the connection (socket 2 of 2"));
  EXPECT_EQ(wire.breaks, 0);
  wire.put(creditOf(kShape.slots));
  publishNext(wire.end, 256);
  wire.path->kick();
  EXPECT_EQ(wire.take(0).size(), sizeof(MessageFrame) + 256) << "the only one carries whole messages";
}

// The kernel has taken none of it, or a piece.
TEST(TcpLostSocket, WhatWaitsForItGoesOverTheFirst) {
  Sending wire(7, 0, System::real(), 2);
  for (uint64_t k = 0; k < 2; ++k) publishNext(wire.end, 256);
  wire.path->kick();
  lose(wire, 1);
  std::string all;
  for (int i = 0; i < 300; ++i) all += wire.take(0);
  EXPECT_EQ(all.size(), 2 * 256 + sizeof(MessageFrame) * (1 + 2 * 256 / 64));
  EXPECT_EQ(wire.breaks, 0);
}

TEST(TcpLostSocket, AnAskWaitsForWhatGoesAgainAndTheOtherWayRound) {
  for (const bool asksFirst : {false, true}) {
    Sending wire(7, 0, System::real(), 2);
    for (uint64_t k = 0; k < 2; ++k) publishNext(wire.end, 256);
    wire.path->kick();
    if (asksFirst) wire.path->askForReleases();
    lose(wire, 1);
    if (!asksFirst) wire.path->askForReleases();
    std::string all;
    for (int i = 0; i < 400; ++i) all += wire.take(0);
    EXPECT_EQ(framesIn(all, FrameKind::ask), 1u);
    EXPECT_EQ(framesIn(all, FrameKind::lost), 1u);
  }
}

// A socket that takes seven bytes at a time.
TEST(TcpLostSocket, MessagesAfterItGoOnByThemselves) {
  Sending wire(7, 0, System::real(), 2);
  publishNext(wire.end, 256);
  wire.path->kick();
  lose(wire, 1);
  publishNext(wire.end, 4);
  wire.path->kick();
  std::string all;
  for (int i = 0; i < 300; ++i) all += wire.take(0);
  EXPECT_EQ(framesIn(all, FrameKind::message), 256u / 64 + 1);
}

TEST(TcpLostSocket, MessagesDoNotHoldUpWhatGoesAgain) {
  Sending wire(7, 0, System::real(), 2);
  publishNext(wire.end, 256);
  wire.path->kick();
  lose(wire, 1);
  std::string all;
  for (int i = 0; i < 500 && framesIn(all, FrameKind::lost) == 0; ++i) {
    if (wire.end.reserve() != nullptr) publishNext(wire.end, 4);
    wire.path->kick();
    wire.reactor.poll(Duration::zero());
    char bytes[7];
    const ssize_t got = recv(wire.peers[0].get(), bytes, sizeof bytes, MSG_DONTWAIT);
    if (got > 0) all.append(bytes, static_cast<size_t>(got));
    if (framesIn(all, FrameKind::message) > 20) break;
  }
  EXPECT_EQ(framesIn(all, FrameKind::lost), 1u);
}

TEST(TcpLostSocket, WhatHasComeIsDropped) {
  Receiving wire(SIZE_MAX, 0, System::real(), 3);
  give(wire, partOver(1, 0, 200, 0, 64), 1);                 // came, of a message that is not complete
  give(wire, partOver(1, 1, 100, 0, 100), 1);                // a whole message
  give(wire, partOver(1, 2, 200, 0, 100).substr(0, 90), 1);  // the half of a part
  give(wire, partOver(2, 2, 200, 100, 100), 2);              // over a socket that is well
  give(wire, wordOf(FrameKind::lost, 1), 0);
  std::string again;
  for (const auto& [number, length, count] : {std::tuple{0u, 200u, 64u}, {1u, 100u, 100u}, {2u, 200u, 100u}})
    again += partOver(0, number, length, 0, count, kAgain);
  give(wire, again, 0);
  give(wire, partOver(2, 0, 200, 64, 136), 2);
  for (const uint32_t length : {200u, 100u, 200u}) expectNext(wire, length);
  give(wire, partOver(0, 1, 100, 0, 100, kAgain), 0);  // it was released long ago
  EXPECT_EQ(wire.breaks, 0) << wire.reason;
}

// It waited for parts that go again, while another socket carried messages that came after it.
TEST(TcpLostSocket, AnAskMayComeLate) {
  Receiving wire(SIZE_MAX, 0, System::real(), 2);
  for (uint64_t k = 0; k < 3; ++k) {
    give(wire, partOver(1, k, 100, 0, 100), 1);
    expectNext(wire, 100);
  }
  give(wire, wordOf(FrameKind::ask, 1), 0);
  EXPECT_EQ(wire.breaks, 0) << wire.reason;
  const std::string credit = wire.take(0);
  ASSERT_EQ(credit.size(), sizeof(MessageFrame));
  EXPECT_EQ(reinterpret_cast<const MessageFrame*>(credit.data())->released, 3u);
  give(wire, wordOf(FrameKind::ask, 3 + kShape.slots + 1), 0);
  EXPECT_EQ(wire.breaks, 1) << "there cannot be so many messages before it";
}

// Its kernel has acknowledged what comes over it, so nobody would send that again.
TEST(TcpLostSocket, AReceiverReadsOnThoughItsInterfaceIsDown) {
  Receiving wire(SIZE_MAX, 0, System::real(), 2);
  for (int look = 0; look < 10; ++look) {
    int asked = 0;
    EXPECT_EQ(wire.path->checkSockets([&](const SocketAddress&) { return asked++ == 0 ? "" : "e1"; }), "");
    EXPECT_EQ(asked, 2);
  }
  give(wire, partOver(1, 0, 100, 0, 100), 1);
  expectNext(wire, 100);
}

TEST(TcpLostSocket, ThoseOverWhichNothingCameLeaveNoTrace) {
  Receiving wire(SIZE_MAX, 0, System::real(), 1);
  for (uint64_t k = 0; k < 100; ++k) {
    ASSERT_TRUE(wire.path->addSocket(wire.newSocket(System::real())).ok()) << k;
    if (k % 2 == 0) {
      const std::string half = partOver(k + 1, 0, 100, 0, 100).substr(0, 20);
      give(wire, half, wire.peers.size() - 1);
    }
    wire.peers.back().reset();
    while (wire.reactor.poll(Duration::zero())) {}
    give(wire, wordOf(FrameKind::lost, k + 1), 0);
  }
  EXPECT_EQ(wire.breaks, 0);
}

// Of a socket that was to be closed anyway nobody hears.
TEST(TcpLostSocket, ASpareOneIsNoLoss) {
  Sending wire(SIZE_MAX, 0, System::real(), 2);
  size_t next = 0;
  wire.path->preferSockets([&](const SocketEnds&) { return next++ == 0; });
  wire.peers[1].reset();
  while (wire.reactor.poll(Duration::zero())) {}
  for (int look = 0; look < 4; ++look) EXPECT_EQ(wire.path->checkSockets(kNothingIsDown), "");
  EXPECT_TRUE(wire.losses.empty());
  EXPECT_EQ(wire.breaks, 0);
  EXPECT_EQ(framesIn(wire.take(0), FrameKind::lost), 1u);
}

// What nobody sent is no matter of a rail.
TEST(TcpLostSocket, BytesThatTheCipherRefusesBreakTheConnection) {
  Receiving wire(SIZE_MAX, 0, System::real(), 2, 64, true);
  const std::string garbage(500, 'x');
  wire.put(garbage.data(), garbage.size(), 1);
  EXPECT_EQ(wire.breaks, 1);
  EXPECT_THAT(wire.reason, HasSubstr("socket 2 of 2"));
}

TEST(TcpLostSocket, WhatComesOverItLaterCountsForNothing) {
  for (const bool known : {true, false}) {
    Receiving wire(SIZE_MAX, 0, System::real(), 2);
    if (known) give(wire, partOver(1, 0, 200, 0, 100).substr(0, 50), 1);
    give(wire, wordOf(FrameKind::lost, 1) + partOver(0, 0, 200, 0, 100, kAgain), 0);
    const std::string late = partOver(1, 0, 200, 0, 100);
    [[maybe_unused]] const ssize_t sent = send(wire.peers[1].get(), late.data(), late.size(), MSG_NOSIGNAL);
    while (wire.reactor.poll(Duration::zero())) {}
    give(wire, partOver(0, 0, 200, 100, 100), 0);
    expectNext(wire, 200);
    EXPECT_EQ(wire.breaks, 0) << wire.reason;
    EXPECT_EQ(wire.path->sockets().size(), 2u) << "one, and what the other has carried";
  }
}

TEST(TcpLostSocket, PartsThatComeAgainGoWhereTheMessageIsOffered) {
  Receiving wire(SIZE_MAX, 0, System::real(), 2);
  wire.end.mine = kOwnAddressSpace;
  wire.end.directFrom = 100;
  std::byte memory[200];
  wire.end.offer(0, memory, sizeof memory);
  give(wire, partOver(1, 0, 200, 0, 100).substr(0, 60), 1);
  give(wire, wordOf(FrameKind::lost, 1) + partOver(0, 0, 200, 0, 100, kAgain) + partOver(0, 0, 200, 100, 100),
       0);
  Received received;
  ASSERT_TRUE(wire.end.peek(received));
  EXPECT_EQ(received.flags & kSlotPut, kSlotPut);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(memory), 200), contentOf(0, 0, 200));
}

TEST(TcpLostSocket, NothingComesAgainThatWasNotLost) {
  Receiving unlost(SIZE_MAX, 0, System::real(), 2);
  give(unlost, partOver(0, 0, 100, 0, 100, kAgain), 0);
  EXPECT_EQ(unlost.breaks, 1);
  Receiving elsewhere(SIZE_MAX, 0, System::real(), 3);
  give(elsewhere, wordOf(FrameKind::lost, 1), 0);
  give(elsewhere, partOver(2, 0, 100, 0, 100, kAgain), 2);
  EXPECT_EQ(elsewhere.breaks, 1) << "it comes over the first";
  Receiving tooLong(SIZE_MAX, 0, System::real(), 2);
  expectNext(tooLong, (give(tooLong, partOver(0, 0, 100, 0, 100) + wordOf(FrameKind::lost, 1), 0), 100));
  MessageFrame frame = message(0, kShape.slotBytes + 1);
  frame.flags |= kAgain;
  tooLong.put(frame);
  EXPECT_EQ(tooLong.breaks, 1) << "it is longer than a slot";
}

// Whatever has come when a socket is lost, in whatever pieces: every message comes once, and in order.
TEST(TcpLostSocket, EveryMessageComesOnceWhicheverSocketsAreLost) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    std::mt19937 random(seed);
    constexpr size_t kSockets = 4;
    const uint64_t first = random() % 2 == 0 ? 0 : ~0ull - 3;
    Sending sender(random() % 2 == 0 ? SIZE_MAX : 50, first, System::real(), kSockets);
    Receiving receiver(SIZE_MAX, first, System::real(), kSockets);
    std::vector<std::string> under(kSockets);  // what is on its way
    std::vector<bool> lost(kSockets);
    std::vector<uint32_t> lengths;
    size_t taken = 0;
    for (int step = 0; step < 4000 && taken < 40; ++step) {
      if (lengths.size() < 40 && sender.end.reserve() != nullptr) {
        lengths.push_back(random() % 4 == 0 ? random() % 30 : random() % (kShape.slotBytes + 1));
        publishNext(sender.end, lengths.back());
        sender.path->kick();
      }
      for (size_t i = 0; i < kSockets; ++i) {
        if (!lost[i]) under[i] += sender.take(i);
        const size_t count = std::min<size_t>(under[i].size(), random() % 120);
        if (count == 0) continue;
        give(receiver, under[i].substr(0, count), i);
        under[i].erase(0, count);
      }
      if (random() % 60 == 0) {
        const size_t socket = 1 + random() % (kSockets - 1);
        if (!lost[socket]) {
          lost[socket] = true;
          under[socket].clear();
          lose(sender, socket);
          if (random() % 2 == 0) receiver.peers[socket].reset();  // or it hears of it by the first alone
        }
      }
      Received received;
      if (random() % 2 == 0 && receiver.end.peek(received)) {
        expectNext(receiver, lengths[taken++]);
        sender.put(creditOf(receiver.end.next));
      }
      sender.path->poll();
      receiver.path->poll();
    }
    ASSERT_EQ(taken, 40u) << "seed " << seed << ": " << sender.reason << receiver.reason;
    EXPECT_EQ(sender.breaks + receiver.breaks, 0) << sender.reason << receiver.reason;
  }
}

}  // namespace
}  // namespace eccl::transport
