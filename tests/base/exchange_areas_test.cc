// Areas that change hands: who owns which, and that data comes through them whole.
#include "program/exchange_areas.h"

#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <random>
#include <vector>

#include "program/move_ends.h"

namespace eccl {
namespace {

constexpr uint32_t kEach = ExchangeAreas::kEach, kAll = ExchangeAreas::kAll;
constexpr RingShape kExchanging{16, 8192, 0, 512, 8, 0, 0, true};

/// Two rings between two ranks, 0 and 1, and each rank's part of the exchange.
struct Pair {
  Pair() {
    for (int from : {0, 1}) {
      memory[from].reset(std::aligned_alloc(kDataPage, RingShape::wholePages(kExchanging.bytes())));
      std::memset(memory[from].get(), 0, kExchanging.bytes());
      formatRing(memory[from].get(), kExchanging, 0);
      attachRing(senders[from], memory[from].get(), kExchanging, 0, 0);
      attachRing(receivers[1 - from], memory[from].get(), kExchanging, 0, 0);
    }
    for (int rank : {0, 1}) {
      ExchangeAreas& its = areas[rank];
      its.memory[0] = areasOf(rank);
      its.memory[1] = areasOf(1 - rank);
      its.areaBytes = static_cast<uint32_t>(kExchanging.areaStride());
      for (uint32_t area = 0; area < kEach; ++area) its.take(area);
      senders[rank].exchange = receivers[rank].exchange = &its;
      receivers[rank].claiming = true;
    }
  }
  std::byte* areasOf(int from) const {
    return static_cast<std::byte*>(memory[from].get()) + kExchanging.exchangeAt();
  }
  /// Sends `length` bytes of that value; nullptr if there is no slot. Returns where they went.
  std::byte* send(int from, uint32_t length, int value, bool streamed = false) {
    SendEnd& end = senders[from];
    if (end.reserve(length) == nullptr) return nullptr;
    std::byte* const to = end.place(length);
    std::memset(to, value, length);
    end.publish(length, streamed ? kSlotLast | kSlotStreamed : kSlotLast, 0);
    return to;
  }
  bool isExchanged(const std::byte* at) const {
    const size_t all = kEach * kExchanging.areaStride();
    return (at >= areasOf(0) && at < areasOf(0) + all) || (at >= areasOf(1) && at < areasOf(1) + all);
  }
  struct Free {
    void operator()(void* its) const { std::free(its); }
  };
  std::unique_ptr<void, Free> memory[2];  // by sender
  SendEnd senders[2];
  ReceiveEnd receivers[2];
  ExchangeAreas areas[2];
};

TEST(ExchangeAreas, TheOneThatWasReadLastIsGivenFirst) {
  std::byte memory[2][kEach * 64];
  ExchangeAreas areas;
  EXPECT_EQ(areas.give(), ExchangeAreas::kNone);
  areas.memory[0] = memory[0];
  areas.memory[1] = memory[1];
  areas.areaBytes = 64;
  for (uint32_t area : {2u, 5u, 1u}) areas.take(area);
  EXPECT_EQ(areas.at(2), memory[0] + 128);
  EXPECT_EQ(areas.at(5), memory[1] + 64);
  EXPECT_EQ(areas.give(), 1u);
  EXPECT_EQ(areas.give(), 5u);
  EXPECT_EQ(areas.give(), 2u);
  EXPECT_EQ(areas.give(), ExchangeAreas::kNone);
  for (uint32_t area = 0; area < kAll; ++area)
    EXPECT_EQ(ExchangeAreas::turned(ExchangeAreas::turned(area)), area);
}

TEST(ExchangeAreas, NothingIsOwnedTwiceOrWithoutMemory) {
  std::byte memory[kEach * 64];
  ExchangeAreas areas;
  areas.areaBytes = 64;
  areas.take(0);  // no memory yet
  EXPECT_EQ(areas.count, 0u);
  areas.memory[0] = memory;
  for (uint32_t area : {0u, 0u, kEach, kAll, kAll + 1, UINT32_MAX >> 1, UINT32_MAX, 1u, 0u}) areas.take(area);
  EXPECT_EQ(areas.count, 2u);
  EXPECT_EQ(areas.at(kEach), nullptr);
  EXPECT_EQ(areas.at(kAll), nullptr);
}

TEST(ExchangeAreas, AnAnswerGoesWhereTheMessageCame) {
  Pair pair;
  for (int round = 0; round < 20; ++round) {
    Received received;
    const std::byte* const there = pair.send(0, 4096, round);
    ASSERT_TRUE(pair.receivers[1].peek(received));
    EXPECT_EQ(received.data, there);
    EXPECT_FALSE(interpreter::claims(pair.receivers[1], received));
    pair.receivers[1].release();
    EXPECT_EQ(pair.send(1, 8192, round), there);
    ASSERT_TRUE(pair.receivers[0].peek(received));
    EXPECT_EQ(received.data, there);
    pair.receivers[0].release();
  }
}

TEST(ExchangeAreas, ShortOnesLieInTheirSlots) {
  Pair pair;
  EXPECT_FALSE(pair.isExchanged(pair.send(0, 512, 1)));
  EXPECT_TRUE(pair.isExchanged(pair.send(0, 513, 1)));
  EXPECT_EQ(pair.areas[0].count, kEach - 1);
  pair.receivers[1].release();
  EXPECT_EQ(pair.areas[1].count, kEach);
}

// Written past the caches or not: else the other side would soon own nothing any more.
TEST(ExchangeAreas, WhatIsStreamedIsExchanged) {
  Pair pair;
  const std::byte* const there = pair.send(0, 4096, 1, true);
  EXPECT_TRUE(pair.isExchanged(there));
  pair.receivers[1].release();
  EXPECT_EQ(pair.send(1, 4096, 1), there);
}

TEST(ExchangeAreas, NothingIsGivenWhereNothingComesBack) {
  Pair pair;
  pair.areas[0].memory[1] = nullptr;
  EXPECT_FALSE(pair.isExchanged(pair.send(0, 4096, 1)));
  EXPECT_EQ(pair.areas[0].count, kEach);
}

// As Broadcast sends. The receiver keeps what it has got, and claims the lines of the rest.
TEST(ExchangeAreas, WhoOnlySendsUsesTheRing) {
  Pair pair;
  for (uint32_t i = 0; i < 50; ++i) {
    Received received;
    const std::byte* const at = pair.send(0, 4096, 1);
    EXPECT_EQ(pair.isExchanged(at), i < kEach) << i;
    ASSERT_TRUE(pair.receivers[1].peek(received));
    EXPECT_EQ(received.data, at);
    EXPECT_EQ(interpreter::claims(pair.receivers[1], received), i >= kEach) << i;
    pair.receivers[1].release();
  }
  EXPECT_EQ(pair.areas[1].count, kAll);
  EXPECT_EQ(pair.areas[0].count, 0u);
  // What comes back is the first one's again.
  EXPECT_TRUE(pair.isExchanged(pair.send(1, 4096, 1)));
  pair.receivers[0].release();
  EXPECT_TRUE(pair.isExchanged(pair.send(0, 4096, 1)));
  EXPECT_FALSE(pair.isExchanged(pair.send(0, 4096, 1)));
}

// References and what is placed elsewhere come in no area, whatever was in the slot before.
TEST(ExchangeAreas, WhatIsNotInTheRingGivesNothing) {
  Pair pair;
  for (uint32_t i = 0; i < kExchanging.slots; ++i) {  // every slot has had one
    ASSERT_NE(pair.send(i % 2, 4096, 1), nullptr);
    pair.receivers[1 - i % 2].release();
  }
  const uint32_t before = pair.areas[1].count;
  for (int flag : {kSlotGet, kSlotPut}) {
    for (uint32_t i = 0; i < kExchanging.slots; ++i) {
      ASSERT_NE(pair.senders[0].reserve(4096), nullptr);
      pair.senders[0].publish(4096, static_cast<uint16_t>(flag), 0);
      pair.receivers[1].release();
    }
  }
  EXPECT_EQ(pair.areas[1].count, before);
}

// Calls of all kinds: any number of messages under way each way, of moves that are complete at once or later,
// on either side, and of messages that grow.
TEST(ExchangeAreas, EachIsOwnedByOneSideAndDataComesWhole) {
  std::mt19937 random(7);
  struct Sent {
    uint32_t length;
    int value;
    bool exchanged;
  };
  for (int turn = 0; turn < 30; ++turn) {
    Pair pair;
    std::deque<Sent> placed[2], published[2], peeked[2];  // by sender
    uint32_t lent = 0;
    const auto bias = random() % 100;
    for (int step = 0; step < 2000; ++step) {
      const int from = random() % 100 < bias ? 0 : 1;
      SendEnd& sender = pair.senders[from];
      ReceiveEnd& receiver = pair.receivers[1 - from];
      switch (random() % 4) {
        case 0: {
          Sent sent{1 + static_cast<uint32_t>(random() % 8192), static_cast<int>(random() % 256), false};
          if (placed[from].size() == 4 || sender.reserve(sent.length) == nullptr) break;
          std::byte* const to = sender.place(sent.length);
          std::memset(to, sent.value, sent.length);
          sent.exchanged = pair.isExchanged(to);
          lent += sent.exchanged;
          ++sender.ahead;
          placed[from].push_back(sent);
          break;
        }
        case 1: {
          if (placed[from].empty()) break;
          const Sent sent = placed[from].front();
          placed[from].pop_front();
          --sender.ahead;
          if (random() % 3 == 0 && placed[from].empty() && sent.length > 512) {
            sender.grow(sent.length, kSlotLast, 0);
            sender.grown(sent.length / 2);
            sender.finish(sent.length);
          } else {
            sender.publish(sent.length, kSlotLast, 0);
          }
          published[from].push_back(sent);
          break;
        }
        case 2: {
          Received received;
          if (published[from].empty()) {
            ASSERT_FALSE(receiver.peek(received));
            break;
          }
          const Sent sent = published[from].front();
          ASSERT_TRUE(receiver.peek(received));
          ASSERT_EQ(received.length, sent.length);
          ASSERT_EQ(pair.isExchanged(received.data), sent.exchanged);
          for (uint32_t i = 0; i < sent.length; ++i) ASSERT_EQ(received.data[i], std::byte(sent.value)) << i;
          published[from].pop_front();
          peeked[from].push_back(sent);
          ++receiver.ahead;
          break;
        }
        default:
          if (peeked[from].empty()) break;
          lent -= peeked[from].front().exchanged;
          peeked[from].pop_front();
          --receiver.ahead;
          receiver.release();
      }
      ASSERT_EQ(pair.areas[0].count + pair.areas[1].count + lent, kAll);
    }
  }
}

TEST(ExchangeAreas, WhateverTheHeaderSaysDataIsWithinTheMemory) {
  for (const uint32_t area : {kEach, kAll, kAll + 5, UINT32_MAX >> 1}) {
    Pair pair;
    pair.areas[1].memory[0] = nullptr;  // nothing goes the other way yet
    pair.send(0, 4096, 1);
    pair.senders[0].slot(0)->area = kInArea | area;
    Received received;
    ASSERT_TRUE(pair.receivers[1].peek(received));
    const auto* const begin = static_cast<const std::byte*>(pair.memory[0].get());
    EXPECT_GE(received.data, begin);
    EXPECT_LE(received.data + kExchanging.slotBytes, begin + kExchanging.bytes());
    const uint32_t before = pair.areas[1].count;
    pair.receivers[1].release();
    EXPECT_EQ(pair.areas[1].count, before);
  }
}

// Memory that the receiver sees is not referred to while areas change hands, unless a message is long, or the
// receiver wants to have it read by the kernel.
TEST(ExchangeAreas, SomeKiBGoThereThoughTheReceiverSeesTheSource) {
  Pair pair;
  SendEnd& end = pair.senders[0];
  end.directFrom = kDirectFrom;
  end.mine = kOwnAddressSpace;
  std::vector<std::byte> data(kDirectFromExchanged);
  const auto source = [&] { return data.data(); };
  const auto deliveryOf = [&](uint32_t length) {
    Outgoing message;
    message.length = length;
    message.whole = message.stable = true;
    return eccl::deliveryOf(message, interpreter::LiveEnd(end, source, message));
  };
  EXPECT_EQ(deliveryOf(kDirectFrom - 1), Delivery::slot);
  EXPECT_EQ(deliveryOf(kDirectFrom), Delivery::slot);
  EXPECT_EQ(deliveryOf(kDirectFromExchanged - 1), Delivery::slot);
  EXPECT_EQ(deliveryOf(kDirectFromExchanged), Delivery::get);
  end.legible = [](const std::byte*) { return true; };
  EXPECT_EQ(deliveryOf(kDirectFrom), Delivery::slot);
  end.control->receiverWants[static_cast<int>(MessageKind::plain)].read = ~0u;
  EXPECT_EQ(deliveryOf(kDirectFrom), Delivery::get);
  end.control->receiverWants[static_cast<int>(MessageKind::plain)].read = 0;
  for (uint32_t area = 0; area < kEach; ++area) {
    EXPECT_EQ(deliveryOf(kDirectFrom), Delivery::slot) << area;
    pair.send(0, 8192, 1);
  }
  EXPECT_EQ(deliveryOf(kDirectFrom), Delivery::get) << "nothing has come back";
  pair.receivers[1].release();
  pair.send(1, 8192, 2);
  pair.receivers[0].release();
  EXPECT_EQ(deliveryOf(kDirectFrom), Delivery::slot);
  pair.areas[0].memory[1] = nullptr;
  EXPECT_EQ(deliveryOf(kDirectFrom), Delivery::get) << "nothing comes back";
  end.exchange = nullptr;
  EXPECT_EQ(deliveryOf(kDirectFrom), Delivery::get);
}

}  // namespace
}  // namespace eccl
