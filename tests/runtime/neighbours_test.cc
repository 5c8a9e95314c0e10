#include "runtime/execution/neighbours.h"

#include <gtest/gtest.h>

#include "support/forwarding_system.h"

namespace eccl::runtime {
namespace {

using std::chrono::nanoseconds;

/// Each yield takes so long.
class Yielding : public test::ForwardingSystem {
 public:
  Yielding() : ForwardingSystem(System::real()) {}
  TimePoint now() override { return now_; }
  void yield() override { now_ += takes; }

  Duration takes{};

 private:
  TimePoint now_{};
};

TEST(Neighbours, AreNoneUntilAYieldComesBackLate) {
  Yielding system;
  Neighbours neighbours(system);
  system.takes = nanoseconds(900);
  for (int i = 0; i < 1000; ++i) neighbours.yield();
  EXPECT_FALSE(neighbours.about());
  system.takes = nanoseconds(2500);
  neighbours.yield();
  EXPECT_TRUE(neighbours.about());
}

TEST(Neighbours, AreForgottenAfterManyYieldsThatNobodyTakes) {
  Yielding system;
  Neighbours neighbours(system);
  system.takes = nanoseconds(3000);
  neighbours.yield();
  system.takes = nanoseconds(500);
  for (int i = 0; i < 20; ++i) neighbours.yield();
  EXPECT_TRUE(neighbours.about());
  for (int i = 0; i < 1000; ++i) neighbours.yield();
  EXPECT_FALSE(neighbours.about());
}

}  // namespace
}  // namespace eccl::runtime
