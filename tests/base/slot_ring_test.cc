// The ring alone: one sender, one receiver, memory between them.
#include "program/slot_ring.h"

#include "program/move_ends.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <deque>
#include <memory>
#include <random>
#include <set>
#include <thread>
#include <vector>

namespace eccl {
namespace {

struct Ring {
  explicit Ring(RingShape shape, uint64_t first = 0, uint16_t epoch = 0)
      : memory(std::aligned_alloc(kCacheLine, shape.bytes()), std::free) {
    std::memset(memory.get(), 0, shape.bytes());
    formatRing(memory.get(), shape, first);
    attachRing(sender, memory.get(), shape, first, epoch);
    attachRing(receiver, memory.get(), shape, first, epoch);
  }
  std::unique_ptr<void, void (*)(void*)> memory;
  SendEnd sender;
  ReceiveEnd receiver;
};

const uint64_t kFirsts[] = {0,           5, (uint64_t{1} << 32) - 3, (uint64_t{1} << 63) - 3, ~uint64_t{0} - 2,
                            ~uint64_t{0}};

TEST(SlotRing, SeparatesTheWordsOfTheTwoSides) {
  // What one side reads with each message is on no line that the other writes with each.
  const auto line = [](size_t offset) { return offset / kCacheLine; };
  const size_t written[] = {line(offsetof(RingControl, writing)), line(offsetof(RingControl, released))};
  for (size_t rare :
       {line(offsetof(RingControl, senderAsleep)), line(offsetof(RingControl, senderPoison)),
        line(offsetof(RingControl, receiverAsleep)), line(offsetof(RingControl, receiverPoison))}) {
    EXPECT_NE(rare, written[0]);
    EXPECT_NE(rare, written[1]);
  }
  EXPECT_NE(written[0], written[1]);
  const RingShape shape{4, 128};
  EXPECT_EQ(shape.slotsAt() % kCacheLine, 0u);
  const auto behind = [](size_t offset) { return (offset + kDataPage - 1) / kDataPage * kDataPage; };
  EXPECT_EQ(shape.dataAt(), behind(shape.slotsAt() + 4 * sizeof(Slot)));
  // Data begins within what all slots hold, and the last may go on behind it.
  EXPECT_EQ(shape.bytes(), shape.dataAt() + 4 * 128 + 128);
  EXPECT_EQ((RingShape{4, 128, 5000}).bytes(), shape.dataAt() + 8192 + 128);
  EXPECT_EQ((RingShape{4, 192}).bytes(), shape.dataAt() + 1024 + 192);
  // Short data behind each slot; room for as many long messages as there may be.
  const RingShape both{16, 4096, 0, 512, 2};
  EXPECT_EQ(both.dataAt(), behind(both.slotsAt() + 16 * (sizeof(Slot) + 512)));
  EXPECT_EQ(both.bytes(), both.dataAt() + 2 * 8192 + 4096);  // where messages begin at pages, two for each
  EXPECT_EQ((RingShape{16, 4096, 0, 512, 2, 128}).dataAt(),
            behind(both.slotsAt() + 16 * (sizeof(Slot) + 512 + 128)));
}

// What lies in the area of a ring that both sides look at, through the caches.
TEST(SlotRing, OfLongMessagesInSlotsTheReceiverClaimsTheLines) {
  const auto claims = [](const Ring& ring, uint32_t length, int flags) {
    Received received{};
    received.length = length;
    received.flags = static_cast<uint16_t>(flags);
    return interpreter::claims(ring.receiver, received);
  };
  Ring ring({8, 4096, 0, 512, 2});
  EXPECT_FALSE(claims(ring, 4096, 0));  // the path has not said that it may
  ring.receiver.claiming = true;
  EXPECT_TRUE(claims(ring, 4096, kSlotLast));
  EXPECT_TRUE(claims(ring, 513, kSlotGrowing));
  EXPECT_FALSE(claims(ring, 512, kSlotLast));
  for (const int flag : {kSlotGet, kSlotPut, kSlotStreamed})
    EXPECT_FALSE(claims(ring, 4096, kSlotLast | flag)) << flag;
  Ring plain({8, 4096});
  plain.receiver.claiming = true;
  EXPECT_FALSE(claims(plain, kInlineBytes, 0));  // in the header
  EXPECT_TRUE(claims(plain, kInlineBytes + 1, 0));
}

// Of long messages few are on their way, and of all as many as there are slots.
TEST(SlotRing, FewLongMessagesAndManyShortOnes) {
  constexpr uint32_t kShort = 128, kLong = 129;
  Ring ring({8, 256, 0, kShort, 2}, ~uint64_t{0} - 4);
  SendEnd& end = ring.sender;
  const auto send = [&](uint32_t length) {
    if (end.reserve(length) == nullptr) return false;
    end.place(length);
    end.publish(length, 0, 0);
    return true;
  };
  for (int lap = 0; lap < 40; ++lap) {
    SCOPED_TRACE(lap);
    EXPECT_TRUE(send(kLong));
    EXPECT_TRUE(send(kShort));
    end.ahead = 1;  // a move under way counts as long
    EXPECT_EQ(end.reserve(kLong), nullptr);
    EXPECT_NE(end.reserve(kShort), nullptr);
    end.ahead = 2;
    EXPECT_EQ(end.reserve(kLong), nullptr);
    end.ahead = 0;
    EXPECT_TRUE(send(kLong));
    EXPECT_FALSE(send(kLong));
    EXPECT_EQ(end.reserve(), nullptr) << "of any length";
    for (int i = 0; i < 5; ++i) EXPECT_TRUE(send(i % 2 == 0 ? kShort : 1));
    EXPECT_FALSE(send(1));
    ring.receiver.release();
    EXPECT_TRUE(send(kLong)) << "the first was long";
    ring.receiver.release();
    EXPECT_FALSE(send(kLong)) << "that was a short one";
    EXPECT_TRUE(send(1));
    for (int i = 0; i < 8; ++i) ring.receiver.release();
  }
}

// What a receiver expects of a message's header is compared as a whole.
TEST(SlotRing, TellsTheExpectedMessageFromOthers) {
  using Expected = ReceiveEnd::Expected;
  for (uint32_t length : {0u, kInlineBytes, kInlineBytes + 1, 128u}) {
    SCOPED_TRACE(length);
    Ring ring({4, 128, 0, 128, 2}, 5, 9);
    const std::byte* data = nullptr;
    const auto look = [&](uint32_t itsLength, uint32_t signature) {
      return ring.receiver.peek(itsLength, signature, &data);
    };
    EXPECT_EQ(look(length, 3), Expected::none);
    EXPECT_FALSE(ring.receiver.hasCome());
    ASSERT_NE(ring.sender.reserve(length), nullptr);
    std::byte* const place = ring.sender.place(length);
    ring.sender.publish(length, kSlotLast, 3);
    EXPECT_TRUE(ring.receiver.hasCome());
    EXPECT_EQ(look(length, 3), Expected::there);
    EXPECT_EQ(data, place);
    EXPECT_EQ(look(length + 1, 3), Expected::other);
    EXPECT_EQ(look(length, 4), Expected::other);
    Slot& slot = *ring.sender.slot(5);
    for (uint16_t flags : {0, kSlotLast | kSlotGet, kSlotLast | kSlotPut}) {
      slot.flags = flags;
      EXPECT_EQ(look(length, 3), Expected::other);
    }
    slot.flags = kSlotLast;
    slot.epoch = 8;
    EXPECT_EQ(look(length, 3), Expected::other);
    slot.epoch = 9;
    ring.receiver.release(length);
    EXPECT_EQ(look(length, 3), Expected::none);
    EXPECT_EQ(ring.receiver.bytes, length);
  }
}

TEST(SlotRing, IsEmptyThenFullThenEmptyAtEveryStart) {
  for (uint64_t first : kFirsts) {
    SCOPED_TRACE(first);
    Ring ring({4, 64}, first);
    Received received;
    for (int lap = 0; lap < 3; ++lap) {
      EXPECT_FALSE(ring.receiver.peek(received));
      for (uint32_t i = 0; i < 4; ++i) {
        ASSERT_NE(ring.sender.reserve(), nullptr);
        ring.sender.publish(i, 0, i);
      }
      EXPECT_EQ(ring.sender.reserve(), nullptr);
      for (uint32_t i = 0; i < 4; ++i) {
        ASSERT_TRUE(ring.receiver.peek(received));
        ASSERT_TRUE(ring.receiver.peek(received));  // looking takes nothing
        EXPECT_EQ(received.signature, i);
        EXPECT_EQ(received.length, i);
        ring.receiver.release();
      }
    }
  }
}

TEST(SlotRing, ReusesASlotOnlyAfterItsRelease) {
  Ring ring({2, 64}, ~uint64_t{0});
  ring.sender.publish(0, 0, 1);
  ring.sender.publish(0, 0, 2);
  Received received;
  ASSERT_TRUE(ring.receiver.peek(received));
  EXPECT_EQ(ring.sender.reserve(), nullptr);
  ring.receiver.release();
  EXPECT_NE(ring.sender.reserve(), nullptr);
  ring.sender.publish(0, 0, 3);
  EXPECT_EQ(ring.sender.reserve(), nullptr);
}

// Slots that are reserved for moves under way count as used, and messages that they take as looked at.
TEST(SlotRing, MovesUnderWayAreAheadOfWhatIsPublished) {
  for (uint64_t first : kFirsts) {
    SCOPED_TRACE(first);
    Ring ring({2, 128}, first);
    for (uint8_t lap = 0; lap < 3; ++lap) {
      std::byte* places[2];
      for (std::byte*& place : places) {
        ASSERT_NE(ring.sender.reserve(), nullptr);
        place = ring.sender.place(100);
        ++ring.sender.ahead;
      }
      EXPECT_NE(places[0], places[1]);
      EXPECT_EQ(ring.sender.reserve(), nullptr);
      Received received;
      EXPECT_FALSE(ring.receiver.peek(received));
      for (uint8_t i = 0; i < 2; ++i) {  // complete in another order, published in theirs
        std::memset(places[1 - i], lap + 1 - i, 100);
      }
      for (uint8_t i = 0; i < 2; ++i) {
        --ring.sender.ahead;
        ring.sender.publish(100, 0, i);
      }
      EXPECT_EQ(ring.sender.reserve(), nullptr);
      for (uint8_t i = 0; i < 2; ++i) {
        ASSERT_TRUE(ring.receiver.peek(received));
        EXPECT_EQ(received.signature, i);
        EXPECT_EQ(received.data[99], static_cast<std::byte>(lap + i));
        ++ring.receiver.ahead;
      }
      EXPECT_FALSE(ring.receiver.peek(received));
      EXPECT_EQ(ring.sender.reserve(), nullptr);  // taken, not released
      for (uint8_t i = 0; i < 2; ++i) {
        --ring.receiver.ahead;
        ring.receiver.release();
      }
    }
  }
}

// Whoever takes memory back waits for the last of them.
TEST(SlotRing, MemoryIsInUseUntilTheLastMoveHasEnded) {
  Ring ring({2, 64});
  EXPECT_TRUE(ring.receiver.beginReading());
  EXPECT_TRUE(ring.receiver.beginReading());
  EXPECT_TRUE(ring.receiver.endReading());
  EXPECT_NE(ring.receiver.control->reading, 0u);
  EXPECT_TRUE(ring.receiver.endReading());
  EXPECT_EQ(ring.receiver.control->reading, 0u);
  EXPECT_TRUE(ring.sender.beginWriting());
  EXPECT_TRUE(ring.sender.beginWriting());
  ring.sender.endWriting();
  EXPECT_NE(ring.sender.control->writing, 0u);
  ring.sender.endWriting();
  EXPECT_EQ(ring.sender.control->writing, 0u);
}

TEST(SlotRing, KnowsWhenReferencesAreReleasedAtEveryStart) {
  for (uint64_t first : kFirsts) {
    SCOPED_TRACE(first);
    Ring ring({4, 64}, first);
    EXPECT_TRUE(ring.sender.getsReleased());
    for (int lap = 0; lap < 5; ++lap) {
      ASSERT_NE(ring.sender.reserve(), nullptr);
      ring.sender.publish(64, kSlotGet, 1);
      ASSERT_NE(ring.sender.reserve(), nullptr);
      ring.sender.publish(8, 0, 1);
      EXPECT_FALSE(ring.sender.getsReleased());
      ring.receiver.release();
      EXPECT_TRUE(ring.sender.getsReleased());  // the plain message after it does not matter
      ring.receiver.release();
    }
  }
}

TEST(SlotRing, OffersAreForOneMessageAndOneLength) {
  for (uint64_t first : kFirsts) {
    SCOPED_TRACE(first);
    Ring ring({4, 64}, first);
    std::byte memory[100];
    ring.receiver.mine = {memory, 100};
    std::byte elsewhere[100];  // where the sender has mapped it
    ring.sender.theirs = {elsewhere, 100};
    ring.sender.directFrom = ring.receiver.directFrom = 50;
    for (int k = 0; k < 9; ++k) {
      EXPECT_TRUE(ring.sender.mayBeOffered(60));
      EXPECT_FALSE(ring.sender.mayBeOffered(49));
      EXPECT_FALSE(ring.receiver.offered());
      EXPECT_EQ(ring.sender.offered(60), nullptr);
      ring.receiver.offer(ring.receiver.next + 1, memory + 40, 60);
      EXPECT_EQ(ring.sender.offered(60), nullptr);  // that is for the message after it
      for (int message = 0; message < 2; ++message) {
        ASSERT_NE(ring.sender.reserve(), nullptr);
        EXPECT_EQ(ring.sender.offered(60), message == 1 ? elsewhere + 40 : nullptr);
        EXPECT_EQ(ring.sender.offered(59), nullptr);
        ring.sender.publish(60, 0, 0);
        EXPECT_EQ(ring.receiver.offered(), message == 1);
        ring.receiver.release();
      }
    }
  }
}

// A receiver whose memory the sender cannot get at says so of each message, and the sender does not wait for
// it.
TEST(SlotRing, NobodyWaitsForOffersOfOneWhoWantsSlots) {
  for (uint64_t first : kFirsts) {
    Ring ring({4, 64}, first);
    std::byte memory[64], elsewhere[64], plain[64];
    ring.receiver.mine = {memory, 64};
    ring.sender.theirs = {elsewhere, 64};
    ring.sender.directFrom = ring.receiver.directFrom = 50;
    const auto pass = [&](const std::byte* to) {
      if (to != nullptr) ring.receiver.offer(ring.receiver.next, to, 60);
      ASSERT_NE(ring.sender.reserve(), nullptr);
      ring.sender.publish(60, 0, 0);
      ring.receiver.release();
    };
    for (int lap = 0; lap < 5; ++lap) {
      EXPECT_TRUE(ring.sender.mayBeOffered(60)) << lap;
      pass(plain);
      EXPECT_FALSE(ring.sender.mayBeOffered(60)) << lap;
      ring.receiver.offer(ring.receiver.next, memory, 60);  // but what is offered is taken
      EXPECT_EQ(ring.sender.offered(60), elsewhere);
      pass(memory);
      EXPECT_TRUE(ring.sender.mayBeOffered(60)) << lap;
      pass(nullptr);
    }
  }
}

TEST(SlotRing, StreamsWhatTheReceiverWantsStreamed) {
  Ring ring({4, 128});
  const auto wants = [&](uint32_t length) { return ring.sender.streams(length); };
  WantedWays& plain = ring.sender.control->receiverWants[0];
  plain.streamed = 1u << sizeClassOf(kStreamFrom) | 1u << sizeClassOf(65536);
  EXPECT_FALSE(wants(kStreamFrom)) << "it may not";
  ring.sender.mayStream = true;
  EXPECT_TRUE(wants(kStreamFrom) && wants(2 * kStreamFrom - 1) && wants(65536) && wants(131071));
  EXPECT_FALSE(wants(kStreamFrom - 1) || wants(2 * kStreamFrom) || wants(131072));
}

TEST(SlotRing, OfWhatIsReadForATrialOneMessageIsUnderWay) {
  Ring ring({4, 128});
  WantedWays& plain = ring.sender.control->receiverWants[0];
  ring.sender.directFrom = 64;
  plain.read = 1u << sizeClassOf(64);
  EXPECT_FALSE(ring.sender.isToBeRead(64)) << "by nobody";
  ring.sender.legible = [](const std::byte*) { return true; };
  EXPECT_TRUE(ring.sender.isToBeRead(64) && ring.sender.isToBeRead(127));
  EXPECT_FALSE(ring.sender.isToBeRead(63) || ring.sender.isToBeRead(128));
  const auto refer = [&] {
    ASSERT_NE(ring.sender.reserve(64), nullptr);
    ring.sender.publish(64, kSlotGet | kSlotLast, 1);
  };
  refer();
  EXPECT_TRUE(ring.sender.isToBeRead(64));
  refer();
  uint32_t& tries = ring.sender.control->receiverTries;
  tries = 1u << sizeClassOf(64);
  EXPECT_FALSE(ring.sender.isToBeRead(64));
  ring.receiver.release();
  EXPECT_FALSE(ring.sender.isToBeRead(64));
  ring.receiver.release();
  EXPECT_TRUE(ring.sender.isToBeRead(64));
  tries = ~tries;
  refer();
  EXPECT_TRUE(ring.sender.isToBeRead(64)) << "others are tried";
}

TEST(SlotRing, NothingOutsideAWindowIsOfferedOrNamed) {
  Ring ring({2, 64});
  std::byte memory[100];
  ring.receiver.mine = {memory + 10, 50};
  ring.receiver.directFrom = 20;
  ring.receiver.offer(ring.receiver.next, memory + 10, 19);  // nobody would place it
  EXPECT_FALSE(ring.receiver.offered());
  ring.receiver.offer(ring.receiver.next, memory + 9, 20);
  ring.receiver.offer(ring.receiver.next, memory + 41, 20);
  EXPECT_FALSE(ring.receiver.offered());
  EXPECT_TRUE(ring.receiver.answered());  // with "in a slot"
  ring.sender.theirs = {memory, 60};
  ring.sender.directFrom = 20;
  EXPECT_FALSE(ring.sender.mayBeOffered(20));
  EXPECT_EQ(ring.sender.offered(20), nullptr);
  EXPECT_EQ(ring.sender.offered(0), nullptr);
  ring.sender.mine = {memory + 10, 50};
  ring.sender.directFrom = 1;
  uint64_t offset;
  EXPECT_FALSE(ring.sender.reaches(memory + 9, 20, &offset));
  EXPECT_FALSE(ring.sender.reaches(memory + 41, 20, &offset));
  ASSERT_TRUE(ring.sender.reaches(memory + 40, 20, &offset));
  EXPECT_EQ(offset, 30u);
  // A receiver that offers what it has not shown.
  ring.sender.theirs = {memory, 60};
  ring.receiver.mine = kOwnAddressSpace;
  ring.receiver.offer(ring.receiver.next, reinterpret_cast<std::byte*>(41), 20);
  EXPECT_EQ(ring.sender.offered(20), nullptr);
  ring.receiver.offer(ring.receiver.next, reinterpret_cast<std::byte*>(40), 20);
  EXPECT_EQ(ring.sender.offered(20), memory + 40);
}

// Who sends one message at a time uses one piece of memory; what is under way is never overwritten.
TEST(SlotRing, LongDataGoesToTheSameAreaUnlessThatIsInUse) {
  Ring ring({4, 128}, ~uint64_t{0} - 5);
  Received received;
  const auto send = [&](uint32_t length) {
    EXPECT_NE(ring.sender.reserve(), nullptr);
    std::byte* place = ring.sender.place(length);
    ring.sender.publish(length, 0, 0);
    return place;
  };
  const auto take = [&] {
    EXPECT_TRUE(ring.receiver.peek(received));
    ring.receiver.release();
    return received.data;
  };
  std::byte* first = send(100);
  EXPECT_EQ(take(), first);
  for (int i = 0; i < 9; ++i) {
    EXPECT_EQ(send(100), first);
    send(8);  // inside its header
    EXPECT_EQ(take(), first);
    take();
  }
  std::vector<std::byte*> places;
  for (int i = 0; i < 50; ++i) {
    places.push_back(send(100));
    for (size_t before = places.size() - std::min<size_t>(places.size(), 3); before + 1 < places.size();
         ++before)
      EXPECT_NE(places.back(), places[before]);
    if (i >= 2) { EXPECT_EQ(take(), places[static_cast<size_t>(i) - 2]); }
  }
}

// The area of a ring holds as many messages as may be light.
TEST(SlotRing, HeavyMessagesCountForTwo) {
  constexpr uint32_t kLight = 256, kHeavy = 257;
  const RingShape shape{16, 512, 0, 128, 4, 0, kLight};
  EXPECT_EQ(shape.areaLines() * kCacheLine, 4 * kLight);
  Ring ring(shape, ~uint64_t{0} - 4);
  SendEnd& end = ring.sender;
  const auto send = [&](uint32_t length, uint16_t flags = 0, bool grows = false) {
    if (end.reserve(length) == nullptr) return false;
    if (flags == 0) end.place(length);
    if (grows) {
      end.grow(length, 0, 0);
      end.finish(length);
    } else {
      end.publish(length, flags, 0);
    }
    return true;
  };
  for (int lap = 0; lap < 40; ++lap) {
    SCOPED_TRACE(lap);
    const bool grows = lap % 2 == 1;
    EXPECT_TRUE(send(kHeavy, 0, grows));
    EXPECT_TRUE(send(kLight));
    EXPECT_FALSE(send(kHeavy));
    EXPECT_TRUE(send(kLight));
    EXPECT_FALSE(send(kLight));
    EXPECT_TRUE(send(128)) << "a short one";
    ring.receiver.release();
    end.ahead = 1;  // a move under way counts as heavy
    EXPECT_EQ(end.reserve(kLight), nullptr);
    end.ahead = 0;
    EXPECT_TRUE(send(kHeavy, 0, grows));
    EXPECT_FALSE(send(kLight));
    for (int i = 0; i < 4; ++i) ring.receiver.release();
    // Of what holds no data in the ring there may be more; the one to come may hold some.
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(send(kHeavy, i % 2 == 0 ? kSlotGet : kSlotPut));
    EXPECT_FALSE(send(kHeavy, kSlotGet));
    EXPECT_TRUE(send(kLight));
    EXPECT_FALSE(send(kLight));
    for (int i = 0; i < 4; ++i) ring.receiver.release();
  }
}

// Whatever is sent and released when: data of messages under way is in the ring, and on lines of its own; that
// of those which go round begins at a page.
void sendAnyLengths(RingShape shape, uint64_t spread, const std::vector<uint32_t>& lengths) {
  std::mt19937 random(7);
  Ring ring(shape, ~uint64_t{0} - 50);
  ring.sender.places.spread = spread;
  struct Piece {
    const std::byte *begin, *end;
  };
  std::deque<Piece> underWay;
  const std::byte* const memory = static_cast<std::byte*>(ring.memory.get());
  for (int i = 0; i < 20'000; ++i) {
    // Some of the time most slots are full, and some of it few are.
    if (random() % 4 < (i % 1000 < 500 ? 1 : 3) && !underWay.empty()) {
      Received received;
      ASSERT_TRUE(ring.receiver.peek(received));
      ASSERT_EQ(received.data, underWay.front().begin);
      ring.receiver.release();
      underWay.pop_front();
      continue;
    }
    uint32_t length = lengths[random() % lengths.size()];
    if (length == 0)
      length = kInlineBytes + 1 + static_cast<uint32_t>(random()) % (shape.slotBytes - kInlineBytes);
    if (ring.sender.reserve(length) == nullptr) continue;
    const std::byte* begin = ring.sender.place(length);
    const std::byte* end = begin + length;
    ring.sender.publish(length, 0, 0);
    ASSERT_TRUE(begin >= memory + shape.slotsAt() && end <= memory + shape.bytes());
    if (length >= kSpreadFrom) { ASSERT_EQ((begin - memory - shape.dataAt()) % kDataPage, 0U); }
    for (const Piece& other : underWay) ASSERT_TRUE(end <= other.begin || other.end <= begin) << i;
    for (uint64_t k = 0; k < shape.slots; ++k) {
      const auto* header = reinterpret_cast<const std::byte*>(ring.sender.slot(k));
      ASSERT_TRUE(end <= header || header + sizeof(Slot) <= begin) << i;
    }
    underWay.push_back({begin, end});
  }
}

TEST(SlotRing, DataUnderWayNeverOverlaps) {
  for (const uint32_t most : {uint32_t{1024}, kSpreadFrom, kSpreadFrom + 64, 3 * kSpreadFrom}) {
    for (uint64_t room : {0, 1 << 18}) {
      for (uint64_t spread : {0, 300, 500, 1024, 4000}) {
        for (const RingShape& shape : {RingShape{4, most, room}, RingShape{32, most, room, 256, 4},
                                       RingShape{32, most, room, 256, 4, 0, (most / 2 + 63) / 64 * 64}}) {
          SCOPED_TRACE(testing::Message() << most << " bytes, room " << room << ", spread " << spread
                                          << ", few " << shape.longOnes << ", light " << shape.light);
          if (spread > shape.areaLines()) continue;
          sendAnyLengths(shape, spread, {0, 300, std::min(most, 1024U), std::min(most, kSpreadFrom - 1), most});
        }
      }
    }
  }
  sendAnyLengths({2, kSpreadFrom}, 0, {1024, kSpreadFrom - 1, kSpreadFrom});
}

// One message at a time: long ones go round in what they are to be spread over, short ones stay where they are,
// also between long ones.
TEST(SlotRing, LongMessagesGoRound) {
  constexpr uint32_t kLength = 2 * kSpreadFrom, kLines = kLength / kCacheLine;
  Ring ring({32, kLength, 1 << 20});
  const auto pass = [&](uint32_t length) {
    EXPECT_NE(ring.sender.reserve(), nullptr);
    std::byte* place = ring.sender.place(length);
    ring.sender.publish(length, 0, 0);
    ring.receiver.release();
    return place;
  };
  std::byte* const first = pass(100);
  for (const uint32_t length : {100, 1000, 100}) EXPECT_EQ(pass(length), first);
  ring.sender.places.spread = 10 * kLines;
  ring.sender.places.line = 0;
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 10; ++i) {
      EXPECT_EQ(pass(kLength), first + i * kLength);
      // The receiver's count is in a line that it has just written.
      EXPECT_LT(ring.sender.releasedSeen, ring.sender.next - static_cast<uint64_t>(i));
    }
  }
  std::set<const std::byte*> longOnes;
  for (int i = 0; i < 50; ++i) {
    longOnes.insert(pass(kLength));
    const std::byte* at = pass(kSpreadFrom - 1);
    EXPECT_EQ(pass(100), at);
    EXPECT_LE(at, first + 10 * kLength);
  }
  EXPECT_GE(longOnes.size(), 6u);
  EXPECT_EQ(*longOnes.begin(), first);
  EXPECT_LT(*longOnes.rbegin(), first + 10 * kLength);
  ring.sender.places.spread = 0;
  pass(kLength);
  EXPECT_EQ(pass(kLength), first);
}

TEST(SlotRing, LongMessagesBeginAtAPageWhereNothingElseIsUnderWay) {
  Ring ring({8, 1 << 16, 1 << 20});
  ring.sender.places.spread = 1 << 10;
  const auto* const data = static_cast<std::byte*>(ring.memory.get()) + ring.sender.shape.dataAt();
  const std::byte* last = nullptr;
  for (const uint32_t length : {6000, 4097, 100, 4096, 60'000, 6000, 12'345, 1000}) {
    ASSERT_NE(ring.sender.reserve(length), nullptr);
    const std::byte* const at = ring.sender.place(length);
    EXPECT_EQ((at - data) % kDataPage, 0) << length;
    EXPECT_NE(at, last);
    last = length < kSpreadFrom ? nullptr : at;
    ring.sender.publish(length, 0, 0);
    ring.receiver.release();
  }
}

// A sender that lies about where its data is reads or shows nothing outside the ring.
TEST(SlotRing, AreasAreWithinTheRingWhateverTheHeaderSays) {
  Ring ring({2, 128});
  ASSERT_NE(ring.sender.reserve(), nullptr);
  ring.sender.place(100);
  ring.sender.slot(0)->area = 0xfffffff1;
  ring.sender.publish(100, 0, 0);
  Received received;
  ASSERT_TRUE(ring.receiver.peek(received));
  const auto* begin = static_cast<const std::byte*>(ring.memory.get());
  EXPECT_GE(received.data, begin);
  EXPECT_LE(received.data + 128, begin + ring.sender.shape.bytes());
}

TEST(SlotRing, RefusesWritingAfterTheReceiversPoison) {
  Ring ring({2, 64});
  EXPECT_TRUE(ring.sender.beginWriting());
  EXPECT_EQ(ring.sender.control->writing, 1u);
  ring.sender.endWriting();
  EXPECT_EQ(ring.sender.control->writing, 0u);
  storeRelease(&ring.receiver.control->receiverPoison, 1u);
  EXPECT_FALSE(ring.sender.beginWriting());
}

TEST(SlotRing, CarriesTheSendersEpoch) {
  Ring ring({2, 64}, 0, 9);
  ring.sender.publish(0, kSlotLast, 0);
  Received received;
  ASSERT_TRUE(ring.receiver.peek(received));
  EXPECT_EQ(received.epoch, 9);
  EXPECT_EQ(received.flags, kSlotLast);
}

// Whatever a hostile receiver writes as its count, the sender never writes where it must not.
TEST(SlotRing, ASenderWithANonsensicalCreditIsBlockedNotLost) {
  Ring ring({4, 64}, 0);
  for (int i = 0; i < 4; ++i) ring.sender.publish(0, 0, 0);
  for (uint64_t lie : {uint64_t{5}, uint64_t{1} << 40, ~uint64_t{0} - 100}) {
    ring.sender.control->released = lie;
    EXPECT_EQ(ring.sender.reserve(), nullptr) << lie;
  }
  ring.sender.control->released = 1;
  EXPECT_NE(ring.sender.reserve(), nullptr);
}

TEST(SlotRing, RefusesReadingAfterTheSendersPoison) {
  Ring ring({2, 64});
  EXPECT_TRUE(ring.receiver.beginReading());
  EXPECT_EQ(ring.sender.control->reading, 1u);
  ring.receiver.endReading();
  storeFenced(&ring.sender.control->senderPoison, 1u);
  EXPECT_FALSE(ring.receiver.beginReading());
  ring.receiver.endReading();
  EXPECT_TRUE(ring.receiver.poisoned());
  EXPECT_FALSE(ring.sender.poisoned());
}

// Two threads, random lengths, small rings; ThreadSanitizer looks on.
TEST(SlotRing, CarriesAStreamBetweenTwoThreads) {
#if defined(__SANITIZE_THREAD__)
  const uint32_t count = 5'000;
#else
  const uint32_t count = 30'000;
#endif
  for (uint32_t slots : {1u, 2u, 8u}) {
    Ring ring({slots, 256}, ~uint64_t{0} - 1000);
    std::vector<std::byte> own(256);  // what references point to
    std::thread thread([&] {
      for (uint32_t k = 0; k < count; ++k) {
        while (ring.sender.reserve() == nullptr) std::this_thread::yield();
        const uint32_t length = k * 37 % 257;
        std::memset(ring.sender.place(length), static_cast<int>(k & 0xff), length);
        ring.sender.publish(length, 0, k);
      }
    });
    uint64_t wrong = 0;
    for (uint32_t k = 0; k < count; ++k) {
      Received received;
      while (!ring.receiver.peek(received)) std::this_thread::yield();
      wrong += received.signature != k || received.length != k * 37 % 257;
      for (uint32_t i = 0; i < received.length; ++i)
        wrong += received.data[i] != static_cast<std::byte>(k & 0xff);
      ring.receiver.release();
    }
    thread.join();
    EXPECT_EQ(wrong, 0u) << slots << " slots";
  }
}

// The promise of poison: after the flag is up and `reading` was seen low, nobody reads the memory.
TEST(SlotRing, PoisonAndReadersExcludeEachOther) {
  for (int round = 0; round < 40; ++round) {
    Ring ring({2, 64});
    int memory = 1;  // plain: a reader after the revocation is a race that ThreadSanitizer reports
    int seen = 0;
    std::thread reader([&] {
      for (bool allowed = true; allowed;) {
        if ((allowed = ring.receiver.beginReading())) seen += memory == 2;
        ring.receiver.endReading();
      }
    });
    for (int i = 0; i < round % 8; ++i) std::this_thread::yield();
    storeFenced(&ring.sender.control->senderPoison, 1u);
    while (loadAcquire(&ring.sender.control->reading) != 0) std::this_thread::yield();
    memory = 2;
    reader.join();
    ASSERT_EQ(seen, 0);
  }
}

}  // namespace
}  // namespace eccl
