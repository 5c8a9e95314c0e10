// The lane kernels: one for each element type. Copies take the first.
#include "runtime/cuda/lanes/run_block.h"

namespace eccl::runtime::cuda::lanes {
namespace {

struct CudaBlock {
  static constexpr uint32_t kLong = 1 << 16;  // some 50 ms
  static constexpr uint32_t kWarp = 32;
  __device__ uint32_t thread() const { return threadIdx.x; }
  __device__ uint32_t threads() const { return blockDim.x; }
  __device__ void sync() const { __syncthreads(); }
  __device__ bool all(bool mine) const { return __syncthreads_and(mine) != 0; }
  __device__ bool any(bool mine) const { return __syncthreads_or(mine) != 0; }
  __device__ void pause() const {}
};

template <class E>
__device__ void run(const Calls& calls) {
  __shared__ alignas(16) std::byte state[sizeof(BlockState)];
  CudaBlock block;
  runBlock<E>(block, *reinterpret_cast<BlockState*>(state), calls, blockIdx.x);
}

}  // namespace

// So many blocks for each multiprocessor, and registers enough: ptxas else spills on sm_100 what it has room
// for.
#define ECCL_LANES(name, Element, text)                                           \
  extern "C" __global__ void __launch_bounds__(kThreads, kBlocksOfMultiprocessor) \
      eccl_lanes_##name(const __grid_constant__ Calls calls) {                    \
    run<Element>(calls);                                                          \
  }
ECCL_DATA_TYPES(ECCL_LANES)
#undef ECCL_LANES

}  // namespace eccl::runtime::cuda::lanes
