#include "runtime/cuda/lane_executor.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <tuple>

#include "base/atomics.h"
#include "base/log.h"
#include "runtime/cuda/lane_run.h"

namespace eccl::runtime::cuda {

/// Graphs may still have calls of this rank: from now on their kernels end at once.
LaneExecutor::~LaneExecutor() {
  if (neighbours_ != nullptr) neighbours_->leave(rank_);
  if (sharers_ == 0) return;
  const Entered entered(gpu_.driver(), gpu_.context());
  residents_.leave(neighbours_->communicator(), sharers_);
}

Result<std::string> LaneExecutor::introduce(uint64_t communicator, int rank, int ranks) {
  destroyRetired();
  rank_ = rank;
  neighbours_ = Neighbourhood::of(communicator, rank, ranks, gpu_);
  kept_ = std::make_shared<RankState>(gpu_, neighbours_, rank_, ways_);
  const Entered entered(gpu_.driver(), gpu_.context());
  ECCL_TRY(entered.status());
  std::string said = neighbours_->introduce(rank, descriptors_);
  introduced_.store(true, std::memory_order_release);  // others speak to this rank when they have heard that
  return said;
}

Status LaneExecutor::meet(Meeting meeting) {
  if (neighbours_ == nullptr) return {};
  meeting_ = std::move(meeting);
  std::string why;
  ECCL_ASSIGN(onDevice_, neighbours_->meet(meeting_, &why));
  meeting_.gather = nullptr;
  if (onDevice_) {
    for (int other = 0; other < static_cast<int>(meeting_.introductions.size()); ++other)
      if (neighbours_->relayed(rank_, other)) relays_ = true;
    const Entered entered(gpu_.driver(), gpu_.context());
    ECCL_TRY(entered.status());
    sharers_ = neighbours_->sharers(rank_);
    residents_.join(neighbours_->communicator(), sharers_);
    return neighbours_->reach(rank_);
  }
  ECCL_INFO("calls on %s are staged through the host: %s", gpu_.name().c_str(), why.c_str());
  return {};
}

Status LaneExecutor::hear(int rank, std::string_view message) {
  if (!introduced_.load(std::memory_order_acquire)) return {};
  if (message.starts_with(static_cast<char>(Said::ring)))
    return neighbours_->rings().hear(rank_, rank, message);
  return kept_->shown.hear(rank, message);
}

Result<transport::Fd> LaneExecutor::descriptorOf(const transport::DescriptorName& name) {
  return MappedBlock::find(name);
}

void LaneExecutor::fail() {
  StagedExecutor::fail();
  if (neighbours_ != nullptr) neighbours_->abort();
}

bool LaneExecutor::isPair(const Work& work) {
  return work.program->collective == Collective::send || work.program->collective == Collective::receive;
}

bool LaneExecutor::carries(const Work& work) const {
  const auto& extents = work.view.plan->extents;
  const bool varies =
      std::any_of(std::begin(extents), std::end(extents), [](auto* table) { return table != nullptr; });
  return onDevice_ && work.places == 1 && !varies && (!work.program->streams || isPair(work));
}

Result<bool> LaneExecutor::mayCarry(const Work& work, NativeStream stream) const {
  const bool may = carries(work);
  if (!may || !relays_) return may;
  const Entered entered(gpu_.driver(), gpu_.context());
  ECCL_TRY(entered.status());
  ECCL_ASSIGN(const Capture capture, captureOf(gpu_, stream));
  return !capture.goesOn();
}

bool LaneExecutor::takesScalar(Work& work, void* stream, const void* scalar) const {
  const auto its = mayCarry(work, static_cast<NativeStream>(stream));
  if (!its.ok() || !*its) return false;
  work.scalar = scalar;
  return true;
}

RingId LaneExecutor::ringOf(const Work& work, const lanes::EndOf& end) const {
  const ConnectionSpec& connection = work.program->connections[static_cast<size_t>(end.connection)];
  return {connection.sends ? rank_ : connection.peer, connection.sends ? connection.peer : rank_,
          connection.channel, connection.tag};
}

/// Compiled, and perhaps not on the GPU yet.
Result<std::shared_ptr<DevicePlan>> LaneExecutor::begunPlanOf(const Work& work) {
  if (*work.kept == nullptr) {
    auto plan = std::make_shared<DevicePlan>(gpu_, neighbours_);
    ECCL_TRY(plan->compile(work));
    *work.kept = plan;
  }
  return std::static_pointer_cast<DevicePlan>(*work.kept);
}

/// All Sends and Recvs between two ranks have the same rings, in both directions. The first one of a
/// communicator offers those to all ranks: so none waits for a call that comes behind another Send.
Status LaneExecutor::offer(const Work& work) {
  std::lock_guard lock(mutex_);
  ECCL_ASSIGN(const std::shared_ptr<DevicePlan> plan, begunPlanOf(work));
  ECCL_TRY(kept_->shown.goOn(meeting_));
  kept_->relay.goOn(meeting_.dmabufs);
  if (plan->tells()) ECCL_TRY(kept_->showBuffers(work, meeting_));
  if (plan->isComplete()) return {};
  for (const lanes::EndOf& end : plan->ends()) {
    const RingId id = ringOf(work, end);
    if (neighbours_->relayed(std::get<0>(id), std::get<1>(id))) continue;
    if (!isPair(work)) {
      ECCL_TRY(neighbours_->rings().offer(id, plan->width(), rank_, meeting_));
      continue;
    }
    const auto [from, to, channel, tag] = id;
    const uint32_t most = lanes::mostStripsOfPair(work.program->ranks, neighbours_->blocks());
    for (int peer = 0; peer < work.program->ranks; ++peer) {
      if (peer == rank_ || neighbours_->relayed(rank_, peer)) continue;
      ECCL_TRY(neighbours_->rings().offer({rank_, peer, channel, tag}, most, rank_, meeting_));
      ECCL_TRY(neighbours_->rings().offer({peer, rank_, channel, tag}, most, rank_, meeting_));
    }
  }
  return {};
}

Status LaneExecutor::offerAll(std::span<Work* const> works) {
  for (Work* work : works) {
    auto& executor = static_cast<LaneExecutor&>(*work->executor);
    if (executor.carries(*work)) ECCL_TRY(executor.offer(*work));
  }
  return {};
}

Status LaneExecutor::announce(std::span<Work* const> works) {
  const Entered entered(gpu_.driver(), gpu_.context());
  ECCL_TRY(entered.status());
  return offerAll(works);
}

// A stream of this thread's alone is another one in another thread, and a capture may be this thread's matter.
// What is wrong is enter()'s to say.
bool LaneExecutor::mayWait(void* native, std::span<Work* const> works) {
  const auto stream = static_cast<NativeStream>(native);
  const Entered entered(gpu_.driver(), gpu_.context());
  if (!entered.status().ok() || reinterpret_cast<uintptr_t>(stream) == kPerThreadHandle) return false;
  const bool lacks = std::any_of(works.begin(), works.end(), [](Work* work) {
    return static_cast<LaneExecutor&>(*work->executor).lacksRings(*work);
  });
  if (!lacks) return false;
  const auto capture = captureOf(gpu_, stream);
  return capture.ok() && !capture->goesOn();
}

// Where another thread is about to launch, this one waits for it anyway.
bool LaneExecutor::lacksRings(const Work& work) {
  if (!carries(work)) return false;
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) return false;
  const auto plan = begunPlanOf(work);
  if (!plan.ok() || (*plan)->isComplete()) return false;
  return std::ranges::any_of((*plan)->ends(), [&](const lanes::EndOf& end) {
    const RingId id = ringOf(work, end);
    return !neighbours_->relayed(std::get<0>(id), std::get<1>(id)) && !kept_->hasEnds(id, (*plan)->width());
  });
}

Result<std::shared_ptr<DevicePlan>> LaneExecutor::planOf(Work& work) {
  ECCL_ASSIGN(std::shared_ptr<DevicePlan> plan, begunPlanOf(work));
  if (plan->isComplete()) return plan;
  std::vector<lanes::End*> places;
  for (const lanes::EndOf& end : plan->ends()) {
    const auto waits = [&](Duration waited, int rank) { meeting_.waits(work, waited, rank); };
    ECCL_ASSIGN(lanes::End* const place, kept_->endsOf(ringOf(work, end), plan->width(), meeting_, waits));
    places.push_back(place);
  }
  ECCL_TRY(plan->complete(work, places));
  return plan;
}

Result<std::unique_ptr<StreamGate>> LaneExecutor::enter(void* native, std::span<Work* const> works,
                                                        std::function<void()> reached) {
  const auto stream = static_cast<NativeStream>(native);
  std::vector<Work*> here, staged;
  for (Work* work : works) {
    const auto& executor = static_cast<const LaneExecutor&>(*work->executor);
    if (work->state == nullptr) { ECCL_ASSIGN(work->carried, executor.mayCarry(*work, stream)); }
    (work->carried ? here : staged).push_back(work);
  }
  if (!here.empty()) {
    const Entered entered(gpu_.driver(), gpu_.context());
    ECCL_TRY(entered.status());
    destroyRetired();
    ECCL_TRY(offerAll(here));  // all, before any waits for another rank
    ECCL_TRY(launch(here, stream));
  }
  if (staged.empty()) return reached(), std::unique_ptr<StreamGate>();
  return StagedExecutor::enter(native, staged, std::move(reached));
}

LaneAnswer LaneExecutor::advance(Work& work, int32_t lane, int budget) {
  if (!work.carried) return StagedExecutor::advance(work, lane, budget);
  auto& run = static_cast<Run&>(*work.state);
  const lanes::Report& report = *run.used->report.host;
  if (loadAcquire(&report.over) != 0) return faultOf(work, report);
  const uint64_t progress = loadRelaxed(&report.progress);
  if (progress == run.progress) return LaneAnswer::blocked;
  run.progress = progress;
  return LaneAnswer::progress;
}

LaneAnswer LaneExecutor::faultOf(Work& work, const lanes::Report& report) {
  const uint32_t fault = loadAcquire(&report.fault);
  if (fault == lanes::kNoFault) return LaneAnswer::done;
  if (fault == lanes::kAborted) return LaneAnswer::blocked;  // the engine is told why elsewhere
  LaneState& state = work.view.lanes[0];
  state.fault = fault == lanes::kOtherSignature ? LaneFault::signature
                : fault == lanes::kOtherLength  ? LaneFault::length
                                                : LaneFault::window;
  state.faultConnection = loadRelaxed(&report.connection);
  state.expected = loadRelaxed(&report.expected);
  state.found = loadRelaxed(&report.found);
  return LaneAnswer::failed;
}

// One kernel follows the other, so the report is of the last. It may be under way. Those that end well say
// nothing.
Replays LaneExecutor::look(Work& captured) {
  if (!captured.carried) return StagedExecutor::look(captured);
  auto& run = static_cast<Run&>(*captured.state);
  const lanes::Report& report = *run.used->report.host;
  if (run.used->isOver()) return Replays::over;
  if (faultOf(captured, report) == LaneAnswer::failed) return Replays::failed;
  const uint64_t progress = loadRelaxed(&report.progress);
  const bool moved = progress != std::exchange(run.progress, progress);
  return moved || loadRelaxed(&report.awaited) < 0 ? Replays::idle : Replays::waits;
}

void LaneExecutor::cancel(Work& work) {
  if (work.carried) neighbours_->abort();
}

void LaneExecutor::quiesce(Work& work) {
  if (work.carried) neighbours_->quiesce(kept_->shown.isWritten());
}

void LaneExecutor::forAwaited(const Work& work, const std::function<void(int)>& visit) const {
  const int32_t awaited = loadRelaxed(&static_cast<const Run&>(*work.state).used->report.host->awaited);
  if (awaited >= 0) visit(awaited);
}

}  // namespace eccl::runtime::cuda
