// The rule of delivery, over the whole space of what it is asked.

#include "program/delivery.h"

#include <gtest/gtest.h>

#include <map>
#include <vector>

namespace eccl {
namespace {

constexpr uint32_t kLengths[] = {0, 1, kInlineBytes, kInlineBytes + 1, 1023, 1024, 1025, UINT32_MAX};
constexpr uint32_t kThresholds[] = {0, 1, kInlineBytes, 100, 1024, UINT32_MAX};

/// Every message that a sender can have, and every state of its end.
template <class Visit>
void forEverySend(Visit&& visit) {
  for (uint32_t length : kLengths) {
    for (uint32_t directFrom : kThresholds) {
      for (unsigned bits = 0; bits < 128; ++bits) {
        for (Offered offered : {Offered::no, Offered::notYet, Offered::memory}) {
          Outgoing message;
          message.length = length;
          message.whole = (bits & 1) != 0;
          message.stable = (bits & 2) != 0;
          message.scaled = (bits & 4) != 0;
          message.placed = (bits & 8) != 0;
          message.pushed = (bits & 72) == 72;
          visit(message, SendState{directFrom, offered, (bits & 16) != 0, (bits & 48) == 48});
        }
      }
    }
  }
}

TEST(Delivery, NamesMemoryOnlyWhereTheOtherSideMayAndCanUseIt) {
  forEverySend([](const Outgoing& message, const SendState& end) {
    switch (deliveryOf(message, end)) {
      case Delivery::inlined:
        EXPECT_LE(message.length, kInlineBytes);
        return;
      case Delivery::slot:
        EXPECT_GT(message.length, kInlineBytes);
        return;
      case Delivery::get:
        EXPECT_TRUE(message.stable && message.whole && !message.scaled);
        EXPECT_TRUE(end.visible);
        break;
      case Delivery::put:
        EXPECT_EQ(end.offer, Offered::memory);
        break;
    }
    EXPECT_GE(message.length, end.directFrom);
  });
}

TEST(Delivery, CopiesOnlyWhatCannotGoDirectly) {
  forEverySend([](const Outgoing& message, const SendState& end) {
    const Delivery how = deliveryOf(message, end);
    const bool direct = how == Delivery::get || how == Delivery::put;
    const bool get = message.stable && message.whole && !message.scaled && end.visible;
    const bool put = end.offer == Offered::memory;
    EXPECT_EQ(direct, message.length >= end.directFrom && (get || put));
    // Where both can be done the program's wish decides, then the receiver's.
    if (direct && get && put) {
      EXPECT_EQ(how, message.pushed || (message.placed && !end.wanted) ? Delivery::put : Delivery::get);
    }
  });
}

TEST(Delivery, WaitsForAnOfferOnlyWhereItWouldBeUsed) {
  int waits = 0;
  forEverySend([&](const Outgoing& message, SendState end) {
    const bool reads = message.stable && message.whole && !message.scaled && end.wanted && !message.pushed;
    const bool expected =
        message.placed && end.offer == Offered::notYet && message.length >= end.directFrom && !reads;
    EXPECT_EQ(awaitsOffer(message, end), expected);
    if (!expected) return;
    ++waits;
    end.offer = Offered::memory;
    EXPECT_EQ(deliveryOf(message, end), Delivery::put);
  });
  EXPECT_GT(waits, 0);
}

TEST(Delivery, LooksAtAnEndOnlyIfItHasTo) {
  struct Blind {  // a message that is too short costs no look at the ring
    uint32_t directFrom = 1024;
    Offered offered() const { return ADD_FAILURE(), Offered::memory; }
    bool shown() const { return ADD_FAILURE(), true; }
    bool rathersReading() const { return ADD_FAILURE(), true; }
  };
  const Outgoing message{1023, true, true, false, true};
  EXPECT_EQ(deliveryOf(message, Blind{}), Delivery::slot);
  EXPECT_FALSE(awaitsOffer(message, Blind{}));
}

TEST(Delivery, OffersOnlyWhatIsWrittenAsItIsSent) {
  std::map<Offer, int> made;
  for (uint32_t length : kLengths) {
    for (uint32_t directFrom : kThresholds) {
      for (uint8_t sources : {0, 1, 2, 8}) {
        for (uint8_t destinations : {0, 1, 8}) {
          for (unsigned bits = 0; bits < 32; ++bits) {
            Incoming message;
            message.length = length;
            message.sources = sources;
            message.destinations = destinations;
            message.toMemory = (bits & 1) != 0;
            message.whole = (bits & 2) != 0;
            message.posted = (bits & 4) != 0;
            message.finished = (bits & 8) != 0;
            const ReceiveState end{directFrom, (bits & 16) != 0};
            const bool can = sources == 1 && destinations > 0 && message.toMemory && message.whole &&
                             !message.finished && end.window && length > kInlineBytes && length >= directFrom;
            const Offer expected = !can ? Offer::never : message.posted ? Offer::ahead : Offer::whenWaiting;
            EXPECT_EQ(offerOf(message, end), expected);
            ++made[expected];
          }
        }
      }
    }
  }
  EXPECT_EQ(made.size(), 3u);
}

}  // namespace
}  // namespace eccl
