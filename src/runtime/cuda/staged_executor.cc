#include "runtime/cuda/staged_executor.h"

#include <cstring>

namespace eccl::runtime::cuda {

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

Status StagedExecutor::refuseCapture(NativeStream stream, const char* what) const {
  ECCL_ASSIGN(const Capture capture, captureOf(gpu_, stream));
  if (!capture.goesOn()) return {};
  return Status::error(
      eccl::Code::invalidUsage,
      "the stream %p is being captured into a graph, and %s cannot be: make the call outside the "
      "capture",
      static_cast<void*>(stream), what);
}

Result<std::unique_ptr<StreamGate>> StagedExecutor::enter(void* native, std::span<Work* const> works,
                                                          std::function<void()> reached) {
  const auto stream = static_cast<NativeStream>(native);
  const Driver& driver = gpu_.driver();
  const Entered entered(driver, gpu_.context());
  ECCL_TRY(entered.status());
  ECCL_TRY(refuseCapture(stream, "a call that is staged through the host"));
  // Runs of other communicators have executors of the same kind and GPU: that is the stream's.
  const auto bellOf = [](Work& work) -> BellStream& {
    return static_cast<StagedExecutor*>(work.executor)->bell_;
  };
  std::vector<bool> first;
  for (Work* work : works) {
    first.push_back(work->state == nullptr);
    if (!first.back()) continue;
    auto made = std::make_unique<StagedRun>(gpu_);
    StagedRun& run = *made;
    work->state = std::move(made);  // whatever fails from here on, its end lets the stream go on
    ECCL_TRY(run.prepare(*work));
  }
  const auto each = [&](const auto& put) -> Status {
    for (size_t i = 0; i < works.size(); ++i)
      ECCL_TRY(put(static_cast<StagedRun&>(*works[i]->state), *works[i], first[i]));
    return {};
  };
  // All go to the host before any is waited for: they may need each other.
  ECCL_TRY(each([&](StagedRun& run, Work& work, bool isFirst) {
    return isFirst ? run.arrive(work, stream, bellOf(work)) : run.arriveAlso(stream, bellOf(work));
  }));
  ECCL_TRY(each([&](StagedRun& run, Work& work, bool isFirst) {
    return isFirst ? run.depart(work, stream) : run.departAlso(stream);
  }));
  reached();
  return std::unique_ptr<StreamGate>();
}

// By way of pinned memory: a copy to any other waits for more than this stream.
Status StagedExecutor::read(void* stream, void* to, const void* from, size_t bytes) {
  if (!holds(from)) return std::memcpy(to, from, bytes), Status();
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
  static_cast<StagedRun&>(*work.state).begin(work);
  return {};
}

LaneAnswer StagedExecutor::advance(Work& work, int32_t lane, int budget) {
  auto& run = static_cast<StagedRun&>(*work.state);
  run.advance(work);
  const LaneAnswer answer = host_->advance(work, lane, budget);
  if (answer != LaneAnswer::blocked) run.advance(work);
  return answer;
}

}  // namespace eccl::runtime::cuda
