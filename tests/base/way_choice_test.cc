// What a receiver chooses, with costs that a table gives instead of a clock.
#include "program/way_choice.h"

#include <gtest/gtest.h>

#include <random>

namespace eccl {
namespace {

/// Ticks of a message by each way; 0: it cannot go that way.
struct Costs {
  uint64_t slots, streams, reads;
};
/// How many messages went each way.
struct Ways {
  int slots = 0, streams = 0, reads = 0;
};

/// Which messages are timed, and whether the others are noted: of short ones some are, and the others are not;
/// of long ones all; of those that grow all are noted (program/timed_move.h).
struct Timing {
  int every = 4;
  bool notesOthers = false;
};
constexpr Timing kTimings[] = {{4, false}, {1, false}, {4, true}};

/// A sender that does as it is told, some messages late.
class Traffic {
 public:
  explicit Traffic(int64_t streamFrom = WayChoice::kMeasured, int64_t readFrom = WayChoice::kMeasured)
      : choice(streamFrom, readFrom) {}
  explicit Traffic(const WayChoice& its) : choice(its) {}
  explicit Traffic(Timing timing) : Traffic() { timing_ = timing; }
  Ways send(int messages, uint32_t length, Costs costs) {
    Ways ways;
    for (int i = 0; i < messages; ++i) {
      const int c = sizeClassOf(length);
      const bool reads = costs.reads > 0 && (lateReads_ >> c & 1) != 0, streams = (lateStreams_ >> c & 1) != 0;
      if (++sent_ % kLate == 0) {
        lateReads_ = choice.read();
        lateStreams_ = choice.streamed();
      }
      const DataWay way = reads ? DataWay::reads : streams ? DataWay::streams : DataWay::writes;
      ++(reads ? ways.reads : streams ? ways.streams : ways.slots);
      const uint64_t ticks = reads ? costs.reads : streams ? costs.streams : costs.slots;
      const bool timed = sent_ % timing_.every == 0;
      if (timed || timing_.notesOthers) choice.note(way, length, timed ? ticks : 0);
    }
    return ways;
  }
  WayChoice choice;

 private:
  static constexpr int kLate = 5;
  Timing timing_;
  uint32_t lateReads_ = 0, lateStreams_ = 0;
  int sent_ = 0;
};

constexpr uint32_t kLength = 131072;
constexpr Costs kCommonCache{7'000, 12'000, 15'000}, kNoneInCommon{56'000, 9'000, 25'000},
    kReadsAreBest{56'000, 50'000, 30'000};

TEST(WayChoice, TakesTheBestWay) {
  for (const Timing timing : kTimings) {
    Traffic slots(timing), streams(timing), reads(timing);
    slots.send(1000, kLength, kCommonCache);
    streams.send(1000, kLength, kNoneInCommon);
    reads.send(1000, kLength, kReadsAreBest);
    const Ways ofSlots = slots.send(100'000, kLength, kCommonCache),
               ofStreams = streams.send(100'000, kLength, kNoneInCommon),
               ofReads = reads.send(100'000, kLength, kReadsAreBest);
    const int most = 100'000 / 100;  // for trials
    EXPECT_LT(ofSlots.streams + ofSlots.reads, most);
    EXPECT_LT(ofStreams.slots + ofStreams.reads, most);
    EXPECT_LT(ofReads.slots + ofReads.streams, most);
    // The others are tried again.
    for (const int tried :
         {ofSlots.streams, ofSlots.reads, ofStreams.slots, ofStreams.reads, ofReads.slots, ofReads.streams})
      EXPECT_GT(tried, 0);
  }
}

// What is read where slots are best is, and what was found to be better, or is wanted whatever it takes, is
// not.
TEST(WayChoice, SaysWhatIsReadForATrial) {
  Traffic slots, reads, told(WayChoice::kMeasured, kLength);
  int trials = 0, read = 0;
  for (int i = 0; i < 5000; ++i) {
    slots.send(1, kLength, kCommonCache);
    ASSERT_EQ(slots.choice.triesToRead(), slots.choice.read()) << i;
    trials += slots.choice.triesToRead() != 0;
  }
  EXPECT_GT(trials, 0);
  reads.send(1000, kLength, kReadsAreBest);
  for (int i = 0; i < 5000; ++i) {
    reads.send(1, kLength, kReadsAreBest);
    told.send(1, kLength, {7'000, 12'000, 0});  // that cannot be read
    read += reads.choice.read() != 0;
    ASSERT_EQ(reads.choice.triesToRead() | told.choice.triesToRead(), 0u) << i;
  }
  EXPECT_GT(read, 4500);
  EXPECT_NE(told.choice.read(), 0u);
}

TEST(WayChoice, FindsItSoon) {
  for (const Timing timing : kTimings) {
    EXPECT_GT(Traffic(timing).send(1000, kLength, kNoneInCommon).streams, 850) << timing.every;
    EXPECT_GT(Traffic(timing).send(1000, kLength, kReadsAreBest).reads, 800) << timing.every;
  }
}

// The first messages wait for the kernel to find memory for the slots.
TEST(WayChoice, IsNotMovedByTheFirstTimes) {
  for (const Timing timing : kTimings) {
    Traffic traffic(timing);
    traffic.send(16, kLength, {140'000, 140'000, 140'000});
    const Ways ways = traffic.send(400, kLength, kCommonCache);
    EXPECT_LT(ways.streams + ways.reads, 60) << timing.every;  // some trials
  }
}

// A first long call goes into fresh memory with all its messages, and a trial may begin when it is over.
TEST(WayChoice, IsNotMovedByAWholeFirstCall) {
  for (const Timing timing : kTimings) {
    for (int first = 4; first <= 100; first += 4) {
      Traffic traffic(timing);
      traffic.send(first, kLength, {100'000, 100'000, 100'000});
      const Ways ways = traffic.send(300, kLength, {20'000, 30'000, 30'000});
      EXPECT_LT(ways.streams + ways.reads, 60) << timing.every << ", " << first;  // some trials
    }
  }
}

// Times vary. The best of some by the way of before is no reason to go back.
TEST(WayChoice, KeepsToWhatIsBetterOnAverage) {
  for (const Timing timing : kTimings) {
    Traffic traffic(timing);
    std::minstd_rand random;
    const auto between = [&](uint64_t least, uint64_t most) {
      return std::uniform_int_distribution<uint64_t>(least, most)(random);
    };
    int streams = 0;
    for (int i = 0; i < 22'000; ++i) {
      const Costs costs{between(22'000, 38'000), between(17'000, 29'000), 60'000};
      const Ways ways = traffic.send(1, kLength, costs);
      if (i >= 2000) streams += ways.streams;
    }
    EXPECT_GT(streams, 19'000) << timing.every;
  }
}

TEST(WayChoice, EndsTrialsSoonThatChangeNothing) {
  Traffic hopeless, slow;
  const int soon = hopeless.send(3000, kLength, {7'000, 12'000, 70'000}).reads,
            late = slow.send(3000, kLength, {7'000, 12'000, 13'000}).reads;
  EXPECT_GT(soon, 0);
  EXPECT_LT(3 * soon, 2 * late);
}

TEST(WayChoice, FollowsTheMachine) {
  Traffic traffic;
  for (int turn = 0; turn < 3; ++turn) {
    traffic.send(20'000, kLength, kCommonCache);
    EXPECT_GT(traffic.send(1000, kLength, kCommonCache).slots, 950) << turn;
    traffic.send(300, kLength, kNoneInCommon);  // slots are in use, so that they get slow shows at once
    EXPECT_GT(traffic.send(1000, kLength, kNoneInCommon).streams, 900) << turn;
    traffic.send(20'000, kLength, kReadsAreBest);
    EXPECT_GT(traffic.send(1000, kLength, kReadsAreBest).reads, 900) << turn;
  }
  for (const int before : {10, 40, 60}) {  // while the first are still looked at
    Traffic early;
    early.send(before, kLength, kCommonCache);
    early.send(400, kLength, kNoneInCommon);
    EXPECT_GT(early.send(1000, kLength, kNoneInCommon).streams, 900) << before;
  }
}

// A call that was interrupted took long, and says nothing.
TEST(WayChoice, IsNotMovedBySingleLongTimes) {
  Traffic traffic;
  traffic.send(5000, kLength, kCommonCache);
  int slots = 0;
  for (int i = 0; i < 2000; ++i) {
    slots += traffic.send(5, kLength, kCommonCache).slots;
    slots += traffic.send(1, kLength, {9'000'000, 9'000'000, 9'000'000}).slots;
  }
  EXPECT_GT(slots, 12'000 - 120);
}

TEST(WayChoice, ChoosesForEachSizeByItself) {
  Traffic traffic;
  for (int i = 0; i < 300; ++i) {
    traffic.send(10, 5'000, {600, 900, 6'000});
    traffic.send(10, 20'000, {9'000, 2'000, 6'000});
    traffic.send(10, kLength, kReadsAreBest);
  }
  const auto of = [&](uint32_t length) {
    const int c = sizeClassOf(length);
    return (traffic.choice.read() >> c & 1) != 0       ? DataWay::reads
           : (traffic.choice.streamed() >> c & 1) != 0 ? DataWay::streams
                                                       : DataWay::writes;
  };
  EXPECT_EQ(of(5'000), DataWay::writes);
  EXPECT_EQ(of(20'000), DataWay::streams);
  EXPECT_EQ(of(kLength), DataWay::reads);
}

TEST(WayChoice, OtherWaysNeedSomeAdvantage) {
  Traffic traffic;
  traffic.send(1000, kLength, {30'000, 29'000, 29'000});
  EXPECT_GT(traffic.send(1000, kLength, {30'000, 29'000, 29'000}).slots, 900);
}

TEST(WayChoice, LeavesShortMessagesAlone) {
  Traffic traffic;
  EXPECT_EQ(traffic.send(10'000, kStreamFrom - 1, kNoneInCommon).slots, 10'000);
  const Ways ways = traffic.send(10'000, kReadFrom - 1, kReadsAreBest);
  EXPECT_EQ(ways.reads, 0);
  EXPECT_EQ(traffic.choice.read(), 0u);
}

// Results, for one, lie in no memory that could be read. They are copied the better way, and the receiver asks
// for reads less and less.
TEST(WayChoice, WhatCannotBeReadIsCopiedTheBetterWay) {
  Traffic traffic;
  traffic.send(5'000, kLength, {56'000, 40'000, 20'000});
  EXPECT_GT(traffic.send(1000, kLength, {56'000, 40'000, 0}).streams, 900);
  Traffic never;
  int asked = 0;
  for (int i = 0; i < 500'000; ++i) {
    never.send(1, kLength, {56'000, 70'000, 0});
    asked += never.choice.read() != 0;
  }
  EXPECT_LT(asked, 5000);
}

TEST(WayChoice, TriesTheOtherCopyWhereNothingCanBeReadAnyMore) {
  Traffic traffic;
  traffic.send(5'000, kLength, kReadsAreBest);
  traffic.send(10'000, kLength, {56'000, 9'000, 0});
  EXPECT_GT(traffic.send(1000, kLength, {56'000, 9'000, 0}).streams, 900);
  EXPECT_EQ(traffic.choice.read(), 0u) << "it is not asked for any more";
}

TEST(WayChoice, KeepsToSlotsWithoutAClock) {
  WayChoice choice(WayChoice::kMeasured, WayChoice::kMeasured);
  for (int i = 0; i < 10'000; ++i) choice.note(DataWay::writes, kLength, 0);
  EXPECT_EQ(choice.read() | choice.streamed(), 0u);
}

TEST(WayChoice, DoesAsItIsTold) {
  EXPECT_EQ(WayChoice(0, 0).read() | WayChoice(0, 0).streamed(), 0u);
  EXPECT_EQ(WayChoice(0, 65536).read(), ~0u << 16);
  EXPECT_EQ(WayChoice(0, 65537).read(), ~0u << 17);
  EXPECT_EQ(WayChoice(4096, 0).streamed(), ~0u << 12);
  EXPECT_EQ(Traffic(0, 65536).send(1000, kLength, {1, 1, 1'000'000}).reads, 995);
  EXPECT_EQ(Traffic(65536, 0).send(1000, kLength, {1, 1'000'000, 1}).streams, 995);
  EXPECT_EQ(Traffic(0, 0).send(10'000, kLength, kReadsAreBest).slots, 10'000);
  // One is measured, the other is not: what is streamed in any case is compared with reads.
  EXPECT_GT(Traffic(4096).send(1000, kLength, {56'000, 56'000, 30'000}).reads, 800);
  EXPECT_EQ(Traffic(4096).send(1000, kLength, {30'000, 30'000, 56'000}).slots, 5);
  EXPECT_EQ(Traffic(0).send(10'000, kLength, kNoneInCommon).streams, 0);
  EXPECT_EQ(Traffic(WayChoice::kMeasured, 0).send(10'000, kLength, kReadsAreBest).reads, 0);
  Traffic unreadable;
  unreadable.choice.neverRead();
  EXPECT_EQ(unreadable.send(10'000, kLength, kReadsAreBest).reads, 0);
}

// What is in place is read, if it is short, before anything has been measured, and afterwards where that is
// best.
TEST(WayChoice, OfWhatIsShown) {
  constexpr int64_t kMeasured = WayChoice::kMeasured;
  EXPECT_EQ(WayChoice::ofShown(kMeasured).read(), kWriteFrom - 1);
  EXPECT_EQ(WayChoice::ofShown(kMeasured).streamed(), 0u);
  EXPECT_EQ(WayChoice::ofShown(65536).streamed(), ~0u << 16);
  EXPECT_EQ(WayChoice::ofShown(kMeasured, 0).read(), 0u);
  // Of long calls it is a full slot that counts.
  EXPECT_EQ(WayChoice::ofShown(131072).streamed(), ~0u << 17);
  EXPECT_EQ(WayChoice::ofShown(131073).streamed(), ~0u << 18 & ~0u >> 1);
  constexpr Costs kWritesAreBest{5'000, 12'000, 15'000};
  for (const uint32_t length : {kStreamFrom, 4'096u, kLength, kWriteFrom}) {
    Traffic traffic(WayChoice::ofShown(kMeasured));
    traffic.send(2'000, length, kReadsAreBest);
    EXPECT_GT(traffic.send(10'000, length, kReadsAreBest).reads, 9'800) << length;
    traffic.send(20'000, length, kWritesAreBest);
    EXPECT_GT(traffic.send(10'000, length, kWritesAreBest).slots, 9'800) << length;
    traffic.send(20'000, length, kNoneInCommon);
    EXPECT_GT(traffic.send(10'000, length, kNoneInCommon).streams, 9'800) << length;
  }
  // Nothing changes for an advantage of a fifth.
  Traffic reads(WayChoice::ofShown(kMeasured)), writes(WayChoice::ofShown(kMeasured));
  EXPECT_GT(reads.send(10'000, kLength, {8'000, 8'000, 10'000}).reads, 9'800);
  EXPECT_GT(writes.send(10'000, kWriteFrom, {10'000, 8'000, 8'000}).slots, 9'800);
  // What calls with many messages take is no news for others, and the other way round.
  WayChoice choice = WayChoice::ofShown(kMeasured);
  for (int i = 0; i < 2'000; ++i) {
    const bool reads = (choice.read() >> sizeClassOf(kLength, 5) & 1) != 0;
    choice.note(reads ? DataWay::reads : DataWay::writes, kLength, reads ? 10'000 : 50'000, 5);
    choice.note(DataWay::reads, kLength, 10'000);
  }
  EXPECT_NE(choice.read() & 1u << sizeClassOf(kLength, 5), 0u);
  EXPECT_EQ(WayChoice::ofShown(kMeasured).read() & 1u << sizeClassOf(kLength, 5), 0u);
  EXPECT_EQ(Traffic(WayChoice::ofShown(0)).send(10'000, kWriteFrom, kNoneInCommon).streams, 0);
}

// What is written waits for the offer first.
TEST(WayChoice, ANoticeCountsForWritesInPlace) {
  constexpr Costs kReadsTakeMore{7'000, 7'000, 10'000}, kReadsTakeLess{10'000, 10'000, 8'500};
  const auto waitsFor = [](uint64_t notice, WayChoice choice) {
    choice.noteNotice(notice);
    return Traffic(choice);
  };
  const WayChoice shown = WayChoice::ofShown(WayChoice::kMeasured),
                  plain(WayChoice::kMeasured, WayChoice::kMeasured);
  EXPECT_LT(waitsFor(400, shown).send(10'000, kLength, kReadsTakeMore).reads, 500);
  EXPECT_GT(waitsFor(1'000, shown).send(10'000, kLength, kReadsTakeMore).reads, 9'800);
  EXPECT_GT(
      waitsFor(2'000, WayChoice::ofShown(WayChoice::kMeasured, 0)).send(10'000, kLength, kReadsTakeLess).reads,
      9'000);
  EXPECT_EQ(waitsFor(400, shown).choice.read(), shown.read());
  EXPECT_LT(waitsFor(20'000, plain).send(10'000, kLength, {7'000, 12'000, 10'000}).reads, 500) << "no offers";
  // Of a call with many messages it counts once.
  for (const uint64_t messages : {uint64_t{1}, kMostChosen}) {
    WayChoice choice = shown;
    choice.noteNotice(8'000);
    const uint32_t its = 1u << sizeClassOf(kLength, messages);
    int reads = 0;
    for (int i = 0; i < 10'000; ++i) {
      const bool isRead = (choice.read() & its) != 0;
      reads += isRead;
      choice.note(isRead                           ? DataWay::reads
                  : (choice.streamed() & its) != 0 ? DataWay::streams
                                                   : DataWay::writes,
                  kLength, isRead ? 10'000 : 7'000, messages);
    }
    EXPECT_TRUE(messages == 1 ? reads > 9'800 : reads < 500) << messages << ": " << reads;
  }
}

// The least counts, and a greater one in time.
TEST(WayChoice, NoticesFollowTheMachine) {
  constexpr Costs kReadsTakeMore{7'000, 7'000, 10'000};
  const auto after = [&](std::initializer_list<std::pair<int, uint64_t>> notices) {
    WayChoice choice = WayChoice::ofShown(WayChoice::kMeasured);
    for (const auto& [times, notice] : notices)
      for (int i = 0; i < times; ++i) choice.noteNotice(notice);
    return Traffic(choice).send(10'000, kLength, kReadsTakeMore).reads;
  };
  EXPECT_LT(after({{1, 5'000}, {1, 100}}), 500);
  EXPECT_LT(after({{1, 100}, {5, 50'000}}), 500);
  EXPECT_GT(after({{1, 100}, {100, 5'000}}), 9'800);
}

}  // namespace
}  // namespace eccl
