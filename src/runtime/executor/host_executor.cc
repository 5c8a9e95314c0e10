#include "runtime/executor/host_executor.h"

#include <cerrno>
#include <cstdlib>
#include <utility>

#include "base/ticks.h"
#include "runtime/executor/result_writes.h"

namespace eccl::runtime {
namespace {

constexpr size_t kAlignment = 64;  // a cache line, and the widest vector

/// Of a Run whose results are of medium size. What its moves take is noted when it has ended.
struct MeasuredWrites final : WorkState {
  explicit MeasuredWrites(std::shared_ptr<ResultWrites> itsChoice)
      : choice(std::move(itsChoice)), past(choice->past()) {}
  ~MeasuredWrites() override {
    if (bytes > 0) choice->note(past, (spent << kFraction) / bytes);
  }
  static constexpr int kFraction = 16;
  const std::shared_ptr<ResultWrites> choice;
  const bool past;
  uint64_t spent = 0, bytes = 0;  // ticks, and what was written meanwhile
};

/// The interpreter's device.
class HostMoves {
 public:
  static constexpr bool kCompletesInSubmit = true;

  HostMoves(const Work& work, MeasuredWrites* writes)
      : work_(work),
        writes_(writes),
        past_(writes != nullptr ? writes->past
                                : HostExecutor::writesPastCaches(work.footprint, work.cacheShare)) {}
  bool submit(int32_t, const MoveTask& move) {
    kernels::ReduceTask task = reduceTaskOf(work_, move);
    if (past_) task.streamed |= move.userMask;
    if (writes_ == nullptr || move.userMask == 0) {
      kernels::reduce(task);
      return true;
    }
    const uint64_t begun = ticks();
    kernels::reduce(task);
    writes_->spent += ticks() - begun;
    writes_->bytes += task.count * sizeOf(task.type);
    return true;
  }

 private:
  const Work& work_;
  MeasuredWrites* const writes_;  // null: they are not measured
  const bool past_;
};

}  // namespace

bool HostExecutor::writesPastCaches(size_t footprint, size_t cacheShare) {
  return resultSizeOf(footprint, cacheShare) == ResultSize::large;
}

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
  if (resultSizeOf(work.footprint, work.cacheShare) != ResultSize::medium) return {};
  if (*work.kept == nullptr) *work.kept = std::make_shared<ResultWrites>();
  work.state = std::make_unique<MeasuredWrites>(std::static_pointer_cast<ResultWrites>(*work.kept));
  return {};
}

// A Run of another executor may have its lanes run here; it has a state of its own.
LaneAnswer HostExecutor::advance(Work& work, int32_t lane, int budget) {
  HostMoves moves(work, work.executor == this ? static_cast<MeasuredWrites*>(work.state.get()) : nullptr);
  return eccl::advance(work.view, lane, budget, moves);
}

}  // namespace eccl::runtime
