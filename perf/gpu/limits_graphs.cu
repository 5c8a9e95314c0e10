// Whether streams and graphs that copy and wait for each other all get on, by copy engines and by kernels; and
// how fast these copy.
#include "limits.cuh"

namespace eccl::gpu {
namespace {

enum class By { engine, kernel };

__global__ void copy(uint4* to, const uint4* from, size_t count) {
  const size_t at = blockIdx.x * size_t{blockDim.x} + threadIdx.x, all = size_t{gridDim.x} * blockDim.x;
#pragma unroll 4
  for (size_t i = at; i < count; i += all) to[i] = from[i];
}
void copyBy(By by, CUdeviceptr to, CUdeviceptr from, size_t bytes, unsigned blocks, CUstream in) {
  if (by == By::engine)
    CU(cuMemcpyAsync(to, from, bytes, in));
  else
    copy<<<blocks, 512, 0, in>>>(reinterpret_cast<uint4*>(to), reinterpret_cast<const uint4*>(from),
                                 bytes / sizeof(uint4));
}

/// What a staged call is in a graph: data and a word to the host, a host function, a word to wait for, data
/// back.
struct Call {
  Pinned words{64}, data{4096};
  CUdeviceptr device = 0;
  CUstream own = stream();
  CUgraphExec graph = nullptr;

  Call() { CU(cuMemAlloc(&device, 4096)); }
  ~Call() {
    if (graph != nullptr) CU(cuGraphExecDestroy(graph));
    CU(cuStreamDestroy(own));
    CU(cuMemFree(device));
  }
  uint64_t arrived() { return words[0]; }
  uint64_t calledBack() { return words[2]; }
  void letGo(uint64_t calls) { words[1] = calls; }

  void put(CUstream to, uint64_t number, By by) {
    copyBy(by, data.device, device, 4096, 1, to);
    CU(cuStreamWriteValue64(to, words.at(0), number, 0));
    CU(cuLaunchHostFunc(
        to, [](void* call) { static_cast<Call*>(call)->words[2] = static_cast<Call*>(call)->words[2] + 1; },
        this));
    CU(cuStreamWaitValue64(to, words.at(1), number, CU_STREAM_WAIT_VALUE_GEQ));
    copyBy(by, device, data.device, 4096, 1, to);
  }
  void capture(int calls, By by) {
    CUgraph made;
    CU(cuStreamBeginCapture(own, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    for (int i = 1; i <= calls; ++i) put(own, static_cast<uint64_t>(i), by);
    CU(cuStreamEndCapture(own, &made));
    CU(cuGraphInstantiate(&graph, made, 0));
    CU(cuGraphDestroy(made));
  }
};

/// `number` of them at once, each of `calls`; whoever waits is let go when all have come.
void together(size_t number, int calls, bool inGraph, By by) {
  std::vector<Call> all(number);
  if (inGraph)
    for (Call& each : all) each.capture(calls, by);
  const auto start = Clock::now();
  for (Call& each : all) {
    if (inGraph)
      CU(cuGraphLaunch(each.graph, each.own));
    else
      for (int i = 1; i <= calls; ++i) each.put(each.own, static_cast<uint64_t>(i), by);
  }
  size_t came = 0, told = 0;
  int call = 1;
  for (; call <= calls; ++call) {
    const auto wanted = static_cast<uint64_t>(call);
    for (const auto begin = Clock::now(); microsecondsSince(begin) < 3e5;) {
      came = told = 0;
      for (Call& each : all) came += each.arrived() >= wanted, told += each.calledBack() >= wanted;
      if (came == number && told == number) break;
    }
    if (came < number || told < number) break;
    for (Call& each : all) each.letGo(wanted);
  }
  const double took = microsecondsSince(start);
  const bool through = call > calls;
  for (Call& each : all) each.letGo(static_cast<uint64_t>(calls));
  for (Call& each : all) CU(cuStreamSynchronize(each.own));
  std::printf("  %3zu %s at once, %3d calls each, copies by %s: ", number, inGraph ? "graphs" : "streams",
              calls, by == By::engine ? "engines" : "kernels");
  if (through)
    std::printf("%.1f us\n", took);
  else
    std::printf("STUCK at call %d: %zu of %zu have come, %zu called back\n", call, came, number, told);
}

}  // namespace

void waitingGraphs() {
  for (const By by : {By::engine, By::kernel})
    for (const bool inGraph : {true, false})
      for (unsigned number = 2; number <= 128; number *= 2) together(number, 1, inGraph, by);
}

/// A launch of more than the driver takes at once returns only when the rest has been made; until then the
/// other rank's thread cannot launch. So the first line that is missing is of a graph that is too large.
void largeGraphs() {
  for (const By by : {By::kernel, By::engine})
    for (int calls = 10; calls <= 160; calls += 10) together(2, calls, true, by);
}

/// Between the device and pinned memory, by copy engines and by kernels.
void copiesByKernels() {
  constexpr size_t kMost = 16 << 20;
  const CUstream in = stream();
  Pinned host(kMost);
  CUdeviceptr device;
  CU(cuMemAlloc(&device, kMost));
  std::printf("us and GB/s of copies to the host and back: bytes; engines; kernels of 1, 4, 16, 32 blocks\n");
  for (const size_t bytes : {4096, 65536, 1 << 20, 4 << 20, 16 << 20}) {
    std::printf("  %8zu", bytes);
    for (const unsigned blocks : {0u, 1u, 4u, 16u, 32u}) {
      const By by = blocks == 0 ? By::engine : By::kernel;
      for (const bool toHost : {true, false}) {
        constexpr int kTimes = 40;
        Clock::time_point start;
        for (int i = -4; i < kTimes; ++i) {
          if (i == 0) {
            CU(cuStreamSynchronize(in));
            start = Clock::now();
          }
          copyBy(by, toHost ? host.device : device, toHost ? device : host.device, bytes, blocks, in);
        }
        CU(cuStreamSynchronize(in));
        const double took = microsecondsSince(start) / kTimes;
        std::printf(" %8.1f %5.1f", took, static_cast<double>(bytes) / took / 1e3);
      }
      std::printf(";");
    }
    std::printf("\n");
  }
  CU(cuMemFree(device));
}

}  // namespace eccl::gpu
