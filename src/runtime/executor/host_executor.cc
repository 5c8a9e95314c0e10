#include "runtime/executor/host_executor.h"

#include <cerrno>
#include <cstdlib>

namespace eccl::runtime {
namespace {

constexpr size_t kAlignment = 64;  // a cache line, and the widest vector

/// Results are written past the caches where a rank's buffers are as large as its share of them by this factor,
/// or larger: the first of them would be out of the caches again before the last is there. Two ranks, 32 MiB of
/// L3 for two cores, time if streamed to time if not; most differ with what others do to the caches meanwhile:
///  - AMD EPYC, family 25 model 1, 25 November 2026: Send and Recv of 12 MiB (24 MiB of buffers) .69 and of 16
///  MiB
///    .70, Broadcast of 12 MiB (24 MiB) .70, ReduceScatter of 16 MiB (24 MiB) .9 to 1, AllGather of 12 MiB (18
///    MiB) 1.0 to 1.25 and of 16 MiB (24 MiB) .65 to .9, AlltoAll of 8 MiB (16 MiB) 1 to 1.3 and of 16 MiB (32
///    MiB) .75.
///  - AMD EPYC, family 26 model 2, 25 November 2026: AllGather of 16 MiB 1.0 to 1.4 and of 24 MiB .71,
///  AllReduce of
///    16 MiB (32 MiB) .85, ReduceScatter of 16 MiB 1.2. In the probe of perf/compare Send and Recv,
///    ReduceScatter and AlltoAll of 16 MiB are the fastest if streamed, as on the other two.
///  - AMD EPYC, family 25 model 17, November 2026: AllGather of 4 MiB (6 MiB) 3, AllReduce of 16 MiB 1.05, of
///  64 MiB
///    .8.
constexpr double kStreamFactor = 1.5;

/// The interpreter's device.
class HostMoves {
 public:
  static constexpr bool kCompletesInSubmit = true;

  explicit HostMoves(const Work& work) : work_(work) {}
  bool submit(int32_t, const MoveTask& move) {
    kernels::ReduceTask task = reduceTaskOf(work_, move);
    if (HostExecutor::writesPastCaches(work_.footprint, work_.cacheShare)) task.streamed |= move.userMask;
    kernels::reduce(task);
    return true;
  }

 private:
  const Work& work_;
};

}  // namespace

bool HostExecutor::writesPastCaches(size_t footprint, size_t cacheShare) {
  return static_cast<double>(footprint) >= kStreamFactor * static_cast<double>(cacheShare);
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

LaneAnswer HostExecutor::advance(Work& work, int32_t lane, int budget) {
  HostMoves moves(work);
  return eccl::advance(work.view, lane, budget, moves);
}

}  // namespace eccl::runtime
