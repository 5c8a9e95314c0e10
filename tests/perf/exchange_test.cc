#include "common/exchange.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "common/watchdog.h"

namespace eccl::perf {
namespace {

constexpr int kThreads = 4;

template <class Body>
void inThreads(Body body) {
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) threads.emplace_back([&, t] { body(t); });
  for (std::thread& thread : threads) thread.join();
}

// Many meetings of different kinds in a row: a thread that is late for one must not see the next one's value.
TEST(Exchange, NumbersOfThreads) {
  Exchange exchange(kThreads);
  inThreads([&](int t) {
    for (int round = 0; round < 200; ++round) {
      double mean = t + round, least = t + round, greatest = t + round, first = t + round;
      int64_t sum = t + round;
      ASSERT_TRUE(exchange.average(t, Average::mean, &mean).ok());
      ASSERT_TRUE(exchange.average(t, Average::least, &least).ok());
      ASSERT_TRUE(exchange.average(t, Average::greatest, &greatest).ok());
      ASSERT_TRUE(exchange.average(t, Average::firstRank, &first).ok());
      ASSERT_TRUE(exchange.sum(&sum).ok());
      EXPECT_EQ(mean, round + 1.5);
      EXPECT_EQ(least, round);
      EXPECT_EQ(greatest, round + 3);
      EXPECT_EQ(first, round);
      EXPECT_EQ(sum, 4 * round + 6);
      std::vector<double> rows;
      ASSERT_TRUE(exchange.greatestRows({double(t), double(-t), double(round)}, &rows).ok());
      EXPECT_THAT(rows, ::testing::ElementsAre(3, 0, round));
    }
  });
}

TEST(Exchange, NobodyPassesABarrierEarly) {
  Exchange exchange(kThreads);
  std::atomic<int> arrived{0};
  inThreads([&](int) {
    for (int round = 1; round <= 200; ++round) {
      ++arrived;
      ASSERT_TRUE(exchange.barrier().ok());
      EXPECT_GE(arrived, round * kThreads);
    }
  });
}

TEST(Exchange, WakingEndsEveryWait) {
  Exchange exchange(kThreads);
  inThreads([&](int t) {
    if (t != 0) {
      EXPECT_FALSE(exchange.barrier().ok());
      return;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    exchange.wake();
    EXPECT_FALSE(exchange.barrier().ok()) << "later calls too";
  });
}

TEST(Watchdog, NamesTheLateThreadOnly) {
  std::atomic<int> fired{0};
  std::string text;
  {
    Watchdog watchdog(1, 2, [&](const Outcome& outcome) {
      EXPECT_EQ(outcome.code(), Exit::timeout);
      text = outcome.text();
      ++fired;
    });
    watchdog.describe(0, "the quick one");
    watchdog.describe(1, "the slow one");
    watchdog.begin(1);
    for (int i = 0; i < 300 && fired == 0; ++i) {
      watchdog.begin(0);  // comes and goes all the time
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      watchdog.end(0);
    }
  }
  EXPECT_EQ(fired, 1);
  EXPECT_EQ(text, "Test timeout (1s): not complete: the slow one");
}

TEST(Watchdog, QuietWithinTheLimitAndWithoutOne) {
  for (int limit : {0, 1}) {
    Watchdog watchdog(limit, 1, [&](const Outcome&) { ADD_FAILURE() << limit; });
    watchdog.begin(0);
    if (limit > 0) watchdog.beginMeeting(0);  // a meeting has half a minute more
    std::this_thread::sleep_for(std::chrono::milliseconds(1300));
    watchdog.end(0);
  }
}

}  // namespace
}  // namespace eccl::perf
