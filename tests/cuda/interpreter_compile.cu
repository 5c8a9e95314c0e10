// Compiled, not run: the interpreter, the slot ring and the IR are one source for host and device, and this
// keeps it so. Any warning of the CUDA compiler (a host function called from device code) is an error here.
#include "program/interpreter.h"
#include "program/program.h"
#include "program/slot_ring.h"

namespace {

/// Sums floats, one thread, complete on submission: the least that satisfies the interpreter's Device.
struct OneThread {
  static constexpr bool kCompletesInSubmit = true;
  __device__ bool submit(int32_t, const eccl::MoveTask& task) {
    for (uint64_t i = 0; i < task.elements; ++i) {
      float sum = 0;
      for (int s = 0; s < task.sources; ++s) sum += reinterpret_cast<const float*>(task.source[s])[i];
      for (int d = 0; d < task.destinations; ++d) reinterpret_cast<float*>(task.destination[d])[i] = sum;
    }
    return true;
  }
};

}  // namespace

__global__ void advanceLanes(eccl::RunView run, int32_t lanes, int budget, eccl::LaneAnswer* answers) {
  const int32_t lane = static_cast<int32_t>(blockIdx.x * blockDim.x + threadIdx.x);
  OneThread device;
  if (lane < lanes) answers[lane] = eccl::advance(run, lane, budget, device);
}
