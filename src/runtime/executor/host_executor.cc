#include "runtime/executor/host_executor.h"

#include <cerrno>
#include <cstdlib>
#include <utility>

#include "base/ticks.h"
#include "runtime/executor/result_writes.h"

namespace eccl::runtime {
namespace {

constexpr size_t kAlignment = 64;  // a cache line, and the widest vector

/// Of a Run for which that is measured. What its moves take is noted when it has ended.
struct MeasuredWrites final : WorkState {
  explicit MeasuredWrites(std::shared_ptr<ResultWrites> itsChoice)
      : choice(std::move(itsChoice)), past(choice->past()) {}
  ~MeasuredWrites() override {
    if (bytes > 0) choice->note(past, (spent << kFraction) / bytes);
  }
  static constexpr int kFraction = 16;
  const std::shared_ptr<ResultWrites> choice;
  const bool past;
  uint64_t spent = 0, bytes = 0;  // ticks of moves that write results, and their lengths
};

// A Run of another executor may have its lanes run here; it has a state of its own.
MeasuredWrites* writesOf(const HostExecutor& executor, const Work& work) {
  return work.executor == &executor ? static_cast<MeasuredWrites*>(work.state.get()) : nullptr;
}

/// What has come to its place already is not written again.
bool writesResults(const kernels::ReduceTask& task, const MoveTask& move) {
  return move.userMask != 0 && !(kernels::isCopy(task) && task.destination[0] == task.source[0]);
}

/// The interpreter's device.
class HostMoves {
 public:
  static constexpr bool kCompletesInSubmit = true;

  /// `writes`: null if they are not measured.
  HostMoves(const HostExecutor& executor, const Work& work, MeasuredWrites* writes)
      : executor_(executor), work_(work), writes_(writes) {}
  bool submit(int32_t, const MoveTask& move) {
    const kernels::ReduceTask task = executor_.taskOf(work_, move);
    if (writes_ == nullptr || !writesResults(task, move)) {
      kernels::reduce(task);
      return true;
    }
    const uint64_t begun = ticks();
    kernels::reduce(task);
    const uint64_t ended = ticks();
    if (ended <= begun) return true;  // another processor, with another clock
    writes_->spent += ended - begun;
    writes_->bytes += task.count * sizeOf(task.type);
    return true;
  }

 private:
  const HostExecutor& executor_;
  const Work& work_;
  MeasuredWrites* const writes_;
};

}  // namespace

Result<std::byte*> HostExecutor::allocate(size_t bytes) {
  void* memory = nullptr;
  const int error = posix_memalign(&memory, kAlignment, bytes);
  if (error == 0) return static_cast<std::byte*>(memory);
  return Status::fromErrno(error,
                           "%zu bytes of host memory could not be allocated; free memory or raise the limit "
                           "(ulimit -v, cgroup)",
                           bytes);
}

void HostExecutor::release(std::byte* memory) {
  std::free(memory);
}

Result<std::unique_ptr<StreamGate>> HostExecutor::enter(void*, std::span<Work* const>, std::function<void()>) {
  return Status::error(Code::internal, "host memory has no streams but the library's own; please report it");
}

Status HostExecutor::begin(Work& work) {
  if (!isMeasured(work.footprint, work.cacheShare)) return {};
  if (*work.kept == nullptr)
    *work.kept = std::make_shared<ResultWrites>(writesPastCaches(work.footprint, work.cacheShare));
  work.state = std::make_unique<MeasuredWrites>(std::static_pointer_cast<ResultWrites>(*work.kept));
  return {};
}

kernels::ReduceTask HostExecutor::taskOf(const Work& work, const MoveTask& move) const {
  kernels::ReduceTask task = reduceTaskOf(work, move);
  const MeasuredWrites* writes = writesOf(*this, work);
  if (writes != nullptr ? writes->past : writesPastCaches(work.footprint, work.cacheShare))
    task.streamed |= move.userMask;
  return task;
}

LaneAnswer HostExecutor::advance(Work& work, int32_t lane, int budget) {
  HostMoves moves(*this, work, writesOf(*this, work));
  return eccl::advance(work.view, lane, budget, moves);
}

}  // namespace eccl::runtime
