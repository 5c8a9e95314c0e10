// What it takes to lend memory to another process, and whether it can be done while a stream waits, or a kernel runs.
#include <sys/socket.h>

#include "limits.cuh"

namespace eccl::gpu {
namespace {

constexpr size_t kBytes = 64 << 20;

/// What the processes tell each other, with room for a descriptor.
struct Message {
  Message(void* words, size_t bytes) : data{words, bytes} {
    header.msg_iov = &data;
    header.msg_iovlen = 1;
    header.msg_control = room;
    header.msg_controllen = sizeof room;
  }
  iovec data;
  alignas(cmsghdr) char room[CMSG_SPACE(sizeof(int))] = {};
  msghdr header{};
};
void tell(int socket, void* words, size_t bytes, int descriptor) {
  Message message(words, bytes);
  cmsghdr* const with = CMSG_FIRSTHDR(&message.header);
  with->cmsg_level = SOL_SOCKET;
  with->cmsg_type = SCM_RIGHTS;
  with->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(with), &descriptor, sizeof(int));
  if (sendmsg(socket, &message.header, 0) < 0) std::perror("sendmsg"), std::exit(1);
}
int hear(int socket, void* words, size_t bytes) {
  Message message(words, bytes);
  if (recvmsg(socket, &message.header, 0) < 0) std::perror("recvmsg"), std::exit(1);
  int descriptor = -1;
  if (const cmsghdr* with = CMSG_FIRSTHDR(&message.header))
    std::memcpy(&descriptor, CMSG_DATA(with), sizeof(int));
  return descriptor;
}

/// What goes on while calls are timed.
enum class Meanwhile { nothing, streamWaits, kernelRuns };

/// Times calls in a thread of their own. What goes on meanwhile is ended after 300 ms.
class Calls {
 public:
  Calls(const char* who, Meanwhile meanwhile)
      : who_(who), meanwhile_(meanwhile), words_(3 * kMost * sizeof(uint64_t)), stream_(stream()) {
    CU(cuCtxGetCurrent(&context_));
  }
  void time(const char* what, const std::function<void()>& call) {
    const size_t word = calls_++ % kMost;
    words_[word] = 0;
    if (meanwhile_ == Meanwhile::streamWaits)
      CU(cuStreamWaitValue64(stream_, words_.at(word), 1, CU_STREAM_WAIT_VALUE_GEQ));
    if (meanwhile_ == Meanwhile::kernelRuns) {
      const auto at = [&](size_t i) { return reinterpret_cast<uint64_t*>(words_.at(i)); };
      passAlone<<<1, 1, 0, stream_>>>(at(kMost + word), at(word), false, 1, at(2 * kMost + word));
      std::this_thread::sleep_for(std::chrono::milliseconds(1));  // it has begun
    }
    std::atomic<double> took{0};
    const auto start = Clock::now();
    std::thread caller([&] {
      CU(cuCtxSetCurrent(context_));
      const auto begin = Clock::now();
      call();
      took = microsecondsSince(begin);
    });
    while (took == 0 && microsecondsSince(start) < 300000) std::this_thread::yield();
    const bool blocks = took == 0;
    words_[word] = 1;
    caller.join();
    CU(cuStreamSynchronize(stream_));
    static constexpr const char* kWhen[] = {"", ", while a stream waits", ", while a kernel runs"};
    std::printf("  %s%s: %-32s %s %8.1f us\n", who_, kWhen[static_cast<int>(meanwhile_)], what,
                blocks ? "BLOCKS" : "takes", took.load());
  }

 private:
  static constexpr size_t kMost = 64;
  const char* const who_;
  const Meanwhile meanwhile_;
  Pinned words_;
  CUstream stream_;
  size_t calls_ = 0;
  CUcontext context_;
};

CUmemAllocationProp lendable() {
  CUmemAllocationProp its{};
  its.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  its.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  its.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  return its;
}

CUdeviceptr mapped(Calls& calls, CUmemGenericAllocationHandle handle) {
  CUdeviceptr address = 0;
  const CUmemAccessDesc access{lendable().location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  calls.time("cuMemAddressReserve", [&] { CU(cuMemAddressReserve(&address, kBytes, 0, 0, 0)); });
  calls.time("cuMemMap", [&] { CU(cuMemMap(address, kBytes, 0, handle, 0)); });
  calls.time("cuMemSetAccess", [&] { CU(cuMemSetAccess(address, kBytes, &access, 1)); });
  return address;
}

void unmapped(Calls& calls, CUdeviceptr address, CUmemGenericAllocationHandle handle) {
  calls.time("cuMemUnmap", [&] { CU(cuMemUnmap(address, kBytes)); });
  calls.time("cuMemRelease", [&] { CU(cuMemRelease(handle)); });
  CU(cuMemAddressFree(address, kBytes));
}

uint64_t wordAt(CUdeviceptr address) {
  uint64_t word = 0;
  CU(cuMemcpyDtoH(&word, address, sizeof word));
  return word;
}

struct Said {
  CUipcMemHandle handle;
  int done;
};

void lend(int socket, Meanwhile meanwhile) {
  Calls calls("lender", meanwhile);
  Said said{};
  // Memory of cuMemAlloc, by a handle; then memory of cuMemCreate, by a descriptor.
  CUdeviceptr memory = 0;
  const uint64_t written = 0x1234;
  calls.time("cuMemAlloc of 64 MiB", [&] { CU(cuMemAlloc(&memory, kBytes)); });
  CU(cuMemcpyHtoD(memory, &written, sizeof written));
  calls.time("cuIpcGetMemHandle", [&] { CU(cuIpcGetMemHandle(&said.handle, memory)); });
  tell(socket, &said, sizeof said, 0);
  hear(socket, &said, sizeof said);
  CU(cuMemFree(memory));
  CUmemGenericAllocationHandle handle = 0;
  const CUmemAllocationProp its = lendable();
  int descriptor = -1;
  calls.time("cuMemCreate of 64 MiB", [&] { CU(cuMemCreate(&handle, kBytes, &its, 0)); });
  const CUdeviceptr address = mapped(calls, handle);
  CU(cuMemcpyHtoD(address, &written, sizeof written));
  calls.time("cuMemExportToShareableHandle", [&] {
    CU(cuMemExportToShareableHandle(&descriptor, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
  });
  calls.time("cuMemRetainAllocationHandle", [&] {
    CUmemGenericAllocationHandle again;
    CU(cuMemRetainAllocationHandle(&again, reinterpret_cast<void*>(address + 4096)));
    CU(cuMemRelease(again));
  });
  tell(socket, &said, sizeof said, descriptor);
  close(descriptor);
  hear(socket, &said, sizeof said);
  unmapped(calls, address, handle);
}

void borrow(int socket, Meanwhile meanwhile) {
  Calls calls("borrower", meanwhile);
  Said said{};
  close(hear(socket, &said, sizeof said));
  CUdeviceptr memory = 0;
  calls.time("cuIpcOpenMemHandle",
             [&] { CU(cuIpcOpenMemHandle(&memory, said.handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)); });
  if (wordAt(memory) != 0x1234) std::printf("  WRONG: what was lent by a handle has other contents\n");
  calls.time("cuIpcCloseMemHandle", [&] { CU(cuIpcCloseMemHandle(memory)); });
  tell(socket, &said, sizeof said, 0);
  const int descriptor = hear(socket, &said, sizeof said);
  CUmemGenericAllocationHandle handle = 0;
  calls.time("cuMemImportFromShareableHandle", [&] {
    CU(cuMemImportFromShareableHandle(&handle, reinterpret_cast<void*>(static_cast<intptr_t>(descriptor)),
                                      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
  });
  close(descriptor);
  const CUdeviceptr address = mapped(calls, handle);
  if (wordAt(address) != 0x1234) std::printf("  WRONG: what was lent by a descriptor has other contents\n");
  unmapped(calls, address, handle);
  tell(socket, &said, sizeof said, 0);
}

}  // namespace

int lentMemory() {
  int failed = 0;
  for (const Meanwhile meanwhile : {Meanwhile::nothing, Meanwhile::streamWaits, Meanwhile::kernelRuns}) {
    int sockets[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sockets) != 0) return 1;
    for (const int me : {0, 1}) {
      if (fork() != 0) continue;
      close(sockets[1 - me]);
      CU(cuInit(0));
      CURT(cudaSetDevice(0));
      CURT(cudaFree(nullptr));
      (me == 0 ? lend : borrow)(sockets[me], meanwhile);
      std::fflush(stdout);
      _exit(0);
    }
    for (const int each : sockets) close(each);
    int status = 0;
    while (wait(&status) > 0) failed |= status;
  }
  return failed;
}

}  // namespace eccl::gpu
