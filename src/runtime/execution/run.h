// One execution of a Plan: lane states, scratch, tickets, and where it has got to.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "runtime/execution/call.h"
#include "runtime/execution/plan.h"
#include "runtime/executor/executor.h"

namespace eccl::runtime {

/// One call on its way. Owner: shared by its caller, its streams and the engine. The caller sets plan, call,
/// record, executor and holds before it submits the Run. From then on fields are the driver's unless said
/// otherwise. The view points into this object, which stays where it was made.
struct Run : Work, std::enable_shared_from_this<Run> {
  std::shared_ptr<Plan> plan;
  Call call;
  CallRecord record;

  /// Set once, in DriverRole::finish(); read by anybody.
  std::atomic<bool> done{false};
  /// Valid once done.
  Status status;
  /// Called once by the driver, no lock held, before done is set: who waits finds what they have done.
  std::vector<std::function<void(Run&)>> onDone;

  std::atomic<int> holds{0};  // streams in which its turn has not come
  bool released = false;
  bool isLong = false;  // counts in Engine::longRuns_
  std::vector<LaneState> lanes;
  Scratch scratch;
  std::vector<uint8_t> relayed;
  std::vector<std::unique_ptr<transport::MemoryUse>> uses;  // while it is under way

  /// waiting: a connection is not ready, or does not serve the ticket. running: moves are made. draining: all
  /// are made, but receivers may still read the caller's memory.
  enum class LanePhase : uint8_t { waiting, running, draining, complete };
  std::vector<LanePhase> phases;
  std::vector<uint64_t> tickets;  // by connection of the plan
  /// By connection, where its lane runs or is draining: messages before this one are of earlier calls.
  std::vector<uint64_t> firsts;
  /// By connection, where its lane is draining: messages before this one may refer to the caller's memory.
  std::vector<uint64_t> drains;
  size_t incomplete = 0;  // lanes
  bool moved = false;     // since its progress was last looked at
  TimePoint lastProgress{};
  Duration stallReportedAt{};  // how long it had stalled when that was last said

  /// Sets what an executor has to know of a planned and numbered call, but for the scratch memory.
  void decide();
  /// As new, but for the memory of its lists. It must have ended, or not begun, and nobody else may have it.
  void reset() {
    done.store(false, std::memory_order_relaxed);
    status = {};
    onDone.clear();
    released = moved = false;
    pre = post = {};
    carried = captured = false;
    scalar = nullptr;
    stallReportedAt = {};
  }
};

}  // namespace eccl::runtime
