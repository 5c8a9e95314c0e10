// A TCP connection of several sockets.
#include <gmock/gmock.h>

#include <random>

#include "support/forwarding_system.h"
#include "support/tcp_info_system.h"
#include "transport/net/rails.h"
#include "transport/wire.h"

namespace eccl::transport {
namespace {

using ::testing::HasSubstr;

/// Bytes `from` to `from + count` of message number `number`.
std::string payload(uint64_t number, uint32_t from, uint32_t count) {
  std::string bytes;
  for (uint32_t i = 0; i < count; ++i) bytes += static_cast<char>(number * 31 + from + i);
  return bytes;
}

std::string part(uint64_t number, uint32_t length, uint32_t from, uint32_t count) {
  MessageFrame frame = message(number, length);
  frame.offset = from;
  frame.bytes = count;
  return std::string(reinterpret_cast<const char*>(&frame), sizeof frame) + payload(number, from, count);
}

void publish(SendEnd& end, uint32_t length) {
  ASSERT_NE(end.reserve(), nullptr);
  const std::string bytes = payload(end.next, 0, length);
  std::memcpy(end.place(length), bytes.data(), length);
  end.publish(length, 0, 0);
}

/// The parts in a stream: number and offset, with the bytes compared.
struct Sent {
  std::vector<std::pair<uint64_t, uint32_t>> parts;
  size_t bytes = 0;
};
Sent partsOf(const std::string& stream) {
  Sent sent;
  for (size_t at = 0; at < stream.size();) {
    MessageFrame frame;
    std::memcpy(&frame, stream.data() + at, sizeof frame);
    at += sizeof frame;
    EXPECT_EQ(stream.substr(at, frame.bytes), payload(frame.sequence, frame.offset, frame.bytes));
    at += frame.bytes;
    sent.parts.emplace_back(frame.sequence, frame.offset);
    sent.bytes += frame.bytes;
  }
  return sent;
}

// Else what comes last would be written after the message has been taken, to memory that is somebody else's.
TEST(TcpReceiver, RefusesAPartThatAnotherSocketHasBegun) {
  Receiving wire(SIZE_MAX, 0, System::real(), 2);
  const std::string whole = part(0, 100, 0, 100), half = part(0, 100, 0, 50);
  wire.put(whole.data(), whole.size() - 50, 0);
  EXPECT_EQ(wire.breaks, 0);
  wire.put(half.data(), half.size(), 1);
  EXPECT_EQ(wire.breaks, 1);
  EXPECT_THAT(wire.reason, HasSubstr("come already"));
}

// Any cut of any messages, over any sockets, in any order that a sender's credits allow.
TEST(TcpReceiver, PutsMessagesTogetherFromAnyParts) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    Receiving wire(round % 2 == 0 ? SIZE_MAX : 7, ~0ull - 5, System::real(), 3);
    uint64_t taken = ~0ull - 5;
    for (int window = 0; window < 4; ++window) {
      std::vector<std::pair<uint64_t, std::string>> parts;
      std::vector<uint32_t> lengths;
      for (uint64_t k = 0; k < kShape.slots; ++k) {
        lengths.push_back(random() % (kShape.slotBytes + 1));
        uint32_t from = 0;
        do {
          const uint32_t count = lengths[k] == 0 ? 0 : 1 + random() % (lengths[k] - from);
          parts.emplace_back(taken + k, part(taken + k, lengths[k], from, count));
          from += count;
        } while (from < lengths[k]);
      }
      std::shuffle(parts.begin(), parts.end(), random);
      for (const auto& [number, bytes] : parts) wire.put(bytes.data(), bytes.size(), random() % 3);
      for (const uint32_t length : lengths) {
        Received received;
        ASSERT_TRUE(wire.end.peek(received)) << wire.reason;
        ASSERT_EQ(received.length, length);
        EXPECT_EQ(std::string(reinterpret_cast<const char*>(received.data), length), payload(taken, 0, length));
        wire.end.release();
        ++taken;
      }
    }
    EXPECT_EQ(wire.breaks, 0);
  }
}

// A message that is complete waits for those before it, in a slot of its own.
TEST(TcpReceiver, KeepsTheOrderOfMessages) {
  Receiving wire(SIZE_MAX, 0, System::real(), 2);
  const std::string late = part(0, 200, 0, 200), early = part(1, 200, 0, 200);
  wire.put(late.data(), 50, 0);
  wire.put(early.data(), early.size(), 1);
  Received received;
  EXPECT_FALSE(wire.end.peek(received));
  wire.put(late.data() + 50, late.size() - 50, 0);
  for (uint64_t k = 0; k < 2; ++k) {
    ASSERT_TRUE(wire.end.peek(received));
    EXPECT_EQ(std::string(reinterpret_cast<const char*>(received.data), received.length), payload(k, 0, 200));
    wire.end.release();
  }
}

TEST(TcpReceiver, PutsPartsWhereTheMessageIsOffered) {
  Receiving wire(SIZE_MAX, 0, System::real(), 2);
  wire.end.mine = kOwnAddressSpace;
  wire.end.directFrom = 100;
  std::byte memory[200];
  wire.end.offer(1, memory, sizeof memory);
  const std::string second = part(1, 200, 100, 100), first = part(1, 200, 0, 100), before = part(0, 0, 0, 0);
  wire.put(second.data(), second.size(), 1);
  wire.put(first.data(), first.size(), 0);
  wire.put(before.data(), before.size(), 0);
  Received received;
  ASSERT_TRUE(wire.end.peek(received));
  wire.end.release();
  ASSERT_TRUE(wire.end.peek(received));
  EXPECT_EQ(received.flags & kSlotPut, kSlotPut);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(memory), 200), payload(1, 0, 200));
}

TEST(TcpReceiver, TakesNoPartTwice) {
  const std::string whole = part(0, 100, 0, 100), half = part(0, 100, 0, 50), most = part(0, 100, 0, 60),
                    longer = part(0, 101, 50, 50);
  for (const auto& [first, second] : {std::pair{whole, whole}, {half, most}, {half, longer}, {whole, half}}) {
    Receiving wire(SIZE_MAX, 0, System::real(), 2);
    wire.put(first.data(), first.size(), 0);
    EXPECT_EQ(wire.breaks, 0);
    wire.put(second.data(), second.size(), 1);
    EXPECT_EQ(wire.breaks, 1);
    EXPECT_THAT(wire.reason, HasSubstr("come already"));
  }
}

TEST(TcpSender, SpreadsLongMessagesAndKeepsShortOnesTogether) {
  Sending wire(SIZE_MAX, 0, System::real(), 2);
  size_t bytes[2] = {0, 0};
  for (uint64_t k = 0; k < 100; ++k) {
    publish(wire.end, 256);
    wire.path->kick();
    for (size_t socket : {0, 1}) bytes[socket] += partsOf(wire.take(socket)).bytes;
    const MessageFrame credit = creditOf(k + 1);
    wire.put(credit);
  }
  EXPECT_EQ(bytes[0], bytes[1]);
  EXPECT_EQ(bytes[0] + bytes[1], 100u * 256);
  for (uint64_t k = 0; k < 4; ++k) publish(wire.end, 64);
  wire.path->kick();
  EXPECT_EQ(partsOf(wire.take(0)).parts.size(), 4u);
  EXPECT_EQ(wire.take(1), "");
  EXPECT_EQ(wire.breaks, 0);
}

/// How many bytes of so many long messages go over sockets of these speeds.
std::vector<size_t> spreadBy(const std::vector<uint32_t>& megabits) {
  Sending wire(SIZE_MAX, 0, System::real(), megabits.size());
  std::vector<size_t> bytes(megabits.size());
  for (int window = 0; window < 30; ++window) {
    size_t next = 0;
    wire.path->weighSockets([&](const SocketEnds&) { return megabits[next++]; });  // again makes no difference
    for (uint64_t k = 0; k < kShape.slots; ++k) {
      publish(wire.end, 256);
      wire.path->kick();
    }
    for (size_t i = 0; i < bytes.size(); ++i) bytes[i] += partsOf(wire.take(i)).bytes;
    wire.put(creditOf(wire.end.next));
  }
  return bytes;
}

TEST(TcpSender, SpreadsBySpeedWhereAllAreKnown) {
  constexpr size_t kAll = 30 * 4 * 256;
  const auto near = [](size_t bytes) {
    return ::testing::AllOf(::testing::Ge(bytes - 256), ::testing::Le(bytes + 256));
  };
  EXPECT_THAT(spreadBy({100, 200}), ::testing::ElementsAre(near(kAll / 3), near(kAll * 2 / 3)));
  EXPECT_THAT(spreadBy({400, 100, 100}),
              ::testing::ElementsAre(near(kAll * 2 / 3), near(kAll / 6), near(kAll / 6)));
  EXPECT_THAT(spreadBy({100, 0}), ::testing::ElementsAre(near(kAll / 2), near(kAll / 2)));
}

// As of an unplaced first socket and one from a port that rank 0 has chosen.
TEST(TcpSender, LongMessagesKeepToThePreferredSockets) {
  Sending wire(SIZE_MAX, 0, System::real(), 3);
  const auto prefer = [&](std::vector<bool> which) {
    size_t next = 0;
    wire.path->preferSockets([&](const SocketEnds&) { return which[next++]; });
  };
  const auto bytesOf = [&](uint32_t length) {
    for (uint64_t k = 0; k < kShape.slots; ++k) {
      publish(wire.end, length);
      wire.path->kick();
    }
    std::vector<size_t> bytes;
    for (size_t i = 0; i < 3; ++i) bytes.push_back(partsOf(wire.take(i)).bytes);
    wire.put(creditOf(wire.end.next));
    wire.path->poll();
    return bytes;
  };
  const size_t all = 256 * kShape.slots, half = all / 2;
  prefer({false, true, true});
  EXPECT_THAT(bytesOf(256), ::testing::ElementsAre(0, half, half));
  EXPECT_THAT(bytesOf(4), ::testing::ElementsAre(4 * kShape.slots, 0, 0)) << "short ones go over the first";
  prefer({false, false, true});
  EXPECT_THAT(bytesOf(256), ::testing::ElementsAre(0, 0, all));
  prefer({false, false, false});
  EXPECT_THAT(bytesOf(256), ::testing::Not(::testing::Contains(all))) << "none is preferred: all are used";
}

// The kernel of a bare AF_UNIX socket does not say what waits in it: nothing does.
TEST(TcpSender, ClosesSparedSocketsAndUsesTheirNumbersAgain) {
  Sending wire(SIZE_MAX, 0, System::real(), 3);
  size_t next = 0;
  wire.path->preferSockets([&](const SocketEnds&) { return next++ != 1; });
  wire.path->closeSpareSockets();
  const std::string last = wire.take(1);
  ASSERT_EQ(last.size(), sizeof(MessageFrame));
  EXPECT_EQ(reinterpret_cast<const MessageFrame*>(last.data())->kind, FrameKind::leave);
  char byte;
  EXPECT_EQ(read(wire.peers[1].get(), &byte, 1), 0) << "it is still open";
  const std::vector<SocketReport> reports = wire.path->sockets();
  ASSERT_EQ(reports.size(), 3u) << "what it has carried is forgotten";
  EXPECT_EQ(reports[2].bytesPerSecond(), 0u);
  ASSERT_TRUE(wire.path->addSocket(wire.newSocket(System::real())).ok());
  for (uint64_t k = 0; k < kShape.slots; ++k) {
    publish(wire.end, 256);
    wire.path->kick();
  }
  size_t bytes = 0;
  for (const size_t socket : {0u, 2u, 3u}) {
    const Sent sent = partsOf(wire.take(socket));
    EXPECT_GT(sent.bytes, 0u) << socket;
    bytes += sent.bytes;
  }
  EXPECT_EQ(bytes, 256u * kShape.slots);
  wire.path->weighSockets([](const SocketEnds&) { return 100; });
  EXPECT_EQ(wire.breaks, 0);
}

TEST(TcpSender, KeepsTheFirstSocketAndThoseThatAreNeeded) {
  Sending wire(SIZE_MAX, 0, System::real(), 3);
  size_t next = 0;
  wire.path->preferSockets([&](const SocketEnds&) { return next++ == 1; });
  wire.path->closeSpareSockets();
  EXPECT_EQ(wire.take(0), "");
  EXPECT_EQ(wire.take(1), "");
  EXPECT_EQ(wire.take(2).size(), sizeof(MessageFrame));
  for (uint64_t k = 0; k < kShape.slots; ++k) {
    publish(wire.end, 256);
    wire.path->kick();
  }
  EXPECT_EQ(partsOf(wire.take(1)).bytes, 256u * kShape.slots);
}

/// A machine whose kernel says that this much waits in each socket.
struct WaitingSystem final : test::TcpInfoSystem {
  tcp_info tell() override {
    tcp_info info{};
    info.tcpi_notsent_bytes = waits;
    return info;
  }
  uint32_t waits = 1;
};

// If it had to be sent again, nobody would.
TEST(TcpSender, DoesNotCloseASocketInWhichSomethingWaits) {
  WaitingSystem system;
  Sending wire(SIZE_MAX, 0, system, 2);
  size_t next = 0;
  wire.path->preferSockets([&](const SocketEnds&) { return next++ == 0; });
  wire.path->closeSpareSockets();
  EXPECT_EQ(wire.take(1), "");
  system.waits = 0;
  wire.path->closeSpareSockets();
  EXPECT_EQ(wire.take(1).size(), sizeof(MessageFrame));
}

// Of one that takes seven bytes at a time: the frame goes on where it was cut, whatever is wanted meanwhile.
TEST(TcpSender, ASocketThatIsBeingLeftIsNeverUsedAgain) {
  Sending wire(7, 0, System::real(), 2);
  const auto preferOnly = [&](size_t which) {
    size_t next = 0;
    wire.path->preferSockets([&](const SocketEnds&) { return next++ == which; });
  };
  preferOnly(0);
  wire.path->closeSpareSockets();
  preferOnly(1);
  for (int i = 0; i < 8; ++i) wire.path->closeSpareSockets();
  EXPECT_EQ(wire.path->sockets().size(), 2u);
  const std::string last = wire.take(1);
  ASSERT_EQ(last.size(), sizeof(MessageFrame));
  EXPECT_EQ(reinterpret_cast<const MessageFrame*>(last.data())->kind, FrameKind::leave);
  publish(wire.end, 256);
  for (int i = 0; i < 100; ++i) {
    wire.path->kick();
    while (wire.reactor.poll(Duration::zero())) {}
  }
  EXPECT_EQ(wire.take(0).size(), 256 + sizeof(MessageFrame)) << "one socket carries whole messages";
}

TEST(TcpReceiver, ClosesASocketThatTheSenderLeaves) {
  Receiving wire(SIZE_MAX, 0, System::real(), 3);
  const MessageFrame leave = word(FrameKind::leave);
  const std::string first = part(0, 200, 0, 100), rest = part(0, 200, 100, 100);
  wire.put(first.data(), first.size(), 1);
  wire.put(&leave, sizeof leave, 1);
  wire.peers[1].reset();
  while (wire.reactor.poll(Duration::zero())) {}
  for (int i = 0; i < 5; ++i) {
    wire.path->poll();
    EXPECT_EQ(wire.path->checkSockets([](const SocketAddress&) { return std::string(); }), "");
  }
  wire.put(rest.data(), rest.size(), 2);
  Received received;
  ASSERT_TRUE(wire.end.peek(received));
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(received.data), received.length), payload(0, 0, 200));
  wire.end.release();
  ASSERT_TRUE(wire.path->addSocket(wire.newSocket(System::real())).ok());
  const std::string next = part(1, 50, 0, 50);
  wire.put(next.data(), next.size(), 3);
  EXPECT_TRUE(wire.end.peek(received));
  EXPECT_EQ(wire.breaks, 0);
}

// Credits go over the first socket.
TEST(TcpReceiver, TheFirstSocketCannotBeLeft) {
  Receiving wire(SIZE_MAX, 0, System::real(), 2);
  wire.put(word(FrameKind::leave));
  EXPECT_EQ(wire.breaks, 1);
  EXPECT_THAT(wire.reason, HasSubstr("cannot be"));
}

TEST(TcpSender, WantsMoreSocketsOnceForALongMessage) {
  Sending wire;
  publish(wire.end, 64);
  wire.path->kick();
  EXPECT_EQ(wire.wants, 0);
  for (int i = 0; i < 2; ++i) publish(wire.end, 65);
  wire.path->kick();
  EXPECT_EQ(wire.wants, 1);
  // One socket carries whole messages.
  EXPECT_EQ(partsOf(wire.take()).parts.size(), 3u);
}

/// A machine on which one socket takes nothing.
class StuckSystem final : public test::ForwardingSystem {
 public:
  StuckSystem() : ForwardingSystem(System::real()) {}
  ssize_t sendmsg(int fd, const msghdr* message) override {
    if (fd != stuck) return ForwardingSystem::sendmsg(fd, message);
    errno = EAGAIN;
    return -1;
  }
  int stuck = -1;
};

TEST(TcpSender, GivesASocketThatStandsStillLittle) {
  StuckSystem system;
  Sending wire(SIZE_MAX, 0, system);
  Stream second = wire.newSocket(system);
  system.stuck = second.get();
  ASSERT_TRUE(wire.path->addSocket(std::move(second)).ok());
  for (uint64_t k = 0; k < kShape.slots; ++k) {
    publish(wire.end, 256);
    wire.path->kick();
  }
  // Of the first message half was given to the socket, before it was known to take nothing.
  char bytes[1 << 12];
  const ssize_t got = read(wire.peers[0].get(), bytes, sizeof bytes);
  ASSERT_GT(got, 0);
  EXPECT_EQ(partsOf(std::string(bytes, static_cast<size_t>(got))).bytes, kShape.slots * 256u - 128);
  EXPECT_EQ(wire.breaks, 0);
}

TEST(TcpPath, TheFirstOfSeveralSocketsIsNamedIfItBreaks) {
  Receiving receiver(SIZE_MAX, 0, System::real(), 3);
  receiver.peers[0].reset();
  while (receiver.reactor.poll(Duration::zero())) {}
  EXPECT_EQ(receiver.breaks, 1);
  EXPECT_THAT(receiver.reason, HasSubstr("the peer closed the connection (socket 1 of 3"));
  EXPECT_TRUE(receiver.end.poisoned());
  Sending sender(SIZE_MAX, 0, System::real(), 3);
  sender.peers[0].reset();
  publish(sender.end, 256);
  sender.path->kick();
  while (sender.reactor.poll(Duration::zero())) {}
  EXPECT_EQ(sender.breaks, 1);
  EXPECT_THAT(sender.reason, HasSubstr("(socket 1 of 3"));
  EXPECT_TRUE(sender.end.poisoned());
}

// A receiver that leaves closes all its sockets. Its last credits may arrive after that of another socket's
// end.
TEST(TcpSender, TakesCreditsAfterAnotherSocketHasEnded) {
  Sending wire(SIZE_MAX, 0, System::real(), 2);
  for (uint64_t k = 0; k < kShape.slots; ++k) publish(wire.end, 0);
  wire.path->kick();
  wire.peers[1].reset();
  while (wire.reactor.poll(Duration::zero())) {}
  const auto nothingIsDown = [](const SocketAddress&) { return std::string(); };
  for (int i = 0; i < 2; ++i) EXPECT_EQ(wire.path->checkSockets(nothingIsDown), "");
  for (uint64_t k = 1; k < kShape.slots; ++k) wire.put(creditOf(k));
  wire.put(creditOf(kShape.slots, FrameKind::end));
  bool final = false;
  EXPECT_EQ(wire.end.untaken(&final), 0U);
  EXPECT_TRUE(final);
  EXPECT_EQ(wire.breaks, 0);
  EXPECT_TRUE(wire.losses.empty());
  // Not if it closes one and stays.
  EXPECT_EQ(wire.path->checkSockets(nothingIsDown), "");
  ASSERT_EQ(wire.losses.size(), 1u);
  EXPECT_THAT(wire.losses[0], HasSubstr("the peer closed the connection (socket 2 of 2"));
  EXPECT_EQ(wire.breaks, 0);
}

// The last words come over another socket than the one that ends first.
TEST(TcpPath, PoisonCountsWhicheverSocketEndsFirst) {
  Receiving receiver(SIZE_MAX, 0, System::real(), 2);
  const MessageFrame poison = word(FrameKind::poison, 0);
  ASSERT_EQ(write(receiver.peers[0].get(), &poison, sizeof poison), static_cast<ssize_t>(sizeof poison));
  receiver.peers[1].reset();
  while (receiver.reactor.poll(Duration::zero())) {}
  EXPECT_TRUE(receiver.end.poisoned());
  EXPECT_EQ(receiver.breaks, 0);
  Sending sender(SIZE_MAX, 0, System::real(), 2);
  const MessageFrame words = creditOf(0, FrameKind::poison);
  ASSERT_EQ(write(sender.peers[0].get(), &words, sizeof words), static_cast<ssize_t>(sizeof words));
  sender.peers[1].reset();
  while (sender.reactor.poll(Duration::zero())) {}
  EXPECT_TRUE(sender.end.poisoned());
  EXPECT_EQ(sender.breaks, 0);
}

TEST(TcpPath, PoisonGoesOverEverySocket) {
  Sending sender(SIZE_MAX, 0, System::real(), 2);
  sender.path->poison();
  for (size_t socket : {0, 1}) {
    const std::string words = sender.take(socket);
    ASSERT_EQ(words.size(), sizeof(MessageFrame));
    EXPECT_EQ(reinterpret_cast<const MessageFrame*>(words.data())->kind, FrameKind::poison);
  }
}

/// A machine whose kernel says how long a socket's peer has not answered, and hears what sockets are to do.
struct SilentSystem final : test::TcpInfoSystem {
  tcp_info tell() override { return asked++ == silent || silent == kAll ? info : tcp_info{}; }
  int setsockopt(int fd, int level, int name, const void* value, socklen_t size) override {
    constexpr int kTcpRtoMinUs = 45;
    if (level == IPPROTO_TCP && name == kTcpRtoMinUs && size == sizeof(int))
      return timeouts.push_back(*static_cast<const int*>(value)), errno = EINVAL,
                                                                  timeouts.size() % 2 == 0 ? 0 : -1;
    return TcpInfoSystem::setsockopt(fd, level, name, value, size);
  }
  tcp_info info{};
  static constexpr int kAll = -1;
  int asked = 0, silent = 0;
  std::vector<int> timeouts;
};

// With .2 s for the first try, Linux's usual least, and with 10 ms. The path goes on without the second socket,
// not without the first.
TEST(TcpPath, ASocketIsLostWhenItHasBeenTriedForAWhile) {
  for (const bool first : {false, true}) {
    const auto isLost = [&](uint32_t unacked, int tries, uint32_t firstMs, uint32_t silentMs) {
      SilentSystem system;
      Sending wire(SIZE_MAX, 0, system, 2);
      EXPECT_THAT(system.timeouts, testing::ElementsAre(10'000, 20'000, 10'000, 20'000))
          << "the first is refused";
      system.asked = 0;
      system.silent = first ? 0 : 1;
      system.info.tcpi_unacked = unacked;
      system.info.tcpi_retransmits = static_cast<uint8_t>(tries);
      system.info.tcpi_rto = (firstMs << tries) * 1000;
      system.info.tcpi_last_ack_recv = silentMs;
      std::string why = wire.path->checkSockets([](const SocketAddress&) { return std::string(); });
      EXPECT_TRUE(first || why.empty());
      EXPECT_TRUE(!first || wire.losses.empty());
      if (!wire.losses.empty()) why = wire.losses[0];
      if (!why.empty()) { EXPECT_THAT(why, HasSubstr("nothing has been acknowledged for")); }
      return !why.empty();
    };
    EXPECT_TRUE(isLost(1, 3, 200, 2600));
    EXPECT_FALSE(isLost(1, 3, 200, 2500));
    EXPECT_FALSE(isLost(1, 2, 200, 60'000));
    EXPECT_FALSE(isLost(1, 2, 400, 2600));
    EXPECT_FALSE(isLost(1, 2, 700, 2600));
    EXPECT_TRUE(isLost(1, 8, 10, 2600));
    EXPECT_TRUE(isLost(1, 10, 0, 2600)) << "the timeout has a limit";
    EXPECT_TRUE(isLost(1, 8, 10, 60'000));
    EXPECT_FALSE(isLost(1, 3, 10, 60'000)) << "it was idle, and has been tried for 70 ms";
    EXPECT_FALSE(isLost(0, 8, 10, 60'000)) << "nothing is to be acknowledged";
    EXPECT_FALSE(isLost(1, 0, 2000, 2600)) << "a way that long has not been tried again";
  }
}

// As when the peer's host is dead. Without the first nothing goes on.
TEST(TcpPath, WhereAllSocketsAreSilentTheFirstIsNamed) {
  SilentSystem system;
  system.info.tcpi_unacked = 1;
  system.info.tcpi_retransmits = 10;
  system.info.tcpi_last_ack_recv = 2600;
  Sending wire(SIZE_MAX, 0, system, 2);
  const auto check = [&] {
    return wire.path->checkSockets([](const SocketAddress&) { return std::string(); });
  };
  system.silent = SilentSystem::kAll;
  EXPECT_THAT(check(), HasSubstr("(socket 1 of 2"));
  EXPECT_TRUE(wire.losses.empty());
  // Also one after the other.
  system.asked = 0;
  system.silent = 1;
  EXPECT_EQ(check(), "");
  EXPECT_EQ(wire.losses.size(), 1u);
  system.silent = SilentSystem::kAll;
  EXPECT_THAT(check(), HasSubstr("(socket 1 of 1"));
}

TEST(TcpPath, TakesSoManySocketsAndNoMore) {
  Sending wire(SIZE_MAX, 0, System::real(), kMaxSockets);
  const Status status = wire.path->addSocket(wire.newSocket(System::real()));
  EXPECT_EQ(status.code(), Code::remote);
  EXPECT_THAT(status.message(), HasSubstr("64 sockets already"));
  EXPECT_EQ(wire.breaks, 0);
}

}  // namespace
}  // namespace eccl::transport
