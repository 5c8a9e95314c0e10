// Connections of two ranks, one each way, that share a socket for short messages.
#include <gmock/gmock.h>
#include <sys/ioctl.h>

#include <cstring>
#include <random>

#include "transport/wire.h"

namespace eccl::transport {
namespace {

using ::testing::HasSubstr;

constexpr RingShape kRing{8, 4096};
constexpr uint32_t kLong = 2000;  // of two packets

/// One rank: a connection to the other and one from there.
struct Rank {
  /// `out` and `in`: the sockets of these connections.
  Rank(bool lower, Stream out, Stream in, size_t bytesPerCall) {
    EXPECT_TRUE(reactor.open(System::real()).ok());
    auto twins = std::make_shared<Twins>();
    const auto wiring = [&](Stream socket, bool fromLower) {
      TcpPath::Wiring made;
      made.socket = std::move(socket);
      made.twins = twins;
      made.fromLower = fromLower;
      made.reactor = &reactor;
      made.memory = mapPrivate(ringMemoryBytes(kRing)).take();
      made.onBroken = [this](const Breakage& why) { reason += why.reason; };
      made.bytesPerCall = bytesPerCall;
      formatRing(made.memory.get(), kRing, 0);
      return made;
    };
    TcpPath::Wiring sends = wiring(std::move(out), lower), receives = wiring(std::move(in), !lower);
    attachRing(to, sends.memory.get(), kRing, 0, 0);
    attachRing(from, receives.memory.get(), kRing, 0, 0);
    sender = std::make_unique<TcpSender>(std::move(sends), to);
    receiver = std::make_unique<TcpReceiver>(std::move(receives), from);
    EXPECT_TRUE(sender->open().ok());
    EXPECT_TRUE(receiver->open().ok());
  }
  /// False: no slot is free.
  bool send(uint32_t length, std::byte content) {
    if (to.reserve() == nullptr) return false;
    std::memset(to.place(length), static_cast<int>(content), length);
    to.publish(length, 0, 0);
    sender->kick();
    return true;
  }
  /// Takes the next message, if it is there, and says whether it is what send() was asked for.
  bool take(uint32_t length, std::byte content) {
    Received received;
    if (!from.peek(received)) return false;
    EXPECT_EQ(received.length, length);
    const std::byte* data = received.data;
    for (uint32_t i = 0; i < length; ++i) {
      if (data[i] != content) {
        ADD_FAILURE() << "byte " << i << " of " << length;
        break;
      }
    }
    from.release();
    receiver->kick();
    return true;
  }
  void look() {
    receiver->poll();
    sender->poll();
    while (reactor.poll(Duration::zero())) {}
  }

  Reactor reactor;
  SendEnd to;
  ReceiveEnd from;
  std::unique_ptr<TcpSender> sender;
  std::unique_ptr<TcpReceiver> receiver;
  std::string reason;
};

/// Rank 0 and rank 1 in one thread.
struct Twins {
  explicit Twins(size_t bytesPerCall = SIZE_MAX) {
    int up[2], down[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, up), 0);
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, down), 0);
    std::copy(down, down + 2, sockets);
    shared = up[0];
    lower = std::make_unique<Rank>(true, Stream(Fd(up[0])), Stream(Fd(down[1])), bytesPerCall);
    higher = std::make_unique<Rank>(false, Stream(Fd(down[0])), Stream(Fd(up[1])), bytesPerCall);
  }
  /// Bytes that wait in the socket of the connection from the higher rank, both ways.
  int waiting() const {
    int sum = 0;
    for (int socket : sockets) {
      int bytes = 0;
      EXPECT_EQ(ioctl(socket, FIONREAD, &bytes), 0);
      sum += bytes;
    }
    return sum;
  }
  int sockets[2], shared;  // the latter: the lower rank's end of the socket that carries messages both ways
  std::unique_ptr<Rank> lower, higher;
};

TEST(TcpTwins, ExchangeShortMessagesAndCreditsOverOneSocket) {
  Twins pair;
  for (int i = 0; i < 100; ++i) {
    const auto content = static_cast<std::byte>(i);
    ASSERT_TRUE(pair.lower->send(100, content)) << i;
    ASSERT_TRUE(pair.higher->send(100, content)) << i;
    EXPECT_EQ(pair.waiting(), 0) << i;
    pair.lower->look();
    pair.higher->look();
    ASSERT_TRUE(pair.lower->take(100, content)) << i;
    ASSERT_TRUE(pair.higher->take(100, content)) << i;
    EXPECT_EQ(pair.waiting(), 0) << i;  // no credit by itself
  }
  EXPECT_EQ(pair.lower->reason + pair.higher->reason, "");
}

TEST(TcpTwins, SendMessagesOfSeveralPacketsOverTheirOwnSockets) {
  Twins pair;
  ASSERT_TRUE(pair.higher->send(kLong, std::byte{1}));
  EXPECT_GT(pair.waiting(), static_cast<int>(kLong));
}

// A message after the other, whichever way it goes; one that has come is taken at once or later.
TEST(TcpTwins, KeepMessagesInOrderHoweverLittleTheKernelTakes) {
  for (size_t bytesPerCall : {1, 7, 39, 41, 100, 5000}) {
    Twins pair(bytesPerCall);
    std::mt19937 random(static_cast<unsigned>(bytesPerCall));
    Rank* const ranks[] = {pair.lower.get(), pair.higher.get()};
    const uint32_t lengths[] = {0, 8, kInlineBytes + 1, 1000, 1025, kLong};
    const auto lengthOf = [&](int way, int number) { return lengths[(number * 5 + number / 7 + way) % 6]; };
    const auto contentOf = [&](int way, int number) { return static_cast<std::byte>(2 * number + way); };
    constexpr int kMessages = 300;
    int sent[2] = {}, taken[2] = {};
    for (int round = 0; taken[0] < kMessages || taken[1] < kMessages; ++round) {
      ASSERT_LT(round, 10'000'000);
      for (int i : {0, 1}) {
        Rank& rank = *ranks[i];
        if (sent[i] < kMessages && random() % 3 == 0 && rank.send(lengthOf(i, sent[i]), contentOf(i, sent[i])))
          ++sent[i];
        if (random() % 2 == 0) rank.look();
        if (random() % 4 == 0 && rank.take(lengthOf(1 - i, taken[1 - i]), contentOf(1 - i, taken[1 - i])))
          ++taken[1 - i];
        if (random() % 16 == 0) rank.receiver->flush();
      }
      ASSERT_EQ(pair.lower->reason + pair.higher->reason, "");
    }
    for (int round = 0; round < 100'000 && !(ranks[0]->sender->drained() && ranks[1]->sender->drained());
         ++round) {
      for (Rank* rank : ranks) {
        rank->receiver->flush();
        rank->look();
      }
    }
    EXPECT_TRUE(pair.lower->sender->drained() && pair.higher->sender->drained()) << bytesPerCall;
  }
}

TEST(TcpTwins, LearnOfTheEndAndOfFailures) {
  for (const bool lowerFails : {true, false}) {
    Twins pair;
    Rank &failing = lowerFails ? *pair.lower : *pair.higher, &other = lowerFails ? *pair.higher : *pair.lower;
    ASSERT_TRUE(other.send(10, std::byte{1}));
    failing.look();
    failing.sender->poison();
    failing.receiver->poison();
    for (int i = 0; i < 8; ++i) other.look();
    EXPECT_TRUE(other.to.poisoned());
    EXPECT_TRUE(other.from.poisoned());
    EXPECT_EQ(other.reason, "");
  }
  Twins pair;
  pair.lower->receiver->endReceiving();
  pair.higher->receiver->endReceiving();
  for (Rank* rank : {pair.lower.get(), pair.higher.get()}) {
    rank->look();
    bool final = false;
    rank->to.untaken(&final);
    EXPECT_TRUE(final);
  }
}

// A rank that leaves closes one socket after the other. What is still in the others counts.
TEST(TcpTwins, TakeTheLastCreditsWhenOneIsGone) {
  Twins pair;
  ASSERT_TRUE(pair.lower->send(10, std::byte{1}));
  pair.higher->sender.reset();
  for (int i = 0; i < 8; ++i) pair.lower->look();
  EXPECT_EQ(pair.lower->reason, "the peer closed the connection");
  pair.higher->receiver->poll();
  EXPECT_TRUE(pair.higher->take(10, std::byte{1}));
  pair.higher->receiver->flush();
  pair.lower->look();
  EXPECT_TRUE(pair.lower->sender->drained());
}

TEST(TcpTwins, TakeNoCreditForWhatWasNotSent) {
  Receiving wire;
  MessageFrame frame = message(0, 0);
  frame.flags |= kTells;
  frame.released = 5;
  wire.put(frame);  // it has no twin, which could tell
  EXPECT_EQ(wire.breaks, 0);

  Twins pair;
  ASSERT_TRUE(pair.higher->send(8, std::byte{1}));
  frame.epoch = 0;
  frame.released = 2;  // one was sent
  ASSERT_EQ(write(pair.shared, &frame, sizeof frame), static_cast<ssize_t>(sizeof frame));
  pair.higher->look();
  EXPECT_THAT(pair.higher->reason, HasSubstr("a credit that cannot be"));
}

}  // namespace
}  // namespace eccl::transport
