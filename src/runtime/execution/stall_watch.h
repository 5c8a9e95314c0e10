// Finds Runs in which nothing has moved for long.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/system.h"
#include "runtime/execution/run.h"

namespace eccl::runtime {

/// The peers that lanes of a Run wait for, each once, in ascending order. Only what the next move of each lane
/// needs counts: other peers may have done all that the call asks of them, and be gone. `needed`: those of them
/// without whose part of the call the Run cannot end. A peer is not needed where a Send waits until it has
/// taken messages of earlier calls, or until there is a connection: the message may then be left with it.
struct Awaited {
  std::vector<int> peers, needed;
};
/// By the driver.
Awaited awaitedBy(const Run& run);

/// Owner: the engine. Threads: the driver's.
class StallWatch {
 public:
  StallWatch(Duration limit, System& system) : limit_(limit), system_(system) {}

  /// Calls `tell`, with how long nothing has moved, for each Run that has stalled for the limit, and again
  /// each time that has doubled. Ends where `tell` returns false. Resets Run::moved.
  void check(std::span<const std::shared_ptr<Run>> runs,
             const std::function<bool(Run& run, Duration stalled)>& tell) const;

 private:
  const Duration limit_;
  System& system_;
};

}  // namespace eccl::runtime
