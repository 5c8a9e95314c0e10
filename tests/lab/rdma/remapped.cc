// A rank whose plain memory goes and comes back at the same address, which a device that still knows the old
// pages would write to; and whose memory, plain or registered, a forked child gets to write to as well, of
// which neither the device nor the parent may see anything. RANK, WORLD_SIZE and ECCL_COMM_ID as of
// examples/launch. Status 0: all results were right.
#include <eccl/eccl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>

namespace {

constexpr size_t kCount = 64 << 10, kBytes = 2 * kCount * sizeof(int);
constexpr int kLives = 5, kCalls = 6, kForksBefore = 4;  // by then it is registered

int* mapAt(int* place) {
  const int fixed = place != nullptr ? MAP_FIXED_NOREPLACE : 0;
  void* const memory = mmap(place, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | fixed, -1, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<int*>(memory);
}

/// Has written to its copy of the memory when this returns, and stays. Why it has not is said: -1.
pid_t forkedWriter(int* memory) {
  int written[2];
  if (pipe(written) != 0) return std::perror("pipe"), -1;
  const pid_t child = fork();
  if (child < 0) return std::perror("fork"), -1;
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (size_t i = 0; i < kBytes / sizeof(int); ++i) memory[i] = -7;
    if (write(written[1], "", 1) == 1) pause();
    _exit(EXIT_FAILURE);
  }
  close(written[1]);
  char byte;
  const bool done = read(written[0], &byte, 1) == 1;
  close(written[0]);
  if (done) return child;
  int status = 0;
  waitpid(child, &status, 0);
  std::fprintf(stderr, "the child could not write to its copy of the memory: status %#x\n", status);
  return -1;
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
    const bool registers = life == kLives - 1, forks = life % 2 == 1 || registers;
    void* handle = nullptr;
    if (registers) {
      if (const auto result = ecclCommRegister(communicator, send, kBytes, &handle); result != ecclSuccess)
        return failed("register", result);
    }
    pid_t child = 0;
    for (int call = 0; call < kCalls; ++call) {
      if (forks && call == kForksBefore && (child = forkedWriter(send)) < 0) return EXIT_FAILURE;
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
    if (child > 0) {
      kill(child, SIGKILL);
      waitpid(child, nullptr, 0);
    }
    if (registers) ecclCommDeregister(communicator, handle);
    munmap(send, kBytes);
  }
  return ecclCommDestroy(communicator) == ecclSuccess ? EXIT_SUCCESS : EXIT_FAILURE;
}
