#include "kernels/host_device.h"

#include <cerrno>
#include <cstdlib>

#include "base/log.h"

namespace eccl::kernels {
namespace {

constexpr size_t kAlignment = 64;  // a cache line, and the widest vector

bool inRange(int operands) {
  return operands >= 1 && operands <= kMaxOperands;
}

/// Division by zero would end the process.
bool isSound(const Scale& scale) {
  return scale.kind != Scale::Kind::divide || scale.integer > 0;
}

/// What is wrong with `task`, or nullptr.
const char* defectOf(const ReduceTask& task) {
  if (!inRange(task.sources)) return "the number of sources is not 1 to 8";
  if (!inRange(task.destinations)) return "the number of destinations is not 1 to 8";
  if (static_cast<int>(task.type) >= kDataTypes) return "the data type is unknown";
  if (task.op > RedOp::min) return "the operation is none of sum, prod, max and min";
  bool sound = isSound(task.post);
  for (int s = 0; s < task.sources; ++s) sound &= isSound(task.pre[s]);
  return sound ? nullptr : "a divisor is not positive";
}

}  // namespace

Result<void*> HostDevice::allocate(size_t bytes) {
  void* memory = nullptr;
  const int error = posix_memalign(&memory, kAlignment, bytes);
  if (error == 0) return memory;
  return logged(Status::fromErrno(error,
                                  "the host device could not allocate %zu bytes; free memory or raise the "
                                  "limit (ulimit -v, cgroup)",
                                  bytes));
}

void HostDevice::release(void* memory) {
  std::free(memory);
}

Result<Ticket> HostDevice::submit(const ReduceTask& task) {
  if (const char* defect = defectOf(task)) {
    return logged(Status::error(
        Code::internal,
        "the host device refused a task (type %d, operation %d, %d sources, %d destinations, %zu elements): "
        "%s; this is a defect of the executor, please report it",
        static_cast<int>(task.type), static_cast<int>(task.op), task.sources, task.destinations, task.count,
        defect));
  }
  reduce(task);
  return Ticket{};
}

}  // namespace eccl::kernels
