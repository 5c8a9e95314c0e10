#include "runtime/execution/stall_watch.h"

#include <algorithm>
#include <utility>

#include "program/interpreter.h"

namespace eccl::runtime {

std::vector<int> peersAwaited(const Run& run) {
  std::vector<int> peers;
  const auto connection = [&](int c) -> transport::Connection& {
    return *run.plan->connections[static_cast<size_t>(c)];
  };
  if (run.carried) {
    run.executor->forAwaited(
        run, [&](int c) { peers.push_back(run.program->connections[static_cast<size_t>(c)].peer); });
    return peers;
  }
  for (size_t lane = 0; lane < run.phases.size(); ++lane) {
    if (run.phases[lane] == Run::LanePhase::running) {
      interpreter::forAwaited(run.view, static_cast<int32_t>(lane),
                              [&](int32_t c) { peers.push_back(connection(c).peer()); });
    }
    for (int c : run.plan->laneConnections[lane]) {
      transport::Connection& its = connection(c);
      const bool unmade =
          run.phases[lane] == Run::LanePhase::waiting && its.state() != transport::Connection::State::ready;
      const bool unread = run.phases[lane] == Run::LanePhase::draining && its.sends() &&
                          !its.sendEnd.released(run.drains[static_cast<size_t>(c)]);
      if (unmade || unread) peers.push_back(its.peer());
    }
  }
  std::sort(peers.begin(), peers.end());
  peers.erase(std::unique(peers.begin(), peers.end()), peers.end());
  return peers;
}

void StallWatch::check(std::span<const std::shared_ptr<Run>> runs,
                       const std::function<bool(Run& run, Duration stalled)>& tell) const {
  const TimePoint now = system_.now();
  for (auto& run : runs) {
    if (std::exchange(run->moved, false)) {
      run->lastProgress = now;
      run->stallReportedAt = {};
    }
    const Duration stalled = now - run->lastProgress;
    if (stalled < limit_ || stalled < 2 * run->stallReportedAt) continue;
    run->stallReportedAt = stalled;
    if (!tell(*run, stalled)) return;
  }
}

}  // namespace eccl::runtime
