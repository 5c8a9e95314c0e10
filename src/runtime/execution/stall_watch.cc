#include "runtime/execution/stall_watch.h"

#include <algorithm>
#include <utility>

#include "program/interpreter.h"

namespace eccl::runtime {

namespace {

void keepEachOnce(std::vector<int>& peers) {
  std::sort(peers.begin(), peers.end());
  peers.erase(std::unique(peers.begin(), peers.end()), peers.end());
}

}  // namespace

Awaited awaitedBy(const Run& run) {
  Awaited awaited;
  const auto add = [&](int peer, bool needed) {
    awaited.peers.push_back(peer);
    if (needed) awaited.needed.push_back(peer);
  };
  if (run.carried) {
    run.executor->forAwaited(run, [&](int c) {
      const ConnectionSpec& its = run.program->connections[static_cast<size_t>(c)];
      add(its.peer, !its.sends);  // what is in its way is not known
    });
  }
  for (size_t lane = 0; lane < run.phases.size() && !run.carried; ++lane) {
    const Run::LanePhase phase = run.phases[lane];
    if (phase == Run::LanePhase::running) {
      interpreter::forAwaited(run.view, static_cast<int32_t>(lane), [&](int32_t c) {
        transport::Connection& its = *run.plan->connections[static_cast<size_t>(c)];
        add(its.peer(), !its.sends() || its.sendEnd.released(run.firsts[static_cast<size_t>(c)]));
      });
    }
    for (int c : run.plan->laneConnections[lane]) {
      transport::Connection& its = *run.plan->connections[static_cast<size_t>(c)];
      const uint64_t first = run.firsts[static_cast<size_t>(c)], last = run.drains[static_cast<size_t>(c)];
      if (phase == Run::LanePhase::waiting && its.state() != transport::Connection::State::ready)
        add(its.peer(), !its.sends());
      if (phase == Run::LanePhase::draining && its.sends() && !its.sendEnd.released(last))
        add(its.peer(), static_cast<int64_t>(last - first) > 0);
    }
  }
  keepEachOnce(awaited.peers);
  keepEachOnce(awaited.needed);
  return awaited;
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
