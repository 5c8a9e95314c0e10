#include "base/short_lock.h"

#include <gtest/gtest.h>

#include <mutex>
#include <thread>
#include <vector>

namespace eccl {
namespace {

TEST(ShortLock, LetsOneThreadInAtATime) {
  constexpr int kThreads = 4, kEach = 50'000;
  ShortLock lock;
  long counter = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < kEach; ++i) {
        std::lock_guard guard(lock);
        ++counter;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(counter, long{kThreads} * kEach);
}

}  // namespace
}  // namespace eccl
