// Time that moves when the test says so.
#pragma once

#include <atomic>

#include "base/clock.h"

namespace eccl::test {

class FakeClock : public Clock {
 public:
  TimePoint now() const override { return TimePoint(Duration(ticks_.load())); }
  void advance(Duration by) { ticks_ += by.count(); }

 private:
  std::atomic<int64_t> ticks_{1'000'000'000'000};
};

}  // namespace eccl::test
