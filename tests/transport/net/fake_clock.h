// Time that moves when the test says so.
#pragma once

#include <atomic>

#include "support/forwarding_system.h"

namespace eccl::test {

/// The machine, but for the time. Outlives what is opened with it.
class FakeClock : public ForwardingSystem {
 public:
  FakeClock() : ForwardingSystem(System::real()) {}
  TimePoint now() override { return TimePoint(Duration(ticks_.load())); }
  void advance(Duration by) { ticks_ += by.count(); }

 private:
  std::atomic<int64_t> ticks_{1'000'000'000'000};
};

}  // namespace eccl::test
