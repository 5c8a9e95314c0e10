// How fast the lane kernels' code sums buffers, beside copies.
#include "limits.cuh"
#include "runtime/cuda/lanes/combine.h"

namespace eccl::gpu {
namespace {

using runtime::cuda::lanes::combineAll;
using runtime::cuda::lanes::kBlocksOfMultiprocessor;
using runtime::cuda::lanes::kThreads;
using runtime::cuda::lanes::Work;

struct Block {
  __device__ uint32_t thread() const { return threadIdx.x; }
  __device__ uint32_t threads() const { return blockDim.x; }
};

/// Blocks have chunks of so many bytes in turns, as strips of tiles are.
constexpr uint64_t kChunk = 128 << 10;

template <class E>
__global__ void __launch_bounds__(kThreads, kBlocksOfMultiprocessor)
    combine(const std::byte* a, const std::byte* b, std::byte* to, std::byte* too, uint64_t bytes) {
  __shared__ Work work;
  for (uint64_t at = blockIdx.x * kChunk; at < bytes; at += gridDim.x * kChunk) {
    __syncthreads();
    if (threadIdx.x == 0) {
      work.sources = b == nullptr ? 1 : 2;
      work.destinations = too == nullptr ? 1 : 2;
      work.source[0] = a + at;
      work.source[1] = b + at;
      work.destination[0] = to + at;
      work.destination[1] = too + at;
      work.pre[0] = work.pre[1] = work.post = {};
      work.op = RedOp::sum;
    }
    __syncthreads();
    Block block;
    combineAll<E>(block, work, bytes - at < kChunk ? bytes - at : kChunk);
  }
}

/// GB/s, read and written, median of several.
double rate(uint64_t moved, const std::function<void(CUstream)>& launch) {
  CUstream s = stream();
  CUevent begin, end;
  CU(cuEventCreate(&begin, 0));
  CU(cuEventCreate(&end, 0));
  std::vector<double> rates;
  for (int i = 0; i < 15; ++i) {
    float milliseconds = 0;
    CU(cuEventRecord(begin, s));
    launch(s);
    CURT(cudaGetLastError());
    CU(cuEventRecord(end, s));
    CU(cuStreamSynchronize(s));
    CU(cuEventElapsedTime(&milliseconds, begin, end));
    if (i >= 5) rates.push_back(static_cast<double>(moved) / milliseconds / 1e6);
  }
  CU(cuEventDestroy(begin));
  CU(cuEventDestroy(end));
  CU(cuStreamDestroy(s));
  return median(rates);
}

template <class E>
void reduce(const char* type, uint64_t bytes, unsigned blocks, std::byte* const (&memory)[4], double best) {
  const auto combined = [&](uint64_t moved, const std::byte* second, std::byte* too) {
    return rate(moved * bytes, [&](CUstream s) {
      combine<E><<<blocks, kThreads, 0, s>>>(memory[0], second, memory[2], too, bytes);
    });
  };
  const double copied = combined(2, nullptr, nullptr), reduced = combined(3, memory[1], nullptr),
               shared = combined(4, memory[1], memory[3]);
  std::printf("  %10llu %-10s %9.0f %9.0f %9.0f %6.2f %9.0f %9.0f\n", static_cast<unsigned long long>(bytes),
              type, best, copied, reduced, reduced / best, shared, shared / 4);
}

}  // namespace

void reductions() {
  constexpr uint64_t kMost = 1 << 30;
  std::byte* memory[4];
  for (std::byte*& each : memory) {
    CURT(cudaMalloc(&each, kMost));
    CURT(cudaMemset(each, 0, kMost));
  }
  int multiprocessors = 0;
  CU(cuDeviceGetAttribute(&multiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0));
  const auto blocks = static_cast<unsigned>(multiprocessors) * kBlocksOfMultiprocessor;
  std::printf(
      "GB/s read and written: bytes, type, cuMemcpy, copied by the kernel, two summed to a third, that of\n"
      "cuMemcpy, two summed to two; what an AllReduce of two ranks on the GPU can so have, GB/s each\n");
  for (uint64_t bytes = 16 << 20; bytes <= kMost; bytes *= 4) {
    const double best = rate(2 * bytes, [&](CUstream s) {
      CU(cuMemcpyDtoDAsync(reinterpret_cast<CUdeviceptr>(memory[2]), reinterpret_cast<CUdeviceptr>(memory[0]),
                           bytes, s));
    });
    reduce<float>("float32", bytes, blocks, memory, best);
    reduce<Half>("float16", bytes, blocks, memory, best);
    reduce<Bfloat16>("bfloat16", bytes, blocks, memory, best);
    reduce<Float8e4m3>("float8e4m3", bytes, blocks, memory, best);
    reduce<int8_t>("int8", bytes, blocks, memory, best);
  }
  for (std::byte* each : memory) CURT(cudaFree(each));
}

}  // namespace eccl::gpu
