#include "base/system.h"

#include <gtest/gtest.h>

#include <thread>

namespace eccl {
namespace {

using namespace std::chrono_literals;

TEST(RealSystem, ItsTimeGoesOnAndNeverBack) {
  System& clock = System::real();
  const TimePoint begun = clock.now();
  TimePoint last = begun;
  for (int i = 0; i < 1000; ++i) {
    const TimePoint now = clock.now();
    ASSERT_GE(now, last);
    last = now;
  }
  std::this_thread::sleep_for(2ms);
  EXPECT_GE(clock.now() - begun, 2ms);
}

}  // namespace
}  // namespace eccl
