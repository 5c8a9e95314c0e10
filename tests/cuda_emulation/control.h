// What tests ask of the emulated CUDA driver beside CUDA's own functions, and those of CUDA's that only tests
// call.
#pragma once

#include <atomic>
#include <cstdint>

#include "runtime/cuda/driver_types.h"

namespace eccl::runtime::cuda {
using GraphExec = struct GraphExecOf*;  // CUgraphExec
}  // namespace eccl::runtime::cuda

namespace eccl::cuda_emulation {

/// What goes wrong, and what went wrong. One for each process. Any thread.
struct Control {
  static constexpr int64_t kNever = INT64_MAX;
  std::atomic<int64_t> calls{0};        ///< so far, of those that may be made to fail: all but texts of errors
  std::atomic<int64_t> failAt{kNever};  ///< the call of this number fails, with an illegal address
  std::atomic<int64_t> violations{0};   ///< uses that a real driver or GPU would not forgive; said on stderr
  std::atomic<int64_t> hostFunctions{0};
  std::atomic<int64_t> pinnedBytes{0}, deviceBytes{0};  ///< taken so far, and given back by nobody
  std::atomic<int64_t> kernels{0};                      ///< that have begun
  std::atomic<int64_t> barriers{0};                     ///< at which a block's threads have met
  /// Rings to a kernel of this process, from one of another, whose last message referred to the sender's
  /// memory; whose last message had been written to its place.
  std::atomic<int64_t> referred{0}, placed{0};
  std::atomic<int> peersReach{1};  ///< whether devices reach each other's memory
  std::atomic<int> lends{1};       ///< whether memory can be lent to other processes by handles
  std::atomic<int> maps{1};        ///< whether there is memory with descriptors
  std::atomic<int> mapsOthers{1};  ///< whether that of other processes can be imported
  std::atomic<int> dmabufs{1};     ///< whether it can be had as dma-bufs
  std::atomic<int> rdmaOrdering{runtime::cuda::kOrderedForOwner};  ///< of what other devices write there
  std::atomic<int64_t> mappedBlocks{
      0};  ///< handles of such memory that were made or imported, and not released
  std::atomic<int> blockThreads{3};
  std::atomic<int> version{runtime::cuda::kOldestDriver};  ///< of the driver, as cuDriverGetVersion() says it
  /// How often the rings of this process have skipped to just before their lines are cleaned next. Changed
  /// while no kernel runs.
  std::atomic<int> advances{0};
};
/// The library's function cuEmulationControl.
using ControlFunction = Control*();

}  // namespace eccl::cuda_emulation

/// As ECCL_CUDA_FUNCTIONS: what tests and programs use, and the module does not.
#define ECCL_CUDA_TEST_FUNCTIONS(F)                                               \
  F(cuCtxSetCurrent, (Context context))                                           \
  F(cuMemFreeHost, (void* memory))                                                \
  F(cuMemcpy, (Address to, Address from, size_t bytes))                           \
  F(cuEventSynchronize, (Event event))                                            \
  F(cuEventElapsedTime, (float* milliseconds, Event from, Event to))              \
  F(cuCtxSynchronize, ())                                                         \
  F(cuStreamQuery, (NativeStream stream))                                         \
  F(cuStreamBeginCapture, (NativeStream stream, int mode))                        \
  F(cuStreamEndCapture, (NativeStream stream, Graph * graph))                     \
  F(cuStreamIsCapturing, (NativeStream stream, int* status))                      \
  F(cuGraphInstantiateWithFlags, (GraphExec * made, Graph graph, uint64_t flags)) \
  F(cuGraphGetNodes, (Graph graph, GraphNode * nodes, size_t * count))            \
  F(cuGraphUpload, (GraphExec graph, NativeStream stream))                        \
  F(cuGraphLaunch, (GraphExec graph, NativeStream stream))                        \
  F(cuGraphExecDestroy, (GraphExec graph))                                        \
  F(cuGraphDestroy, (Graph graph))
