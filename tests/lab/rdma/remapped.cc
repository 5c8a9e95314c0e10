// A rank whose plain memory goes and comes back at the same address, which a device that still knows the old
// pages would write to. RANK, WORLD_SIZE and ECCL_COMM_ID as of examples/launch. Status 0: all results were
// right.
#include <eccl/eccl.h>
#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>

namespace {

constexpr size_t kCount = 64 << 10, kBytes = 2 * kCount * sizeof(int);
constexpr int kLives = 4, kCalls = 6;

int* mapAt(int* place) {
  const int fixed = place != nullptr ? MAP_FIXED_NOREPLACE : 0;
  void* const memory = mmap(place, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | fixed, -1, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<int*>(memory);
}

int failed(const char* what, ecclResult_t result) {
  std::fprintf(stderr, "%s: %s\n", what, ecclGetErrorString(result));
  return EXIT_FAILURE;
}

}  // namespace

int main() {
  const int rank = std::atoi(std::getenv("RANK")), ranks = std::atoi(std::getenv("WORLD_SIZE"));
  ecclUniqueId id;
  ecclComm_t communicator;
  if (const auto result = ecclGetUniqueId(&id); result != ecclSuccess) return failed("id", result);
  if (const auto result = ecclCommInitRank(&communicator, ranks, id, rank); result != ecclSuccess)
    return failed("init", result);
  int* place = nullptr;
  for (int life = 0; life < kLives; ++life) {
    int* const send = mapAt(place);
    if (send == nullptr || (place != nullptr && send != place)) return std::perror("mmap"), EXIT_FAILURE;
    place = send;
    int* const receive = send + kCount;
    for (int call = 0; call < kCalls; ++call) {
      for (size_t i = 0; i < kCount; ++i) send[i] = static_cast<int>(i) + 1000 * life + call, receive[i] = -1;
      const auto result = ecclAllReduce(send, receive, kCount, ecclInt32, ecclSum, communicator, nullptr);
      if (result != ecclSuccess) return failed("AllReduce", result);
      for (size_t i = 0; i < kCount; ++i) {
        if (receive[i] == ranks * send[i]) continue;
        std::fprintf(stderr, "rank %d, life %d, call %d: element %zu is %d instead of %d\n", rank, life, call,
                     i, receive[i], ranks * send[i]);
        return EXIT_FAILURE;
      }
    }
    munmap(send, kBytes);
  }
  return ecclCommDestroy(communicator) == ecclSuccess ? EXIT_SUCCESS : EXIT_FAILURE;
}
