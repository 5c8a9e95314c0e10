// Who is held up while a stream waits: other streams, driver calls, other processes.
#include "limits.cuh"

namespace eccl::gpu {
namespace {

__global__ void spin(long long nanoseconds) {
  long long start, now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
  do asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  while (now - start < nanoseconds);
}

}  // namespace

/// Many streams wait for a word each; those that wait hold back others if the hardware puts them in one queue.
void waitingStreams() {
  Pinned words(4096), data(64);
  CUdeviceptr device;
  CU(cuMemAlloc(&device, 64));
  for (size_t number : {1u, 4u, 8u, 16u, 32u, 64u, 128u}) {
    std::vector<CUstream> all;
    for (size_t i = 0; i < number; ++i) {
      words[i] = 0;
      all.push_back(stream());
      CU(cuStreamWaitValue64(all[i], words.at(i), 1, CU_STREAM_WAIT_VALUE_EQ));
    }
    CUstream other = stream();
    std::vector<double> times;
    for (int i = 0; i < 20; ++i) {
      words[500] = 0;
      const auto start = Clock::now();
      CU(cuMemcpyDtoHAsync(data.host, device, 8, other));
      CU(cuStreamWriteValue64(other, words.at(500), 1, 0));
      while (words[500] == 0 && microsecondsSince(start) < 200000) {}
      times.push_back(microsecondsSince(start));
      if (words[500] == 0) break;
    }
    std::printf("  %zu streams wait: a copy in another one takes %.1f us%s\n", number, median(times),
                times.back() > 200000 ? ": HELD BACK" : "");
    for (size_t i = number; i-- > 0;) words[i] = 1;
    for (CUstream each : all) {
      CU(cuStreamSynchronize(each));
      CU(cuStreamDestroy(each));
    }
    CU(cuStreamSynchronize(other));
    CU(cuStreamDestroy(other));
  }
  CU(cuMemFree(device));
}

/// What the driver does not do while a stream waits: whoever is to end the wait must not call it.
void blockedCalls() {
  Pinned words(64);
  CUdeviceptr kept;
  void *hostKept, *pages = mmap(nullptr, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CUstream spare = stream(), waits = stream(), idle = stream();
  CUcontext context;
  CUevent event;
  CU(cuCtxGetCurrent(&context));
  CU(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  CU(cuMemAlloc(&kept, 1 << 20));
  CU(cuMemHostAlloc(&hostKept, 1 << 20, 0));
  const std::pair<const char*, std::function<void()>> calls[] = {
      {"cuPointerGetAttribute",
       [&] {
         unsigned type;
         CU(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, kept));
       }},
      {"cuEventCreate",
       [] {
         CUevent made;
         CU(cuEventCreate(&made, CU_EVENT_DISABLE_TIMING));
       }},
      {"cuEventSynchronize of another stream",
       [&] {
         CU(cuEventRecord(event, idle));
         CU(cuEventSynchronize(event));
       }},
      {"cuStreamCreate", [] { stream(); }},
      {"cuStreamDestroy of another stream", [&] { CU(cuStreamDestroy(spare)); }},
      {"cuMemHostAlloc",
       [] {
         void* made;
         CU(cuMemHostAlloc(&made, 1 << 20, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP));
       }},
      {"cuMemHostRegister", [&] { CU(cuMemHostRegister(pages, 1 << 20, CU_MEMHOSTREGISTER_DEVICEMAP)); }},
      {"cuMemAlloc",
       [] {
         CUdeviceptr made;
         CU(cuMemAlloc(&made, 1 << 20));
       }},
      {"cuMemHostUnregister", [&] { CU(cuMemHostUnregister(pages)); }},
      {"cuMemFreeHost", [&] { CU(cuMemFreeHost(hostKept)); }},
      {"cuMemFree", [&] { CU(cuMemFree(kept)); }},
      {"cuDevicePrimaryCtxRetain", [] {
         CUcontext made;
         CU(cuDevicePrimaryCtxRetain(&made, 0));
       }}};
  for (size_t i = 0; i < std::size(calls); ++i) {
    CU(cuStreamWaitValue64(waits, words.at(0), i + 1, CU_STREAM_WAIT_VALUE_GEQ));
    std::atomic<bool> returned{false};
    std::thread caller([&] {
      CU(cuCtxSetCurrent(context));
      calls[i].second();
      returned = true;
    });
    const auto start = Clock::now();
    while (!returned && microsecondsSince(start) < 300000) {}
    std::printf("  while a stream waits, %s %s %.1f us\n", calls[i].first,
                returned ? "takes" : "BLOCKS, for more than", microsecondsSince(start));
    words[0] = i + 1;
    caller.join();
  }
}

/// Whether a second thread gets into the driver while a first one waits in there for a stream.
void heldDriver() {
  Pinned words(128), data(64);
  CUdeviceptr memory, spare;
  CUcontext context;
  CU(cuCtxGetCurrent(&context));
  CU(cuMemAlloc(&memory, 64));
  CU(cuMemAlloc(&spare, 1 << 20));
  CUstream waits = stream(), other = stream();
  uint64_t released = 0;
  const std::pair<const char*, std::function<void()>> calls[] = {
      {"waits in cuStreamSynchronize", [&] { CU(cuStreamSynchronize(waits)); }},
      {"waits in cuCtxSynchronize", [] { CU(cuCtxSynchronize()); }},
      {"waits in cuMemcpy", [&] { CU(cuMemcpy(memory, memory + 32, 8)); }},
      {"waits in cuMemFree", [&] { CU(cuMemFree(spare)); }},
      {"gives the stream 5000 words more", [&] {
         for (int i = 0; i < 5000; ++i) CU(cuStreamWriteValue64(waits, words.at(8), 1, 0));
       }}};
  for (const auto& [what, call] : calls) {
    CU(cuStreamWaitValue64(waits, words.at(0), ++released, CU_STREAM_WAIT_VALUE_GEQ));
    std::atomic<bool> first{false}, second{false};
    std::thread one([&, call = call] {
      CU(cuCtxSetCurrent(context));
      call();
      first = true;
    });
    usleep(300000);
    const bool waiting = !first;
    std::thread two([&] {
      CU(cuCtxSetCurrent(context));
      CU(cuMemcpyDtoHAsync(data.host, memory, 8, other));
      second = true;
    });
    usleep(300000);
    std::printf("  one thread %s%s: another one's copy in another stream is %s\n", what,
                waiting ? "" : " (it has returned)", second ? "made" : "HELD BACK");
    words[0] = released;
    one.join();
    two.join();
  }
}

/// Two processes on this GPU whose kernels wait for each other, and one that copies while the other computes.
int twoProcesses() {
  void* const shared = mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  auto* const meet = static_cast<std::atomic<int>*>(shared);
  const auto rank = [&](int me) {
    CU(cuInit(0));
    CURT(cudaSetDevice(0));
    CURT(cudaFree(nullptr));
    CU(cuMemHostRegister(shared, 8192, CU_MEMHOSTREGISTER_DEVICEMAP));
    CUdeviceptr device;
    CU(cuMemHostGetDevicePointer(&device, shared, 0));
    auto* const words = reinterpret_cast<uint64_t*>(device + 4096);
    Pinned made(64);
    const auto together = [&](int which) {
      for (++meet[which]; meet[which] < 2;) std::this_thread::yield();
    };
    together(0);
    auto start = Clock::now();
    passAlone<<<1, 1>>>(words + 16 * me, words + 16 * (1 - me), me == 0, 2000,
                        reinterpret_cast<uint64_t*>(made.device));
    CURT(cudaDeviceSynchronize());
    if (me == 0 && made[0] > 0)
      say("a word between kernels of two processes, to and fro",
          microsecondsSince(start) / static_cast<double>(made[0]), "us");
    if (me == 0) say("  so often of 2000, in 3 s at most", static_cast<double>(made[0]), "times");
    together(1);
    if (me == 1) {
      spin<<<264, 256>>>(1500000000);
      CURT(cudaDeviceSynchronize());
    } else {
      CUstream s = stream();
      CUdeviceptr memory;
      CU(cuMemAlloc(&memory, 4096));
      usleep(200000);
      std::vector<double> times;
      for (int i = 0; i < 100; ++i) {
        start = Clock::now();
        CU(cuMemcpyDtoHAsync(made.host, memory, 8, s));
        CU(cuStreamSynchronize(s));
        times.push_back(microsecondsSince(start));
      }
      say("a copy of 8 bytes while another process's kernel computes, median", median(times), "us");
      say("  the longest", *std::max_element(times.begin(), times.end()), "us");
    }
    together(2);
    std::fflush(stdout);
    _exit(0);
  };
  for (int me : {0, 1})
    if (fork() == 0) rank(me);
  int status = 0, failed = 0;
  while (wait(&status) > 0) failed |= status;
  return failed;
}

}  // namespace eccl::gpu
