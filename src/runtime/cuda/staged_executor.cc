#include "runtime/cuda/staged_executor.h"

#include <cstring>
#include <map>
#include <set>

namespace eccl::runtime::cuda {

StagedExecutor::~StagedExecutor() {
  graphs_->end();
  graphs_.reset();
  destroyRetired();
}

Status StagedExecutor::open() {
  const Entered entered(gpu_.driver(), gpu_.context());
  ECCL_TRY(entered.status());
  return bell_.open();
}

Status StagedExecutor::admit(const void* address) const {
  PointerAttribute attributes[] = {kMemoryType, kIsManaged, kDeviceOrdinal};
  unsigned type = 0, managed = 0;
  int ordinal = 0;
  void* values[] = {&type, &managed, &ordinal};
  const Entered entered(gpu_.driver(), gpu_.context());
  ECCL_TRY(entered.status());
  ECCL_TRY(gpu_.driver().check(gpu_.driver().cuPointerGetAttributes(3, attributes, values, addressOf(address)),
                               "cuPointerGetAttributes", "of %p", address));
  if (type == 0)
    return Status::error(
        eccl::Code::invalidArgument,
        "is host memory that CUDA does not know, or was freed, and the communicator is for %s: "
        "allocate it by cudaMalloc or cudaMallocHost, or use ECCL_DEVICE=host",
        gpu_.name().c_str());
  if (type == kDeviceMemory && managed == 0 && ordinal != gpu_.ordinal())
    return Status::error(
        eccl::Code::invalidArgument,
        "is memory of CUDA device %d, and the communicator is for %s: make the communicator while "
        "device %d is current, or allocate the buffer on device %d",
        ordinal, gpu_.name().c_str(), ordinal, gpu_.ordinal());
  return {};
}

const void* StagedExecutor::streamOf(const void* handle) const {
  static thread_local char own;
  const auto value = reinterpret_cast<uintptr_t>(handle);
  if (value == kPerThreadHandle) return &own;
  return value == kLegacyHandle ? nullptr : handle;
}

Status StagedExecutor::refuseCapture(NativeStream stream, const char* what) const {
  ECCL_ASSIGN(const Capture capture, captureOf(gpu_, stream));
  if (!capture.goesOn()) return {};
  return Status::error(
      eccl::Code::invalidUsage,
      "the stream %p is being captured into a graph, and %s cannot be: make the call outside the "
      "capture",
      static_cast<void*>(stream), what);
}

Result<std::unique_ptr<StreamGate>> StagedExecutor::enter(void* native, Works works,
                                                          std::function<void()> reached) {
  const auto stream = static_cast<NativeStream>(native);
  const Entered entered(gpu_.driver(), gpu_.context());
  ECCL_TRY(entered.status());
  destroyRetired();
  ECCL_ASSIGN(const Capture capture, captureOf(gpu_, stream));
  ECCL_TRY(capture.goesOn() ? this->capture(stream, works, capture) : put(stream, works, capture));
  reached();
  return std::unique_ptr<StreamGate>();
}

/// Puts the ways of all into the stream.
Status StagedExecutor::put(NativeStream stream, Works works, const Capture& capture) {
  std::map<std::pair<const Executor*, CallOrder::Line>, size_t> places;
  std::vector<bool> first;
  for (Work* work : works) {
    first.push_back(work->state == nullptr);
    if (!first.back()) continue;
    const auto run = std::make_shared<StagedRun>(gpu_);
    work->captured = capture.goesOn();
    // Whatever fails from here on, the end of the state lets the stream go on.
    work->state = std::make_unique<StagedState>(run, !work->captured);
    if (work->captured) {
      run->beCaptured(*work, of(*work).graphs_, places[{work->executor, CallOrder::lineOf(*work)}]++);
      ECCL_TRY(keep(gpu_, capture, run));
    }
    ECCL_TRY(run->prepare(*work));
  }
  const auto each = [&](const auto& put) -> Status {
    for (size_t i = 0; i < works.size(); ++i)
      ECCL_TRY(put(*static_cast<StagedState&>(*works[i]->state).run, *works[i], first[i]));
    return {};
  };
  // All go to the host before any is waited for: they may need each other. Runs of other communicators have
  // executors of the same kind and GPU: that is the stream's.
  ECCL_TRY(each([&](StagedRun& run, Work& work, bool isFirst) {
    BellStream& bell = of(work).bell_;
    return isFirst ? run.arrive(work, stream, bell) : run.arriveAlso(stream, bell);
  }));
  return each([&](StagedRun& run, Work& work, bool isFirst) {
    return isFirst ? run.depart(work, stream) : run.departAlso(stream);
  });
}

/// The same for a graph, in which calls follow one another if they use the same connections: so Runs begin in
/// that order.
Status StagedExecutor::capture(NativeStream stream, Works works, const Capture& capture) {
  std::map<StagedGraphs*, std::unique_lock<std::mutex>> locks;  // in one order, whichever thread
  std::set<std::pair<StagedGraphs*, CallOrder::Line>> lines;
  for (const Work* work : works) {
    if (work->places > 1)
      return Status::error(
          eccl::Code::invalidUsage,
          "a copy of a rank to itself whose ecclSend and ecclRecv are in two streams is captured "
          "into a graph, which cannot be: put both into one stream");
    StagedGraphs* const graphs = of(*work).graphs_.get();
    lines.emplace(graphs, CallOrder::lineOf(*work));
    locks[graphs];
  }
  for (auto& [graphs, lock] : locks) lock = std::unique_lock(graphs->mutex());
  for (const auto& [graphs, line] : lines) ECCL_TRY(graphs->order().follow(line, stream, capture));
  ECCL_TRY(put(stream, works, capture));
  for (const auto& [graphs, line] : lines) ECCL_TRY(graphs->order().note(line, stream, capture));
  return {};
}

// By way of pinned memory: a copy to any other waits for more than this stream.
Status StagedExecutor::read(void* stream, void* to, const void* from, size_t bytes) {
  const Driver& driver = gpu_.driver();
  const Entered entered(driver, gpu_.context());
  ECCL_TRY(entered.status());
  const auto native = static_cast<NativeStream>(stream);
  ECCL_TRY(refuseCapture(native, "a call with an operator whose scalar is in device memory"));
  ECCL_ASSIGN(const Pinned pinned, gpu_.pin(bytes));
  Status copied =
      driver.check(driver.cuMemcpyAsync(addressOf(pinned.memory), addressOf(from), bytes, native),
                   "cuMemcpyAsync", "of an operator's scalar at %p on %s", from, gpu_.name().c_str());
  if (copied.ok())
    copied = driver.check(driver.cuStreamSynchronize(native), "cuStreamSynchronize",
                          "of the call's stream %p of %s", stream, gpu_.name().c_str());
  if (!copied.ok()) return copied;  // the memory may still be written, and stays taken
  std::memcpy(to, pinned.memory, bytes);
  gpu_.giveBack(pinned, {});
  return {};
}

Status StagedExecutor::begin(Work& work) {
  static_cast<StagedState&>(*work.state).run->begin(work);
  return {};
}

LaneAnswer StagedExecutor::advance(Work& work, int32_t lane, int budget) {
  StagedRun& run = *static_cast<StagedState&>(*work.state).run;
  run.advance(work);
  const LaneAnswer answer = host_->advance(work, lane, budget);
  if (answer != LaneAnswer::blocked) run.advance(work);
  return answer;
}

Replays StagedExecutor::look(Work& captured) {
  return static_cast<StagedState&>(*captured.state).run->isOver() ? Replays::over : Replays::idle;
}

void StagedExecutor::takeBegun(const std::function<void(Work&, std::unique_ptr<WorkState>)>& visit) {
  // What waits for them in graphs keeps them alive.
  for (StagedRun* each : graphs_->takeBegun()) {
    Work& captured = *each->captured();
    visit(captured, std::make_unique<StagedState>(static_cast<StagedState&>(*captured.state).run, true));
  }
}

}  // namespace eccl::runtime::cuda
