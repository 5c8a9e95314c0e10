// How the calls of a group become kernels.
#include <algorithm>
#include <atomic>
#include <set>

#include "runtime/cuda/lane_run.h"
#include "runtime/cuda/lanes/compile.h"

namespace eccl::runtime::cuda {

Status LaneExecutor::prepare(Work& work, lanes::Calls& calls, uint32_t& blocks, const Queue& queue,
                             uint64_t launch) {
  ECCL_ASSIGN(std::shared_ptr<DevicePlan> plan, planOf(work));
  const auto used = std::make_shared<Used>();
  used->kept = kept_;
  const bool alone = isPair(work) || work.program->connections.empty();
  if (!alone && work.number < nextCollective_)
    return Status::error(eccl::Code::invalidUsage,
                         "collective number %llu of rank %d comes behind number %llu: put the calls of one "
                         "communicator in a group into one stream, or set ECCL_CUDA_LANES=0",
                         static_cast<unsigned long long>(work.number), rank_,
                         static_cast<unsigned long long>(nextCollective_ - 1));
  if (!alone) nextCollective_ = work.number + 1;
  work.captured = queue.capture.goesOn();
  if (work.captured) ECCL_TRY(keep(gpu_, queue.capture, used));
  ECCL_ASSIGN(used->report, neighbours_->begin(entryOf(work, queue, launch)));
  lanes::Call& call = calls.call[calls.count++];
  call.program = plan->program();
  call.input = work.view.buffers[static_cast<int>(Space::input)];
  call.output = work.view.buffers[static_cast<int>(Space::output)];
  if (work.program->collective == Collective::barrier) {
    call.input = plan->own();
    call.output = plan->own() + work.program->ranks;
  }
  call.report = reinterpret_cast<lanes::Report*>(used->report.device);
  call.abort = reinterpret_cast<const lanes::AbortLine*>(neighbours_->abortOf(rank_));
  call.signature = work.callSignature;
  call.firstBlock = blocks;
  call.blocks = plan->blocks();
  call.programBytes = plan->programBytes();
  call.isShort = plan->isShort();
  call.quiet = work.captured;
  call.op = work.op;
  call.pre = work.pre;
  call.post = work.post;
  call.scalar = static_cast<const std::byte*>(work.scalar);
  blocks += plan->blocks();
  used->plan = std::move(plan);
  auto run = std::make_unique<Run>();
  run->used = used;
  work.state = std::move(run);
  return {};
}

Neighbourhood::Entry LaneExecutor::entryOf(const Work& work, const Queue& queue, uint64_t launch) const {
  if (work.program->connections.empty()) return {rank_, queue, 0, launch};
  Neighbourhood::Entry entry{rank_, queue, work.number + 1, launch};
  if (!isPair(work)) return entry;
  entry.peer = work.program->connections[0].peer;
  entry.sends = work.program->collective == Collective::send;
  entry.bytes = work.footprint / 2;
  return entry;
}

/// All blocks of a kernel wait for others, so all have to be there at once.
Status LaneExecutor::checkRoom(std::span<Work* const> works) const {
  for (Work* each : works) {
    const auto& executor = static_cast<const LaneExecutor&>(*each->executor);
    uint32_t blocks = 0;
    for (Work* other : works)
      if (other->executor == each->executor)
        blocks += static_cast<const Run&>(*other->state).used->plan->blocks();
    if (blocks <= executor.neighbours_->room()) continue;
    return Status::error(
        eccl::Code::invalidUsage,
        "a group of %zu calls takes %u blocks of %s, and rank %d has room for %u at once: make "
        "smaller groups, or set ECCL_CUDA_LANES=0",
        works.size(), blocks, gpu_.name().c_str(), executor.rank_, executor.neighbours_->room());
  }
  return {};
}

/// Calls of one group. Those that follow one another, as they use the same connections, are in kernels that do.
/// A call has the same place among such calls on all its ranks, so the kernels of the ranks match.
Status LaneExecutor::launch(std::span<Work* const> works, NativeStream stream) {
  const auto handle = reinterpret_cast<uintptr_t>(stream);
  Queue queue{stream, handle <= kLegacyHandle, false, handle == kPerThreadHandle, {}};
  ECCL_ASSIGN(queue.capture, captureOf(gpu_, stream));
  // The driver does not tell the flags of a stream that is captured. The NULL stream is never one.
  if (unsigned flags = 0; !queue.legacy && !queue.capture.goesOn()) {
    ECCL_TRY(gpu_.driver().check(gpu_.driver().cuStreamGetFlags(stream, &flags), "cuStreamGetFlags",
                                 "of the call's stream %p of %s", static_cast<void*>(stream),
                                 gpu_.name().c_str()));
    queue.blocking = flags != kStreamNonBlocking;
  }
  std::map<std::pair<const Executor*, CallOrder::Line>, size_t> places;
  // By place, then by the type that the kernel is for: the same on all ranks of a call.
  std::map<std::pair<size_t, DataType>, std::vector<Work*>> kernels;
  for (Work* work : works) {
    const DataType type = reduces(work->program->collective) ? work->type : DataType::int8;
    kernels[{places[{work->executor, CallOrder::lineOf(*work)}]++, type}].push_back(work);
  }
  for (const auto& [which, calls] : kernels)
    for (const std::vector<Work*>& fitting : whatFits(calls)) ECCL_TRY(launchOne(fitting, which.second, queue));
  return {};
}

/// As kernels that follow one another, where there is no room for all: communicators in one order on all ranks,
/// each as a whole. The first that is not complete is in a kernel on each of its ranks, as those before it are
/// over.
std::vector<std::vector<Work*>> LaneExecutor::whatFits(const std::vector<Work*>& works) const {
  const auto isOfMine = [&](const Work* work) {
    return static_cast<const LaneExecutor*>(work->executor)->neighbours_ == neighbours_;
  };
  if (std::all_of(works.begin(), works.end(), isOfMine)) return {works};  // most
  std::map<uint64_t, std::vector<Work*>> communicators;
  for (Work* work : works)
    communicators[static_cast<const LaneExecutor*>(work->executor)->neighbours_->communicator()].push_back(
        work);
  const uint32_t share = residents_.share();
  std::vector<std::vector<Work*>> kernels;
  Residents::Blocks there;
  for (const auto& [communicator, its] : communicators) {
    Residents::Blocks together = there;
    for (Work* work : its)
      together[placeOf(*work)] += static_cast<LaneExecutor*>(work->executor)->blocksOf(*work);
    const bool fits =
        std::all_of(together.begin(), together.end(), [&](auto& one) { return one.second <= share; });
    if (kernels.empty() || !fits || kernels.back().size() + its.size() > lanes::kMaxCalls) {
      kernels.emplace_back();
      for (auto& [place, blocks] : together) blocks -= there[place];
    }
    there = std::move(together);
    kernels.back().insert(kernels.back().end(), its.begin(), its.end());
  }
  return kernels;
}

int LaneExecutor::placeOf(const Work& work) {
  const auto& executor = static_cast<const LaneExecutor&>(*work.executor);
  return executor.neighbours_->place(executor.rank_);
}

/// 0 if it cannot be made, which prepare() says.
uint32_t LaneExecutor::blocksOf(const Work& work) {
  const std::lock_guard lock(mutex_);
  const auto plan = begunPlanOf(work);
  return plan.ok() ? (*plan)->blocks() : 0;
}

Status LaneExecutor::launchOne(const std::vector<Work*>& works, DataType type, const Queue& queue) {
  static std::atomic<uint64_t> launches{0};
  const uint64_t launch = ++launches;
  if (works.size() > lanes::kMaxCalls)
    return Status::error(
        eccl::Code::invalidUsage,
        "a group has %zu calls that go on at once, and a kernel on %s makes %u at most: make smaller "
        "groups, or set ECCL_CUDA_LANES=0",
        works.size(), gpu_.name().c_str(), lanes::kMaxCalls);
  std::set<LaneExecutor*> executors;
  for (const Work* work : works) executors.insert(static_cast<LaneExecutor*>(work->executor));
  std::vector<std::unique_lock<std::mutex>> locks;  // in one order, whichever thread
  for (LaneExecutor* each : executors) locks.emplace_back(each->mutex_);
  lanes::Calls calls{};
  uint32_t blocks = 0;
  for (Work* work : works) {
    auto& executor = static_cast<LaneExecutor&>(*work->executor);
    ECCL_TRY(executor.kept_->order.follow(CallOrder::lineOf(*work), queue.stream, queue.capture));
    ECCL_TRY(executor.prepare(*work, calls, blocks, queue, launch));
  }
  ECCL_TRY(checkRoom(works));
  Residents::Blocks each;
  for (size_t i = 0; i < works.size(); ++i) each[placeOf(*works[i])] += calls.call[i].blocks;
  if (!queue.capture.goesOn()) ECCL_TRY(residents_.makeRoom(each, queue.stream));
  ECCL_ASSIGN(const Function kernel, gpu_.kernel(type));
  void* arguments[] = {&calls};
  ECCL_TRY(gpu_.driver().check(gpu_.driver().cuLaunchKernel(kernel, blocks, 1, 1, lanes::kThreads, 1, 1, 0,
                                                            queue.stream, arguments, nullptr),
                               "cuLaunchKernel", "of %u blocks in the call's stream %p of %s", blocks,
                               static_cast<void*>(queue.stream), gpu_.name().c_str()));
  if (!queue.capture.goesOn()) ECCL_TRY(residents_.note(each, queue.stream));
  for (const Work* work : works) {
    CallOrder& order = static_cast<LaneExecutor*>(work->executor)->kept_->order;
    ECCL_TRY(order.note(CallOrder::lineOf(*work), queue.stream, queue.capture));
  }
  return {};
}

}  // namespace eccl::runtime::cuda
