// What a GPU and its driver allow at best, where ECCL's design depends on it: one line for each fact.
//
// Built where nvcc is (target eccl_gpu_limits); run by hand on a machine with a GPU. perf/results/gpu.md has
// the results, and says what they decide. Ends at the first CUDA call that fails, naming it.
#include "limits.cuh"

namespace eccl::gpu {
namespace {

__global__ void nothing() {}
__global__ void passBetweenBlocks(uint64_t* words, uint64_t rounds, uint64_t* made) {
  pass(words + 16 * blockIdx.x, words + 16 * (1 - blockIdx.x), blockIdx.x == 0, rounds, 5000000000,
       made + blockIdx.x);
}

void machine() {
  CUdevice device;
  char name[100];
  int driver = 0;
  CU(cuDeviceGet(&device, 0));
  CU(cuDeviceGetName(name, sizeof name, device));
  CU(cuDriverGetVersion(&driver));
  std::printf("%s, driver for CUDA %d.%d, %u cores\n", name, driver / 1000, driver % 1000 / 10,
              std::thread::hardware_concurrency());
  const std::pair<const char*, CUdevice_attribute> attributes[] = {
      {"64-bit stream memory operations", CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS},
      {"waiting for a NOR", CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR},
      {"remote writes can be flushed", CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES},
      {"copy engines", CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT},
      {"host memory can be registered", CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED},
      {"pageable memory access", CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS},
      {"VMM", CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED},
      {"multiprocessors", CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT},
      {"compute mode", CU_DEVICE_ATTRIBUTE_COMPUTE_MODE}};
  for (const auto& [what, attribute] : attributes) {
    int value = 0;
    CU(cuDeviceGetAttribute(&value, attribute, device));
    say(what, value, "");
  }
}

void launches() {
  CUstream s = stream();
  for (bool waits : {false, true}) {
    for (int warm = 0; warm < 2; ++warm) {
      const auto start = Clock::now();
      for (int i = 0; i < 1000; ++i) {
        nothing<<<1, 32, 0, s>>>();
        if (waits) CU(cuStreamSynchronize(s));
      }
      CU(cuStreamSynchronize(s));
      if (warm == 1)
        say(waits ? "empty launch, waited for" : "empty launch, one of many", microsecondsSince(start) / 1000,
            "us");
    }
  }
}

struct Arguments {
  char bytes[4000];
};
__global__ void withArguments(Arguments) {}

/// What a thread takes to make the driver's calls that a call by lanes is made of, where the stream has work.
void calls() {
  CUstream s = stream();
  CUcontext context;
  CUevent event;
  CU(cuCtxGetCurrent(&context));
  CU(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  CUfunction empty, large;
  CURT(cudaGetFuncBySymbol(&empty, reinterpret_cast<const void*>(nothing)));
  CURT(cudaGetFuncBySymbol(&large, reinterpret_cast<const void*>(withArguments)));
  Arguments bytes{};
  void* arguments[] = {&bytes};
  const auto launch = [&](CUfunction kernel) {
    CU(cuLaunchKernel(kernel, 8, 1, 1, 512, 1, 1, 0, s, kernel == large ? arguments : nullptr, nullptr));
  };
  const auto enter = [&] {
    CUcontext before;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    CU(cuCtxPushCurrent(context));
    CU(cuThreadExchangeStreamCaptureMode(&mode));
    CU(cuThreadExchangeStreamCaptureMode(&mode));
    CU(cuCtxPopCurrent(&before));
  };
  const auto ask = [&] {
    CUstreamCaptureStatus status;
    unsigned flags;
    CU(cuStreamIsCapturing(s, &status));
    CU(cuStreamGetFlags(s, &flags));
  };
  const auto all = [&](CUfunction kernel) {
    enter();
    ask();
    CU(cuStreamWaitEvent(s, event, 0));
    launch(kernel);
    CU(cuEventRecord(event, s));
  };
  const std::pair<const char*, std::function<void()>> ways[] = {
      {"context pushed and popped, mode of capture there and back", enter},
      {"cuStreamIsCapturing and cuStreamGetFlags", ask},
      {"cuEventRecord", [&] { CU(cuEventRecord(event, s)); }},
      {"cuStreamWaitEvent, of the same stream", [&] { CU(cuStreamWaitEvent(s, event, 0)); }},
      {"cuLaunchKernel, 8 blocks, no arguments", [&] { launch(empty); }},
      {"cuLaunchKernel, 8 blocks, 4000 bytes of arguments", [&] { launch(large); }},
      {"all of these, no arguments", [&] { all(empty); }},
      {"all of these, 4000 bytes of arguments", [&] { all(large); }}};
  for (const auto& [what, call] : ways) {
    std::vector<double> made, done;
    for (int round = 0; round < 20; ++round) {
      constexpr int kTimes = 50;  // fewer than a stream takes
      const auto start = Clock::now();
      for (int i = 0; i < kTimes; ++i) call();
      made.push_back(microsecondsSince(start) / kTimes);
      CU(cuStreamSynchronize(s));
      done.push_back(microsecondsSince(start) / kTimes);
    }
    std::printf("  %-60s %6.2f us to make, %6.2f us to do\n", what, median(made), median(done));
  }
}

/// The way over the host and back, n times in one stream: the floor of a staged call. 0: host function to
/// thread; 1: stream write to a thread that spins; 2: the host function writes the word itself.
void overTheHost(int way) {
  constexpr uint64_t kTimes = 500;
  CUstream s = stream();
  Pinned words(64);
  struct Told {
    Word* to;
    uint64_t value;
  };
  std::vector<Told> told(kTimes);
  std::thread host([&] {
    if (way == 2) return;
    for (uint64_t i = 1; i <= kTimes; ++i) {
      while (words[0] < i) {}
      words[4] = i;
    }
  });
  const auto start = Clock::now();
  for (uint64_t i = 1; i <= kTimes; ++i) {
    told[i - 1] = {way == 2 ? &words[4] : &words[0], i};
    if (way == 1)
      CU(cuStreamWriteValue64(s, words.at(0), i, 0));
    else
      CU(cuLaunchHostFunc(
          s, [](void* its) { *static_cast<Told*>(its)->to = static_cast<Told*>(its)->value; }, &told[i - 1]));
    CU(cuStreamWaitValue64(s, words.at(4), i, CU_STREAM_WAIT_VALUE_GEQ));
  }
  CU(cuStreamSynchronize(s));
  const char* const names[] = {"host function, thread, word, stream goes on",
                               "stream write, spinning thread, word, stream goes on",
                               "host function writes the word"};
  say(names[way], microsecondsSince(start) / kTimes, "us");
  host.join();
}

/// From the caller to data in host memory that a spinning thread sees, for small copies, alone.
void smallCopies() {
  CUstream s = stream(), bells = stream();
  Pinned words(64), data(4096);
  CUdeviceptr device;
  CU(cuMemAlloc(&device, 4096));
  CUevent event;
  CU(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  for (int way = 0; way < 5; ++way) {
    std::vector<double> times;
    for (uint64_t i = 1; i <= 300; ++i) {
      words[0] = 0;
      words[1] = 0;
      const auto start = Clock::now();
      if (way != 3) CU(cuMemcpyDtoHAsync(data.host, device, 8, s));
      if (way == 3) CU(cuMemcpyHtoDAsync(device, data.host, 8, s));
      if (way == 0 || way == 3 || way == 4) CU(cuStreamWriteValue64(s, words.at(0), 1, 0));
      if (way == 1) CU(cuEventRecord(event, s));
      if (way == 2)
        CU(cuLaunchHostFunc(
            s, [](void* to) { *static_cast<Word*>(to) = 1; }, const_cast<uint64_t*>(&words[0])));
      if (way == 4) {  // the same, and a bell rung in another stream
        CU(cuEventRecord(event, s));
        CU(cuStreamWaitEvent(bells, event, 0));
        CU(cuLaunchHostFunc(
            bells, [](void* to) { *static_cast<Word*>(to) = 1; }, const_cast<uint64_t*>(&words[1])));
      }
      while (way == 1 ? cuEventQuery(event) != CUDA_SUCCESS : words[way == 4 ? 1 : 0] == 0) {}
      times.push_back(microsecondsSince(start));
      CU(cuStreamSynchronize(s));
    }
    const char* const names[] = {
        "8 bytes to the host, seen by a stream write", "8 bytes to the host, seen by an event query",
        "8 bytes to the host, seen by a host function", "8 bytes to the device, seen by a stream write",
        "8 bytes to the host, a host function behind an event in another stream"};
    say(names[way], median(times), "us");
  }
  CU(cuMemFree(device));
}

void copies() {
  constexpr size_t kMost = 64 << 20;
  CUstream s[2] = {stream(), stream()};
  Pinned host(2 * kMost);
  CUdeviceptr device;
  CU(cuMemAlloc(&device, 2 * kMost));
  std::printf("GB/s of copies: size, to the host, to the device, both at once (each)\n");
  for (size_t bytes = 4096; bytes <= kMost; bytes *= 4) {
    double rates[3];
    for (int way = 0; way < 3; ++way) {
      const size_t times = std::max<size_t>(4, std::min<size_t>(500, (256u << 20) / bytes));
      Clock::time_point start;
      for (int warm = 0; warm < 2; ++warm) {
        start = Clock::now();
        for (size_t i = 0; i < times; ++i) {
          if (way != 1) CU(cuMemcpyDtoHAsync(host.host, device, bytes, s[0]));
          if (way != 0)
            CU(cuMemcpyHtoDAsync(device + kMost, static_cast<char*>(host.host) + kMost, bytes, s[1]));
        }
        for (CUstream each : s) CU(cuStreamSynchronize(each));
      }
      rates[way] = static_cast<double>(bytes * times) / microsecondsSince(start) / 1e3;
    }
    std::printf("  %9zu %8.2f %8.2f %8.2f\n", bytes, rates[0], rates[1], rates[2]);
  }
  CU(cuMemFree(device));
}

void words() {
  constexpr uint64_t kRounds = 20000;
  uint64_t *device, *made;
  CURT(cudaMalloc(&device, 4096));
  Pinned host(4096), result(64);
  made = reinterpret_cast<uint64_t*>(result.device);
  for (bool inHost : {false, true}) {
    CURT(cudaMemset(device, 0, 4096));
    const auto start = Clock::now();
    passBetweenBlocks<<<2, 1>>>(inHost ? reinterpret_cast<uint64_t*>(host.device) : device,
                                inHost ? 2000 : kRounds, made);
    CURT(cudaDeviceSynchronize());
    say(inHost ? "a word to another block and back, in pinned host memory"
               : "a word to another block and back, in device memory",
        microsecondsSince(start) / static_cast<double>(result[0]), "us");
  }
  std::memset(host.host, 0, 4096);
  result[0] = 0;
  auto* const words = reinterpret_cast<uint64_t*>(host.device);
  const auto start = Clock::now();
  passAlone<<<1, 1>>>(words, words + 16, true, 5000, made);
  for (uint64_t i = 1; i <= 5000; ++i) {
    while (host[0] < i && microsecondsSince(start) < 4e6) {}
    host[16] = i;
  }
  CURT(cudaDeviceSynchronize());
  say("a word from a kernel to a host thread and back, pinned host memory",
      microsecondsSince(start) / static_cast<double>(result[0]), "us");
  CURT(cudaFree(device));
}

__global__ void look(const volatile uint64_t* words, uint32_t distance, uint64_t* found) {
  if (words[blockIdx.x * distance] == 1) *found = 1;
}

void polls() {
  Pinned host(64 * 256), found(64);
  CUstream s = stream();
  for (const unsigned blocks : {16u, 66u, 132u}) {
    for (const uint32_t distance : {0u, 8u}) {
      Clock::time_point start;
      constexpr int kTimes = 500;
      for (int i = -10; i < kTimes; ++i) {
        if (i == 0) {
          CU(cuStreamSynchronize(s));
          start = Clock::now();
        }
        look<<<blocks, 1, 0, s>>>(reinterpret_cast<uint64_t*>(host.device), distance,
                                  reinterpret_cast<uint64_t*>(found.device));
      }
      CU(cuStreamSynchronize(s));
      const std::string what =
          std::to_string(blocks) + " blocks that each look at " +
          (distance == 0 ? "one word in host memory" : "a line of their own in host memory");
      say(what.c_str(), microsecondsSince(start) / kTimes, "us");
    }
  }
}

void captured() {
  CUstream s = stream();
  Pinned words(64);
  CU(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  const CUresult write = cuStreamWriteValue64(s, words.at(0), 1, 0),
                 wait = cuStreamWaitValue64(s, words.at(1), 1, 0);
  CUgraph graph = nullptr;
  const CUresult end = cuStreamEndCapture(s, &graph);
  std::printf("captured: write %d, wait %d, end of capture %d (0: possible)\n", write, wait, end);
}

}  // namespace
}  // namespace eccl::gpu

int main(int argc, char** argv) {
  using namespace eccl::gpu;
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  struct Part {
    const char *name, *what;
    void (*measure)();
    bool forks = false;  // first, before it uses CUDA
  };
  static bool right = true;
  static const Part parts[] = {
      {"machine", "the device, and what it says it can", machine},
      {"launches", "empty kernels", launches},
      {"calls", "what the driver's calls for a launch take", calls},
      {"host", "the way from a stream over the host and back",
       [] {
         for (int way : {0, 1, 2}) overTheHost(way);
       }},
      {"small", "copies of 8 bytes, and who sees that they are done", smallCopies},
      {"copies", "bandwidth between host and device by size", copies},
      {"kernels", "the same by kernels", copiesByKernels},
      {"reductions", "two buffers summed, as the lane kernels do", reductions},
      {"words", "words passed between blocks, and between device and host", words},
      {"polls", "blocks that look at words in host memory", polls},
      {"captured", "stream memory operations in a capture", captured},
      {"streams", "many streams that wait", waitingStreams},
      {"graphs", "runs of several graphs that wait for each other", waitingGraphs},
      {"large", "runs of two graphs of many calls that wait for each other", largeGraphs},
      {"blocked", "driver calls while a stream waits", blockedCalls},
      {"held", "a driver call while another thread is in the driver", heldDriver},
      {"lent", "memory lent to another process", [] { right &= lentMemory() == 0; }, true},
      {"processes", "two processes on one GPU", [] { right &= twoProcesses() == 0; }, true}};
  const Part* const part =
      argc != 2 ? nullptr : std::find_if(std::begin(parts), std::end(parts), [&](const Part& each) {
        return std::strcmp(argv[1], each.name) == 0;
      });
  if (part == nullptr || part == std::end(parts)) {
    std::printf("usage: %s PART\nSays what this machine's first GPU allows. The parts:\n", argv[0]);
    for (const Part& each : parts) std::printf("  %-10s %s\n", each.name, each.what);
    return argc == 2 && std::strcmp(argv[1], "--help") == 0 ? 0 : 2;
  }
  if (!part->forks) {
    CU(cuInit(0));
    CURT(cudaSetDevice(0));
    CURT(cudaFree(nullptr));
  }
  part->measure();
  return right ? 0 : 1;
}
