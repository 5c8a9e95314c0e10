// Whether receivers claim what they read, by what it takes.
#include "program/claim_choice.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <random>

#include "program/timed_move.h"

namespace eccl {
namespace {

/// What a message takes, by whether it is claimed, and whether what was in its place before has been.
struct ClaimCosts {
  uint64_t claiming, onClaimed, leaving, onLeft;
};
// Claimed, left: 20,000 and 60,000 ticks; 20,000 and 16,000.
constexpr ClaimCosts kClaimsPay{12'000, 8'000, 10'000, 50'000}, kClaimsCost{12'000, 8'000, 9'000, 7'000},
    kClaimsPayLater{12'000, 8'000, 4'000, 22'000};
constexpr uint32_t kClaimedBytes = 2 * ClaimChoice::kFrom;

/// Messages that go round in some places, each of which takes its own time besides, and some noise.
class ClaimTraffic {
 public:
  /// Of so many messages one is interrupted.
  explicit ClaimTraffic(int places = 4, uint64_t noise = 0, uint32_t interrupted = 300)
      : places_(places), noise_(noise), interrupted_(interrupted) {}
  /// How many of so many messages were claimed. `noted`: one of so many is.
  int send(int messages, ClaimCosts costs, uint32_t length = kClaimedBytes, int noted = 1) {
    int claimed = 0;
    for (int i = 0; i < messages; ++i, ++sent_) {
      const auto place = static_cast<uint32_t>(sent_ % places_);
      const bool claims = choice.claims(length);
      const auto before = left_.find(place);
      const bool onLeft = before != left_.end() && before->second;
      uint64_t ticks = (claims ? costs.claiming : costs.leaving) + (onLeft ? costs.onLeft : costs.onClaimed);
      ticks += place == 0 ? 10'000 : 0;  // it is waited for
      ticks += noise_ > 0 ? random_() % noise_ : 0;
      if (random_() % interrupted_ == 0) ticks *= 50;
      left_[place] = !claims;
      claimed += claims;
      // The multiples of a number that divides the round would meet the same places in each.
      if (noted == 1 || random_() % static_cast<uint32_t>(noted) == 0) choice.note(length, place, ticks);
    }
    return claimed;
  }
  ClaimChoice choice;

 private:
  const int places_;
  const uint64_t noise_;
  const uint32_t interrupted_;
  int sent_ = 0;
  std::map<uint32_t, bool> left_;
  std::minstd_rand random_;
};

TEST(ClaimChoice, ClaimsWhereThatPays) {
  for (const int places : {1, 3, 4, 8}) {
    ClaimTraffic traffic(places, 6000);
    // A trial takes two rounds.
    EXPECT_GT(traffic.send(1000, kClaimsPay), places < 8 ? 960 : 940) << places;
    EXPECT_GT(traffic.send(100'000, kClaimsPay), places < 8 ? 99'900 : 99'800) << places;
  }
}

/// Calls expect(places, claimed) for rounds of several lengths: how many of a thousand messages are claimed,
/// once the choice has been made. Of messages of less than 64 KiB one in five is noted, and streams of 8 KiB go
/// round in 128 places.
void expectClaimed(ClaimCosts costs, const std::function<void(int, int)>& expect) {
  for (const int places : {1, 3, 4, 8, 9, 16, 64, 128}) {
    for (const int noted : {1, 5}) {
      SCOPED_TRACE(testing::Message() << places << " places, one in " << noted);
      ClaimTraffic traffic(places, 2000);
      traffic.send((places > 8 ? 4000 : 1000) * noted, costs, kClaimedBytes, noted);
      expect(places, traffic.send(10'000 * noted, costs, kClaimedBytes, noted) / (10 * noted));
    }
  }
}

TEST(ClaimChoice, LeavesWhereClaimsCost) {
  expectClaimed(kClaimsCost, [](int places, int claimed) { EXPECT_LT(claimed, places < 128 ? 50 : 100); });
}

// Only what comes next to its place shows what a claim is worth: the message itself takes less if it is left.
TEST(ClaimChoice, ClaimsWhereThatPaysInTheNextRound) {
  expectClaimed(kClaimsPayLater, [](int, int claimed) { EXPECT_GT(claimed, 900); });
}

// 4 MiB are 64 messages.
TEST(ClaimChoice, IsMadeInTheFirstLongCall) {
  for (const int places : {1, 3, 4, 5, 8}) {
    ClaimTraffic traffic(places, 500);
    traffic.send(64, kClaimsCost);
    EXPECT_FALSE(traffic.choice.claims(kClaimedBytes)) << places;
  }
}

TEST(ClaimChoice, ChangesWithTheMachine) {
  ClaimTraffic traffic;
  EXPECT_LT(traffic.send(1000, kClaimsCost), 300);
  traffic.send(20'000, kClaimsPay);
  EXPECT_GT(traffic.send(10'000, kClaimsPay), 9'900);
  traffic.send(20'000, kClaimsCost);
  EXPECT_LT(traffic.send(10'000, kClaimsCost), 100);
  // What has just changed is looked at again soon.
  traffic.send(200'000, kClaimsPay);
  for (int left = 0; left < 40;) left = traffic.send(1, kClaimsCost) == 0 ? left + 1 : 0;
  traffic.send(200, kClaimsPay);
  EXPECT_TRUE(traffic.choice.claims(kClaimedBytes));
}

// Whichever message is dear, there are as many of it in each part of a trial.
TEST(ClaimChoice, StaysWhereNothingIsGained) {
  for (const int places : {1, 3, 5, 7}) {
    ClaimTraffic traffic(places, 1000);
    EXPECT_GT(traffic.send(50'000, {5'000, 5'000, 5'000, 5'000}), 49'600) << places;
  }
}

// Of messages of a size class the longer ones take longer.
TEST(ClaimChoice, ComparesBytes) {
  ClaimChoice choice;
  std::minstd_rand random;
  int claimed = 0;
  for (uint32_t i = 0; i < 50'000; ++i) {
    const uint32_t length = ClaimChoice::kFrom + static_cast<uint32_t>(random()) % ClaimChoice::kFrom;
    claimed += choice.claims(length);
    choice.note(length, i % 4, length);
  }
  EXPECT_GT(claimed, 49'600);
}

TEST(ClaimChoice, FindsOutAmongInterruptions) {
  ClaimTraffic traffic(4, 2000, 20);
  EXPECT_GT(traffic.send(50'000, kClaimsPay), 48'000);
  traffic.send(20'000, kClaimsCost);
  EXPECT_LT(traffic.send(50'000, kClaimsCost), 10'000);
}

// The first message of a trial still meets lines as they were, on either way.
TEST(ClaimChoice, WaitsForWhatALeftLineTakes) {
  ClaimTraffic traffic(1);
  EXPECT_GT(traffic.send(50'000, {12'000, 8'000, 3'000, 17'600}), 49'700) << "20,000 and 20,600 ticks";
}

TEST(ClaimChoice, ShortMessagesAreClaimedAndSizesAreApart) {
  ClaimTraffic traffic;
  EXPECT_EQ(traffic.send(5'000, kClaimsCost, ClaimChoice::kFrom - 1), 5'000);
  traffic.send(5'000, kClaimsCost);
  EXPECT_FALSE(traffic.choice.claims(kClaimedBytes));
  EXPECT_TRUE(traffic.choice.claims(kClaimedBytes / 2));
  EXPECT_TRUE(traffic.choice.claims(UINT32_MAX));
  traffic.choice.note(UINT32_MAX, 0, UINT64_MAX >> 16);
}

// Calls of another length go round elsewhere.
TEST(ClaimChoice, ATrialEndsWhereNothingComesToItsPlaceAnyMore) {
  ClaimTraffic traffic;
  for (int i = 0; i < 25; ++i) traffic.choice.note(kClaimedBytes, 99, 20'000);
  traffic.send(8000, kClaimsPayLater);
  EXPECT_GT(traffic.send(1000, kClaimsPayLater), 900);
}

// Whichever message of a trial that is.
TEST(ClaimChoice, IsNotMovedByAnInterruption) {
  for (int at = 0; at < 40; ++at) {
    ClaimChoice choice;
    bool left = false;
    for (int i = 0; i < 60; ++i) {
      const bool claims = choice.claims(kClaimedBytes);
      choice.note(kClaimedBytes, 0, (left ? 24'000u : 20'000u) * (i == 10 + at ? 50 : 1));
      left = !claims;
    }
    EXPECT_TRUE(choice.claims(kClaimedBytes)) << at;
  }
}

// Without times nothing is tried.
TEST(ClaimChoice, ClaimsWithoutAClock) {
  ClaimChoice choice;
  for (int i = 0; i < 10'000; ++i) {
    ASSERT_TRUE(choice.claims(kClaimedBytes));
    choice.note(kClaimedBytes, 0, 0);
  }
}

// Through a ring, by the sender's times.
TEST(ClaimChoice, IsMadeByTheTimesOfMessages) {
  const RingShape shape{8, kClaimedBytes};
  const std::unique_ptr<void, void (*)(void*)> memory(std::aligned_alloc(kCacheLine, shape.bytes()),
                                                      &std::free);
  std::memset(memory.get(), 0, shape.bytes());
  formatRing(memory.get(), shape, 0);
  SendEnd sender;
  ReceiveEnd receiver;
  attachRing(sender, memory.get(), shape, 0, 0);
  attachRing(receiver, memory.get(), shape, 0, 0);
  WayChoices choices{WayChoice{0, 0}, WayChoice::ofShown(0), WayChoice{0, 0}};
  ClaimChoice choice;
  receiver.choices = &choices;
  const auto send = [&](int messages, uint64_t onClaimed, uint64_t onLeft) {
    std::map<uint32_t, bool> left;
    int claimed = 0;
    for (int i = 0; i < messages; ++i) {
      EXPECT_NE(sender.reserve(kClaimedBytes), nullptr);
      sender.place(kClaimedBytes);
      Slot& slot = *sender.slot(sender.next);
      slot.sent.done = ticks();
      sender.publish(kClaimedBytes, kSlotLast, 1);
      slot.sent.begun = slot.sent.done - (left[slot.area] ? onLeft : onClaimed);
      interpreter::MoveEnds receiving{};
      receiving.sources = 1;
      receiving.from[0] = &receiver;
      const bool claims = interpreter::claims(receiver, slot);
      interpreter::TimedMove timed(receiving, kClaimedBytes);
      for (const uint64_t begun = ticks(); ticks() - begun < 100;) continue;
      left[slot.area] = !claims;
      claimed += claims;
      timed.complete({});
      interpreter::commit(receiving, {}, kClaimedBytes, 0, 0);
    }
    return claimed;
  };
  constexpr uint64_t kFast = 10'000'000, kSlow = 40'000'000;
  receiver.claimed = &choice;
  EXPECT_EQ(send(100, kSlow, kFast), 0) << "memory that the two sides do not both look at";
  receiver.claiming = true;
  send(1000, kSlow, kFast);
  EXPECT_LT(send(1000, kSlow, kFast), 100);
  send(2000, kFast, kSlow);
  EXPECT_GT(send(1000, kFast, kSlow), 900);
  receiver.claimed = nullptr;
  EXPECT_EQ(send(100, kSlow, kFast), 100) << "nobody weighs it";
}

}  // namespace
}  // namespace eccl
