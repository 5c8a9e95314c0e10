// How moves pass messages into slots, past the caches or not, and what receivers learn of it.
#include "program/timed_move.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <memory>

namespace eccl::interpreter {
namespace {

constexpr uint32_t kMoved = 2 * kStreamFrom;
constexpr RingShape kShape{8, kReadFrom};

struct Ring {
  Ring() : memory(std::aligned_alloc(kCacheLine, kShape.bytes()), &std::free) {
    std::memset(memory.get(), 0, kShape.bytes());
    formatRing(memory.get(), kShape, 0);
    attachRing(sender, memory.get(), kShape, 0, 0);
    attachRing(receiver, memory.get(), kShape, 0, 0);
    sender.weighed = sender.mayStream = true;
    receiver.choices = &choices;
  }
  WantedWays& wants(MessageKind kind) { return sender.control->receiverWants[static_cast<int>(kind)]; }
  std::unique_ptr<void, void (*)(void*)> memory;
  SendEnd sender;
  ReceiveEnd receiver;
  WayChoices choices{WayChoice{WayChoice::kMeasured, 0}, WayChoice::ofShown(WayChoice::kMeasured),
                     WayChoice{WayChoice::kMeasured, 0}};
};

struct TimedMoveTest : ::testing::Test {
  /// Of a move with that many messages, from memory.
  MoveEnds sending(std::initializer_list<Ring*> to) {
    MoveEnds ends{};
    ends.sources = 1;
    for (Ring* ring : to) ends.to[ends.destinations++] = ring != nullptr ? &ring->sender : nullptr;
    return ends;
  }
  Passed place(const MoveEnds& ends) {
    std::byte* data[kMaxOperands];
    Outgoing message;
    message.length = kMoved;
    message.whole = true;
    for (int i = 0; i < ends.destinations; ++i)
      EXPECT_TRUE(ends.to[i] == nullptr || ends.to[i]->reserve(kMoved) != nullptr);
    return placeMessages(
        ends, message, [] { return static_cast<const std::byte*>(nullptr); }, data);
  }
  /// Its coming message, into memory.
  static void receive(Ring& ring, uint32_t length, uint64_t messages = 1) {
    MoveEnds receiving{};
    receiving.sources = 1;
    receiving.from[0] = &ring.receiver;
    TimedMove timed(receiving, length, messages);
    timed.complete({});
    commit(receiving, {}, length, 0, 0);
  }
  static uint16_t flagsOf(const Ring& ring) { return ring.receiver.slot(ring.receiver.next)->flags; }
  Ring a, b;
};

TEST_F(TimedMoveTest, EachReceiverGetsItsMessageTheWayItWants) {
  a.wants(MessageKind::plain).streamed = 0;
  b.wants(MessageKind::plain).streamed = ~0u;
  const MoveEnds ends = sending({&a, nullptr, &b});
  const Passed passed = place(ends);
  EXPECT_EQ(passed.streams, 4);
  EXPECT_EQ(passed.timed, 5);
  commit(ends, passed, kMoved, kSlotLast, 1);
  EXPECT_EQ(flagsOf(a), kSlotLast);
  EXPECT_EQ(flagsOf(b), kSlotLast | kSlotStreamed);
  // The fast path, which knows the message but for its coming, takes both.
  const std::byte* data;
  for (Ring* ring : {&a, &b}) EXPECT_EQ(ring->receiver.peek(kMoved, 1, &data), ReceiveEnd::Expected::there);
  EXPECT_EQ(a.receiver.peek(kMoved, 2, &data), ReceiveEnd::Expected::other);
}

TEST_F(TimedMoveTest, ASenderThatMayNotStreamDoesNot) {
  a.wants(MessageKind::plain).streamed = ~0u;
  a.sender.mayStream = false;
  EXPECT_EQ(place(sending({&a})).streams, 0);
}

TEST_F(TimedMoveTest, EachOfSeveralMessagesHasTakenItsShare) {
  const MoveEnds ends = sending({&a, &b, nullptr});
  const uint64_t before = ticks();
  TimedMove timed(ends, kMoved);
  const uint64_t begun = ticks();
  const Passed passed = place(ends);
  while (ticks() - begun < 100'000) continue;
  timed.complete(passed);
  const uint64_t most = (ticks() - before) / 2;
  commit(ends, passed, kMoved, kSlotLast, 1);
  for (Ring* ring : {&a, &b}) {
    const Slot& slot = *ring->receiver.slot(ring->receiver.next);
    EXPECT_LE(slot.sent.done - slot.sent.begun, most);
    EXPECT_GE(slot.sent.done - slot.sent.begun, 50'000u);
  }
}

// Messages take turns with others that are not timed, or that are of another size: all kinds are timed.
TEST_F(TimedMoveTest, NoKindOfMessageIsLeftOut) {
  for (const int period : {1, 2, 3, 4, 6, 8}) {
    int timed[8] = {};
    for (int i = 0; i < 40 * period; ++i) {
      ASSERT_NE(a.sender.reserve(kMoved), nullptr);
      timed[i % period] += a.sender.samples(kMoved);
      a.sender.publish(i % 2 == 0 ? kMoved : 8, kSlotLast, 1);
      a.receiver.release();
    }
    for (int kind = 0; kind < period; kind += 2) EXPECT_GT(timed[kind], 2) << kind << " of " << period;
  }
}

// The sender's times say that slots are slow and streams are fast. The receiver finds out, and tells it.
TEST_F(TimedMoveTest, TheReceiverLearnsWhichWayIsFaster) {
  const auto pass = [&](uint64_t slotTicks, uint64_t streamTicks) {
    const MoveEnds ends = sending({&a});
    const Passed passed = place(ends);
    commit(ends, passed, kMoved, kSlotLast, 1);
    Slot& slot = *a.receiver.slot(a.receiver.next);
    if (passed.timed != 0) {
      const uint64_t now = ticks();
      slot.sent.begun = now - (passed.streams != 0 ? streamTicks : slotTicks);
      slot.sent.done = now;
    }
    receive(a, kMoved);
    return passed.streams != 0;
  };
  int streamed = 0;
  for (int i = 0; i < 3000; ++i) streamed += pass(100'000'000, 10'000'000);
  EXPECT_GT(streamed, 2500);
  EXPECT_EQ(a.wants(MessageKind::plain).streamed, 1u << sizeClassOf(kMoved));
  streamed = 0;
  for (int i = 0; i < 20'000; ++i) streamed += pass(10'000'000, 100'000'000);
  EXPECT_LT(streamed, 8'000);
  EXPECT_EQ(a.wants(MessageKind::plain).streamed, 0u);
}

// What cannot be read all the same comes the old way, and the trial ends.
TEST_F(TimedMoveTest, TheSenderIsToldWhatIsReadForATrial) {
  a.choices.front() = WayChoice{0, WayChoice::kMeasured};
  const uint32_t& tries = a.sender.control->receiverTries;
  int read = 0;
  for (int i = 0; i < 1000; ++i) {
    ASSERT_NE(a.sender.reserve(kReadFrom), nullptr);
    a.sender.publish(kReadFrom, kSlotLast, 1);
    Slot& slot = *a.receiver.slot(a.receiver.next);
    slot.sent.done = ticks();
    slot.sent.begun = slot.sent.done - 1000;
    receive(a, kReadFrom);
    ASSERT_EQ(tries, a.wants(MessageKind::plain).read) << i;
    read += tries == 1u << sizeClassOf(kReadFrom);
  }
  EXPECT_TRUE(read > 0 && read < 900) << read;
}

/// A message from memory that both see, to where the receiver wants it.
struct InPlace : TimedMoveTest {
  InPlace() {
    for (Ring* ring : {&a, &b}) {
      ring->sender.mine = ring->sender.theirs = ring->receiver.mine = ring->receiver.theirs = kOwnAddressSpace;
      ring->sender.directFrom = ring->receiver.directFrom = kStreamFrom;
    }
  }
  /// `stable`: it could be read where it is.
  Passed pass(Ring& ring, bool stable, uint64_t writeTicks = 1, uint64_t streamTicks = 1,
              uint64_t readTicks = 1) {
    ring.receiver.offer(ring.receiver.next, wanted, kMoved);
    MoveEnds ends = sending({&ring});
    ends.placed = 1;
    Outgoing message;
    message.length = kMoved;
    message.whole = message.stable = stable;
    message.messages = messages;
    std::byte* data[kMaxOperands];
    EXPECT_TRUE(canSend(
        ends, 0, message, [&] { return held; }, true));
    const Passed passed = placeMessages(
        ends, message, [&] { return held; }, data);
    EXPECT_EQ(passed.gets | passed.puts, 1);
    EXPECT_EQ(data[0], passed.puts != 0 ? wanted : nullptr);
    commit(ends, passed, kMoved, kSlotLast, 1);
    Slot& slot = *ring.receiver.slot(ring.receiver.next);
    const uint64_t now = ticks();
    if (passed.timed != 0) {
      slot.sent.begun = now - (passed.gets != 0 ? readTicks : passed.streams != 0 ? streamTicks : writeTicks);
      slot.sent.done = now;
    } else {
      EXPECT_EQ(slot.sent.done, 0u);
    }
    receive(ring, kMoved, messages);
    return passed;
  }
  uint64_t messages = 1;
  std::byte memory[2 * kMoved];
  const std::byte* const held = memory;
  std::byte* const wanted = memory + kMoved;
};

TEST_F(InPlace, GoesTheWayThatTheReceiverWants) {
  a.receiver.choices = b.receiver.choices = nullptr;  // they learn nothing
  a.wants(MessageKind::shown) = {~0u, ~0u};
  EXPECT_EQ(pass(a, true).gets, 1);
  EXPECT_EQ(pass(a, false).puts, 1) << "what is made as it is sent cannot be read";
  EXPECT_EQ(pass(a, false).streams, 0);
  b.wants(MessageKind::shown) = {0, ~0u};
  b.wants(MessageKind::placed) = {~0u, 0};
  EXPECT_EQ(pass(b, true).streams, 1);
  EXPECT_EQ(pass(b, false).streams, 0);
  b.wants(MessageKind::placed) = {0, ~0u};
  EXPECT_EQ(pass(b, false).streams, 1);
}

TEST_F(InPlace, LongCallsAreAClassOfTheirOwnAndLongerOnesGoAsTheProgramSays) {
  a.receiver.choices = nullptr;  // it learns nothing
  a.wants(MessageKind::shown) = {1u << sizeClassOf(kMoved, kFewMessages + 1), 1u << sizeClassOf(kMoved)};
  for (messages = 1; messages <= kFewMessages; ++messages) EXPECT_EQ(pass(a, true).streams, 1);
  for (; messages <= kMostChosen; ++messages) EXPECT_EQ(pass(a, true).gets, 1);
  a.wants(MessageKind::shown) = a.wants(MessageKind::placed) = {~0u, ~0u};
  for (const bool stable : {true, false}) {
    const Passed passed = pass(a, stable);
    EXPECT_EQ(passed.puts, 1);
    EXPECT_EQ(passed.chosen | passed.streams | passed.timed, 0);
  }
}

// Tiles that are made together (program/joined_tiles.h) count as many times as messages one by one.
TEST_F(InPlace, OfMessagesThatAreTakenTogetherEachCounts) {
  const auto movesUntilATrial = [&](Ring& ring, int tiles) {
    int moves = 0;
    MoveEnds receiving{};
    receiving.sources = 1;
    receiving.from[0] = &ring.receiver;
    uint32_t& read = ring.wants(MessageKind::shown).read;
    for (read = ~0u; (read >> sizeClassOf(kMoved) & 1) != 0; ++moves) {
      for (int tile = 0; tile < tiles; ++tile) {
        Slot& slot = *ring.sender.slot(ring.sender.next);
        slot.sent.begun = slot.sent.done = ticks();
        ring.sender.publish(kMoved, kSlotGet | kSlotChosen | kSlotLast, 1);
      }
      TimedMove timed(receiving, kMoved, messages);
      for (const uint64_t begun = ticks(); ticks() - begun < 1000;)
        continue;  // what takes no time is not counted
      timed.complete({}, static_cast<uint32_t>(tiles), static_cast<uint64_t>(tiles) * kMoved);
      for (int tile = 0; tile < tiles; ++tile) commit(receiving, {}, kMoved, 0, 0);
    }
    return moves;
  };
  const int one = movesUntilATrial(a, 1);
  EXPECT_GE(one, 8);
  EXPECT_EQ(movesUntilATrial(b, 4), (one + 3) / 4);
}

TEST_F(InPlace, OfMessagesThatAreTakenTogetherEachTookItsShare) {
  constexpr uint64_t kRead = 2000, kWritten = 2 * kRead;
  MoveEnds receiving{};
  receiving.sources = 1;
  receiving.from[0] = &a.receiver;
  a.wants(MessageKind::shown).read = ~0u;
  int read = 0;
  for (int i = 0; i < 1000; ++i) {
    const bool reads = (a.wants(MessageKind::shown).read >> sizeClassOf(kMoved) & 1) != 0;
    const bool streams = !reads && (a.wants(MessageKind::shown).streamed >> sizeClassOf(kMoved) & 1) != 0;
    const int flags = (reads     ? kSlotGet
                       : streams ? kSlotPut | kSlotStreamed
                                 : kSlotPut) |
                      kSlotChosen | kSlotLast;
    read += reads;
    const int tiles = reads ? 4 : 1;
    for (int tile = 0; tile < tiles; ++tile) {
      Slot& slot = *a.sender.slot(a.sender.next);
      slot.sent.done = ticks();
      slot.sent.begun = slot.sent.done - (reads ? 0 : kWritten);
      a.sender.publish(kMoved, static_cast<uint16_t>(flags), 1);
    }
    TimedMove timed(receiving, kMoved, messages);
    for (const uint64_t begun = ticks(); reads && ticks() - begun < 4 * kRead;) continue;
    timed.complete({}, static_cast<uint32_t>(tiles), static_cast<uint64_t>(tiles) * kMoved);
    for (int tile = 0; tile < tiles; ++tile) commit(receiving, {}, kMoved, 0, 0);
  }
  EXPECT_GT(read, 800) << "each takes half as long as one that is written";
}

TEST_F(InPlace, NobodyWaitsForAnOfferThatIsNotUsed) {
  Outgoing message;
  message.length = kMoved;
  message.whole = message.stable = true;
  MoveEnds ends = sending({&a});
  ends.placed = 1;
  const auto source = [&] { return held; };
  EXPECT_FALSE(canSend(ends, 0, message, source, true));
  a.wants(MessageKind::shown).read = ~0u;
  EXPECT_TRUE(canSend(ends, 0, message, source, true));
  message.stable = false;
  EXPECT_FALSE(canSend(ends, 0, message, source, true));
}

// Each kind by what its own messages take.
TEST_F(InPlace, TheReceiverLearnsWhichWayIsFaster) {
  constexpr uint64_t kFast = 10'000'000, kSlow = 100'000'000;
  constexpr uint32_t kClass = 1u << sizeClassOf(kMoved);
  const auto run = [&](bool stable, uint64_t write, uint64_t stream, uint64_t read) {
    for (int i = 0; i < 20'000; ++i) pass(a, stable, write, stream, read);
    const WantedWays& its = a.wants(stable ? MessageKind::shown : MessageKind::placed);
    return (its.read & kClass) != 0 ? 'r' : (its.streamed & kClass) != 0 ? 's' : 'w';
  };
  EXPECT_EQ(run(true, kSlow, kSlow, kFast), 'r');
  EXPECT_EQ(run(true, kFast, kSlow, kSlow), 'w');
  EXPECT_EQ(run(false, kSlow, kFast, kFast), 's');
  EXPECT_EQ(run(true, kFast, kFast, kFast), 'w') << "equal ways: it stays";
  EXPECT_EQ(run(true, kSlow, kFast, kSlow), 's');
  EXPECT_EQ(run(false, kFast, kSlow, kFast), 'w');
  EXPECT_EQ(a.wants(MessageKind::placed).read, 0u);
  EXPECT_EQ(a.wants(MessageKind::plain).read | a.wants(MessageKind::plain).streamed, 0u);
}

}  // namespace
}  // namespace eccl::interpreter
