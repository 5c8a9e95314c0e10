// What the parts of gpu_limits have in common.
#pragma once

#include <cuda.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "base/atomics.h"

namespace eccl::gpu {

#define CU(call)                                                            \
  do {                                                                      \
    if (CUresult code = (call); code != CUDA_SUCCESS) {                     \
      const char* name = nullptr;                                           \
      cuGetErrorName(code, &name);                                          \
      std::printf("line %d: %s: %s\n", __LINE__, #call, name ? name : "?"); \
      std::exit(1);                                                         \
    }                                                                       \
  } while (false)
#define CURT(call) CU(static_cast<CUresult>(call))  // of the runtime: launches; most codes are the driver's

using Clock = std::chrono::steady_clock;
inline double microsecondsSince(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}
inline double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}
inline void say(const char* what, double value, const char* unit) {
  std::printf("%-72s %10.2f %s\n", what, value, unit);
}

using Word = volatile uint64_t;

/// Pinned host memory, zeroed, and where the device finds it.
struct Pinned {
  explicit Pinned(size_t bytes) {
    CU(cuMemHostAlloc(&host, bytes, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP));
    CU(cuMemHostGetDevicePointer(&device, host, 0));
    std::memset(host, 0, bytes);
  }
  ~Pinned() { cuMemFreeHost(host); }
  Word& operator[](size_t i) { return static_cast<uint64_t*>(host)[i]; }
  CUdeviceptr at(size_t i) const { return device + 8 * i; }
  void* host = nullptr;
  CUdeviceptr device = 0;
};
inline CUstream stream() {
  CUstream made;
  CU(cuStreamCreate(&made, CU_STREAM_NON_BLOCKING));
  return made;
}

// limits_waits.cu
void waitingStreams();
void blockedCalls();
void heldDriver();
/// 0: all went well. No CUDA call may have been made before: it forks.
int twoProcesses();
// limits_graphs.cu
void waitingGraphs();
void largeGraphs();
void copiesByKernels();
// limits_reduce.cu
void reductions();
// limits_lent.cu
/// 0: all went well. No CUDA call may have been made before: it forks.
int lentMemory();
/// One side of a word passed to and fro. Ends after `limit` nanoseconds; *made: how often it went round.
inline __device__ void pass(uint64_t* mine, uint64_t* theirs, bool first, uint64_t rounds, long long limit,
                            uint64_t* made) {
  long long start, now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
  for (uint64_t i = 1; i <= rounds; ++i) {
    if (first) eccl::storeRelease(mine, i);
    while (eccl::loadAcquire(theirs) < i) {
      asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
      if (now - start > limit) return;
    }
    if (!first) eccl::storeRelease(mine, i);
    *made = i;
  }
}
static __global__ void passAlone(uint64_t* mine, uint64_t* theirs, bool first, uint64_t rounds,
                                 uint64_t* made) {
  pass(mine, theirs, first, rounds, 3000000000, made);
}

}  // namespace eccl::gpu
