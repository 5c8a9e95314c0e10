#include "runtime/cuda/lane_executor.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <numeric>

#include "base/atomics.h"
#include "base/log.h"
#include "runtime/cuda/lanes/block.h"
#include "runtime/cuda/lanes/compile.h"

namespace eccl::runtime::cuda {

/// What a call needs on the GPU besides its buffers. Owner: the plan of the library, and Runs.
struct LaneExecutor::Plan {
  Gpu& gpu;
  const std::shared_ptr<Neighbourhood> neighbours;
  Address memory = 0;  // a BlockProgram, and what it points to
  size_t bytes = 0;
  uint32_t blocks = 0;
  bool reduces = false;
  std::byte* own = nullptr;  // buffers for calls without any: barriers

  Plan(Gpu& its, std::shared_ptr<Neighbourhood> ranks) : gpu(its), neighbours(std::move(ranks)) {}
  ~Plan() {
    if (!neighbours->lost()) gpu.giveBack(memory, bytes);
  }
  Plan(const Plan&) = delete;
};

struct LaneExecutor::Run final : WorkState {
  std::shared_ptr<Plan> plan;
  std::shared_ptr<Neighbourhood> neighbours;
  ReportPlace report;
  uint64_t progress = 0;

  ~Run() override {
    if (report.host != nullptr) neighbours->end(report);
  }
};

LaneExecutor::~LaneExecutor() {
  for (auto& [id, ends] : ends_) {
    if (!neighbours_->lost()) gpu_.giveBack(ends.memory, neighbours_->blocks() * sizeof(lanes::End));
  }
  if (event_ == nullptr) return;
  const Entered entered(gpu_.driver(), gpu_.context());
  gpu_.driver().cuEventDestroy(event_);
}

void LaneExecutor::join(uint64_t communicator, int rank, int ranks) {
  rank_ = rank;
  neighbours_ = Neighbourhood::of(communicator, rank, ranks, gpu_);
}

Status LaneExecutor::meet() {
  if (neighbours_ == nullptr) return {};
  std::string why;
  onDevice_ = neighbours_->complete(&why);
  if (onDevice_) {
    const Entered entered(gpu_.driver(), gpu_.context());
    ECCL_TRY(entered.status());
    if (const auto kernel = gpu_.kernel(DataType::int8); !kernel.ok()) {
      onDevice_ = false;  // of all: the process has one build, and the GPUs one driver
      why = kernel.status().message();
    } else {
      ECCL_TRY(neighbours_->reach(rank_));
    }
  }
  if (!onDevice_) ECCL_INFO("calls on %s are staged through the host: %s", gpu_.name().c_str(), why.c_str());
  return {};
}

bool LaneExecutor::runsOnDevice(const Work& work) const {
  const Program& program = *work.program;
  const bool pair = program.collective == Collective::send || program.collective == Collective::receive;
  return onDevice_ && (!program.streams || pair);
}

Result<LaneExecutor::Ends*> LaneExecutor::ends(const RingId& id, uint32_t width) {
  Ends& ends = ends_[id];
  const uint32_t most = neighbours_->blocks();
  if (ends.memory == 0) { ECCL_ASSIGN(ends.memory, gpu_.take(most * sizeof(lanes::End))); }
  if (ends.filled < width) {
    ECCL_ASSIGN(const auto strips, neighbours_->ring(id, width));
    std::vector<lanes::End> more;
    for (uint32_t i = ends.filled; i < width; ++i) {
      lanes::End end{};
      end.receiver = strips[i].receiver;
      end.sender = strips[i].sender;
      end.next = end.releasedSeen = end.lastReference = lanes::kFirstMessage;
      end.near = neighbours_->near(std::get<0>(id), std::get<1>(id));
      more.push_back(end);
    }
    ECCL_TRY(gpu_.upload(ends.memory + ends.filled * sizeof(lanes::End), more.data(),
                         more.size() * sizeof(lanes::End)));
    ends.filled = width;
  }
  return &ends;
}

Result<std::shared_ptr<LaneExecutor::Plan>> LaneExecutor::planOf(const Work& work) {
  if (*work.kept != nullptr) return std::static_pointer_cast<Plan>(*work.kept);
  const Program& program = *work.program;
  ECCL_ASSIGN(lanes::Compiled made, lanes::compile(program, *work.view.plan, neighbours_->blocks()));
  std::vector<lanes::EndOf> itsEnds;
  for (const int32_t c : made.ends) {
    const ConnectionSpec& spec = program.connections[static_cast<size_t>(c)];
    const RingId id{spec.sends ? rank_ : spec.peer, spec.sends ? spec.peer : rank_, spec.channel, spec.tag};
    ECCL_ASSIGN(const Ends* found, ends(id, made.program.width));
    itsEnds.push_back({reinterpret_cast<lanes::End*>(found->memory), c});
  }
  auto plan = std::make_shared<Plan>(gpu_, neighbours_);
  plan->blocks = made.blocks;
  plan->reduces = made.reduces;
  // One after the other: the program, its lists, then what kernels write.
  const size_t words = made.program.lanes * made.program.width;
  const auto ranks = static_cast<size_t>(program.ranks);
  std::vector<std::byte> image(sizeof(lanes::BlockProgram));
  const auto place = [&](size_t bytes, size_t align = 64) {
    image.resize((image.size() + align - 1) / align * align);
    const size_t at = image.size();
    image.resize(at + bytes);
    return at;
  };
  const auto put = [&](const auto& list) {
    const size_t bytes = list.size() * sizeof(list[0]), at = place(bytes);
    if (bytes > 0) std::memcpy(image.data() + at, list.data(), bytes);
    return at;
  };
  const size_t lane = put(made.lane), moves = put(made.moves), operands = put(made.operands),
               pieces = put(made.pieces), ends = put(itsEnds), done = place(words * sizeof(uint64_t)),
               ended = place(sizeof(uint32_t)), failed = place(sizeof(uint32_t)),
               own = place(2 * ranks * work.view.plan->elementBytes);
  const size_t uploaded = image.size();
  const size_t scratch = (uploaded + 127) / 128 * 128;
  plan->bytes = scratch + made.scratchBytes;
  ECCL_ASSIGN(plan->memory, gpu_.take(plan->bytes));
  const auto at = [&]<class T>(T*& pointer, size_t offset) {
    pointer = reinterpret_cast<T*>(plan->memory + offset);
  };
  at(made.program.lane, lane);
  at(made.program.moves, moves);
  at(made.program.operands, operands);
  at(made.program.pieces, pieces);
  at(made.program.ends, ends);
  at(made.program.done, done);
  at(made.program.ended, ended);
  at(made.program.failed, failed);
  at(made.program.scratch, scratch);
  at(plan->own, own);
  std::memcpy(image.data(), &made.program, sizeof made.program);
  ECCL_TRY(gpu_.upload(plan->memory, image.data(), uploaded));
  *work.kept = plan;
  return plan;
}

/// Kernels of one communicator follow one another, whatever streams they are in.
Status LaneExecutor::follow(NativeStream stream) {
  if (event_ == nullptr || stream == last_) return {};
  return gpu_.driver().check(gpu_.driver().cuStreamWaitEvent(stream, event_, 0), "cuStreamWaitEvent",
                             "in the stream %p of %s", static_cast<void*>(stream), gpu_.name().c_str());
}

// After each call: when the next one comes the stream may be gone.
Status LaneExecutor::noteStream(NativeStream stream) {
  const Driver& driver = gpu_.driver();
  last_ = stream;
  if (event_ == nullptr)
    ECCL_TRY(driver.check(driver.cuEventCreate(&event_, kEventWithoutTiming), "cuEventCreate", "on %s",
                          gpu_.name().c_str()));
  return driver.check(driver.cuEventRecord(event_, stream), "cuEventRecord", "in the stream %p of %s",
                      static_cast<void*>(stream), gpu_.name().c_str());
}

Status LaneExecutor::prepare(Work& work, lanes::Calls& calls, uint32_t& blocks, const Queue& queue,
                             uint64_t launch) {
  std::lock_guard lock(mutex_);
  ECCL_TRY(follow(queue.stream));
  ECCL_ASSIGN(std::shared_ptr<Plan> plan, planOf(work));
  auto run = std::make_unique<Run>();
  run->neighbours = neighbours_;
  const bool pair =
      work.program->collective == Collective::send || work.program->collective == Collective::receive;
  ECCL_ASSIGN(run->report, neighbours_->begin({rank_, queue, pair ? 0 : ++collectives_, launch}));
  lanes::Call& call = calls.call[calls.count++];
  call.program = reinterpret_cast<const lanes::BlockProgram*>(plan->memory);
  call.input = work.view.buffers[static_cast<int>(Space::input)];
  call.output = work.view.buffers[static_cast<int>(Space::output)];
  if (work.program->collective == Collective::barrier) {
    call.input = plan->own;
    call.output = plan->own + work.program->ranks;
  }
  call.report = reinterpret_cast<lanes::Report*>(run->report.device);
  call.abort = reinterpret_cast<const lanes::AbortLine*>(neighbours_->abortOf(rank_));
  call.signature = work.callSignature;
  call.firstBlock = blocks;
  call.blocks = plan->blocks;
  call.op = work.op;
  call.pre = work.pre;
  call.post = work.post;
  blocks += plan->blocks;
  run->plan = std::move(plan);
  work.state = std::move(run);
  return {};
}

/// All blocks of a kernel wait for others, so all have to be there at once.
Status LaneExecutor::checkRoom(std::span<Work* const> works) const {
  for (Work* each : works) {
    const auto& executor = static_cast<const LaneExecutor&>(*each->executor);
    uint32_t blocks = 0;
    for (Work* other : works)
      if (other->executor == each->executor) blocks += static_cast<const Run&>(*other->state).plan->blocks;
    if (blocks <= executor.neighbours_->room()) continue;
    return Status::error(
        eccl::Code::invalidUsage,
        "a group of %zu calls takes %u blocks of %s, and rank %d has room for %u at once: make "
        "smaller groups, or set ECCL_CUDA_LANES=0",
        works.size(), blocks, gpu_.name().c_str(), executor.rank_, executor.neighbours_->room());
  }
  return {};
}

Status LaneExecutor::launch(std::span<Work* const> works, NativeStream stream) {
  static std::atomic<uint64_t> launches{0};
  const Driver& driver = gpu_.driver();
  Queue queue{stream, reinterpret_cast<uintptr_t>(stream) <= 1, false};
  if (unsigned flags = 0; !queue.legacy) {
    ECCL_TRY(driver.check(driver.cuStreamGetFlags(stream, &flags), "cuStreamGetFlags",
                          "of the call's stream %p of %s", static_cast<void*>(stream), gpu_.name().c_str()));
    queue.blocking = flags != kStreamNonBlocking;
  }
  for (size_t first = 0; first < works.size();) {
    const uint64_t launch = ++launches;
    lanes::Calls calls{};
    uint32_t blocks = 0;
    const auto typeOf = [](const Work& work) {
      return static_cast<const Run&>(*work.state).plan->reduces ||
                     work.pre.kind != kernels::Scale::Kind::none || work.post.kind != kernels::Scale::Kind::none
                 ? work.type
                 : DataType::int8;
    };
    size_t last = first;
    DataType type{};
    for (; last < works.size() && calls.count < lanes::kMaxCalls; ++last) {
      Work& work = *works[last];
      auto& executor = static_cast<LaneExecutor&>(*work.executor);
      if (work.state == nullptr) ECCL_TRY(executor.prepare(work, calls, blocks, queue, launch));
      if (last == first) type = typeOf(work);
    }
    ECCL_TRY(checkRoom(works.subspan(first, last - first)));
    ECCL_ASSIGN(const Function kernel, gpu_.kernel(type));
    void* arguments[] = {&calls};
    ECCL_TRY(driver.check(
        driver.cuLaunchKernel(kernel, blocks, 1, 1, lanes::kThreads, 1, 1, 0, stream, arguments, nullptr),
        "cuLaunchKernel", "of %u blocks in the call's stream %p of %s", blocks, static_cast<void*>(stream),
        gpu_.name().c_str()));
    for (; first < last; ++first) {
      Work& work = *works[first];
      auto& executor = static_cast<LaneExecutor&>(*work.executor);
      std::lock_guard lock(executor.mutex_);
      ECCL_TRY(executor.noteStream(stream));
    }
  }
  return {};
}

Result<std::unique_ptr<StreamGate>> LaneExecutor::enter(void* native, std::span<Work* const> works,
                                                        std::function<void()> reached) {
  const auto stream = static_cast<NativeStream>(native);
  std::vector<Work*> here, staged;
  for (Work* work : works) {
    const auto& executor = static_cast<const LaneExecutor&>(*work->executor);
    work->carried = executor.runsOnDevice(*work);
    (work->carried ? here : staged).push_back(work);
  }
  if (!here.empty()) {
    const Driver& driver = gpu_.driver();
    const Entered entered(driver, gpu_.context());
    ECCL_TRY(entered.status());
    int capturing = kCaptureNone;
    ECCL_TRY(driver.check(driver.cuStreamIsCapturing(stream, &capturing), "cuStreamIsCapturing",
                          "of the call's stream %p, which has to be one of %s,", native, gpu_.name().c_str()));
    if (capturing != kCaptureNone)
      return Status::error(
          Code::invalidUsage,
          "the stream %p is being captured into a graph, which ECCL's calls cannot be yet: make "
          "the call outside the capture",
          native);
    ECCL_TRY(launch(here, stream));
  }
  if (staged.empty()) return reached(), std::unique_ptr<StreamGate>();
  return StagedExecutor::enter(native, staged, std::move(reached));
}

LaneAnswer LaneExecutor::advance(Work& work, int32_t lane, int budget) {
  if (!work.carried) return StagedExecutor::advance(work, lane, budget);
  auto& run = static_cast<Run&>(*work.state);
  const lanes::Report& report = *run.report.host;
  if (loadAcquire(&report.over) == 0) {
    const uint64_t progress = loadRelaxed(&report.progress);
    if (progress == run.progress) return LaneAnswer::blocked;
    run.progress = progress;
    return LaneAnswer::progress;
  }
  if (report.fault == lanes::kNoFault) return LaneAnswer::done;
  if (report.fault == lanes::kAborted) return LaneAnswer::blocked;  // the engine is told why elsewhere
  LaneState& state = work.view.lanes[0];
  state.fault = report.fault == lanes::kOtherSignature ? LaneFault::signature : LaneFault::length;
  state.faultConnection = report.connection;
  state.expected = report.expected;
  state.found = report.found;
  return LaneAnswer::failed;
}

void LaneExecutor::cancel(Work& work) {
  if (work.carried) neighbours_->abort();
}

void LaneExecutor::quiesce(Work& work) {
  if (work.carried && loadAcquire(&static_cast<Run&>(*work.state).report.host->over) == 0)
    neighbours_->quiesce();
}

void LaneExecutor::forAwaited(const Work& work, const std::function<void(int)>& visit) const {
  const int32_t awaited = loadRelaxed(&static_cast<const Run&>(*work.state).report.host->awaited);
  if (awaited >= 0) visit(awaited);
}

}  // namespace eccl::runtime::cuda
