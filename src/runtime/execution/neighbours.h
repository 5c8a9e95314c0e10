// Whether other threads want the processor that a waiting thread is on. Ranks know that there are more of them
// than cores, but nothing of other jobs, of the program's own threads, or of hosts that share a machine's
// cores.
#pragma once

#include "base/system.h"

namespace eccl::runtime {

/// What yields tell. Who waits with neighbours about gives way at once; spinning would keep the one from
/// working whom it waits for. Owner: the engine. Threads: the driver's.
class Neighbours {
 public:
  explicit Neighbours(System& system) : system_(system) {}

  /// Yields the processor. A yield that comes back late has let somebody else work.
  void yield() {
    const TimePoint before = system_.now();
    system_.yield();
    if (system_.now() - before > kLate)
      seen_ = kRemembered;
    else if (seen_ > 0)
      --seen_;
  }
  bool about() const { return seen_ > 0; }

 private:
  /// A yield to nobody takes .3 to 1 us, two switches of threads 2.5 us and more (AMD EPYC, Linux 6.18).
  static constexpr Duration kLate = std::chrono::microseconds(2);
  /// After so many yields that nobody took there are none.
  static constexpr int kRemembered = 64;

  System& system_;
  int seen_ = 0;
};

}  // namespace eccl::runtime
