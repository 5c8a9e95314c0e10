// What a receiver chooses, with costs that a table gives instead of a clock.
#include "program/read_choice.h"

#include <gtest/gtest.h>

namespace eccl {
namespace {

/// A sender that does as it is told, some messages late, and of whose messages every fourth is timed.
class Traffic {
 public:
  explicit Traffic(int64_t from = ReadChoice::kMeasured) : choice(from) {}
  /// Sends `messages` of `length` bytes. Returns how many were read.
  int send(int messages, uint32_t length, uint64_t slotTicks, uint64_t readTicks, bool canRead = true) {
    int reads = 0;
    for (int i = 0; i < messages; ++i) {
      const bool read = canRead && (late_ >> sizeClassOf(length) & 1) != 0;
      if (++sent_ % kLate == 0) late_ = choice.wanted();
      const uint64_t ticks = sent_ % 4 == 0 ? (read ? readTicks : slotTicks) : 0;
      read ? choice.onRead(length, ticks) : choice.onSlot(length, ticks);
      reads += read;
    }
    return reads;
  }
  ReadChoice choice;

 private:
  static constexpr int kLate = 5;
  uint32_t late_ = 0;
  int sent_ = 0;
};

constexpr uint32_t kLength = 131072;

TEST(ReadChoice, TakesSlotsWhereTheyAreFaster) {
  Traffic traffic;
  const int reads = traffic.send(100'000, kLength, 7'000, 15'000);
  EXPECT_GT(reads, 0) << "the other way was not tried";
  EXPECT_LT(reads, 100'000 / 80) << "trials cost too much";
}

TEST(ReadChoice, ReadsWhereSlotsAreSlow) {
  Traffic traffic;
  EXPECT_GT(traffic.send(1000, kLength, 56'000, 30'000), 850);
  const int reads = traffic.send(100'000, kLength, 56'000, 30'000);
  EXPECT_LT(reads, 100'000) << "slots were not tried again";
  EXPECT_GT(reads, 100'000 - 100'000 / 80) << "trials cost too much";
}

TEST(ReadChoice, FollowsTheMachine) {
  Traffic traffic;
  for (int turn = 0; turn < 3; ++turn) {
    traffic.send(6000, kLength, 7'000, 15'000);
    EXPECT_LT(traffic.send(1000, kLength, 7'000, 15'000), 50) << turn;
    traffic.send(300, kLength, 56'000, 30'000);  // slots are in use, so that they get slow shows at once
    EXPECT_GT(traffic.send(1000, kLength, 56'000, 30'000), 900) << turn;
  }
}

// A call that was interrupted took long, and says nothing.
TEST(ReadChoice, IsNotMovedBySingleLongTimes) {
  Traffic traffic;
  traffic.send(500, kLength, 7'000, 15'000);
  for (int i = 0; i < 200; ++i) {
    EXPECT_EQ(traffic.send(5, kLength, 7'000, 15'000) + traffic.send(1, kLength, 9'000'000, 15'000), 0) << i;
  }
}

TEST(ReadChoice, ChoosesForEachSizeByItself) {
  Traffic traffic;
  for (int i = 0; i < 300; ++i) {
    traffic.send(10, 20'000, 3'000, 6'000);
    traffic.send(10, kLength, 56'000, 30'000);
  }
  EXPECT_EQ(traffic.choice.wanted() >> sizeClassOf(20'000) & 1, 0u);
  EXPECT_EQ(traffic.choice.wanted() >> sizeClassOf(kLength) & 1, 1u);
}

TEST(ReadChoice, NeedsSomeAdvantage) {
  Traffic traffic;
  traffic.send(1000, kLength, 30'000, 29'000);
  EXPECT_LT(traffic.send(1000, kLength, 30'000, 29'000), 60);
}

TEST(ReadChoice, LeavesShortMessagesAlone) {
  Traffic traffic;
  EXPECT_EQ(traffic.send(10'000, kReadFrom - 1, 56'000, 30'000), 0);
  EXPECT_EQ(traffic.choice.wanted(), 0u);
}

// Memory that cannot be read comes in slots, whatever the receiver wants. It asks less and less.
TEST(ReadChoice, GivesUpTryingWhatNeverComes) {
  Traffic traffic;
  int wanted = 0;
  for (int i = 0; i < 500'000; ++i) {
    traffic.send(1, kLength, 56'000, 30'000, false);
    wanted += traffic.choice.wanted() != 0;
  }
  EXPECT_LT(wanted, 5000);
}

TEST(ReadChoice, NeverReadsWithoutAClock) {
  ReadChoice choice(ReadChoice::kMeasured);
  for (int i = 0; i < 10'000; ++i) choice.onSlot(kLength, 0);
  EXPECT_EQ(choice.wanted(), 0u);
}

TEST(ReadChoice, DoesAsItIsTold) {
  EXPECT_EQ(ReadChoice(0).wanted(), 0u);
  EXPECT_EQ(ReadChoice(65536).wanted(), ~0u << 16);
  EXPECT_EQ(ReadChoice(65537).wanted(), ~0u << 17);
  EXPECT_EQ(Traffic(65536).send(1000, 131072, 1, 1'000'000), 995);
  Traffic never(0);
  EXPECT_EQ(never.send(1000, kLength, 56'000, 30'000), 0);
}

}  // namespace
}  // namespace eccl
