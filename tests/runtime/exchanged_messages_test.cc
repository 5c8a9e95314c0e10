// Registered messages of some KiB: copied where ranks send to each other, read where they are where they do
// not.

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <vector>

#include "support/processes.h"

namespace eccl {
namespace {

constexpr size_t kBytes = 8192;

std::byte* messageSent = nullptr;
volatile sig_atomic_t readBySender = 0;

/// What is sent was looked at by its sender's process.
void onRead(int, siginfo_t* info, void*) {
  const auto at = reinterpret_cast<uintptr_t>(info->si_addr), begin = reinterpret_cast<uintptr_t>(messageSent);
  if (messageSent == nullptr || at < begin || at >= begin + kBytes) _exit(70);
  readBySender = 1;
  mprotect(messageSent, kBytes, PROT_READ | PROT_WRITE);
}

/// Rank 0 sends registered memory, which rank 1 takes a while later, so that it offers nothing. After each
/// message rank 1 sends one back, if `answers`. Of the messages, the last ones: how many rank 0 read itself.
int copiedOf(int last, bool answers) {
  constexpr int kMessages = 30;
  const auto outcomes = test::runProcesses(2, [&](int rank, test::Board& board, std::string& report) {
    setenv("ECCL_TRANSPORT", "shm", 1);
    ecclComm_t comm = test::join(rank, 2, board, report);
    if (comm == nullptr) return 101;
    void* memory[2];
    for (void*& each : memory)
      if (ecclMemAlloc(&each, 1 << 20) != ecclSuccess) return 102;
    auto* const out = static_cast<std::byte*>(memory[0]);
    auto* const in = static_cast<std::byte*>(memory[1]);
    if (reinterpret_cast<uintptr_t>(out) % kBytes != 0) return 103;
    struct sigaction action {};
    action.sa_sigaction = onRead;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGSEGV, &action, nullptr);
    messageSent = out;
    int copied = 0;
    const auto pass = [&](int from) {
      return rank == from ? ecclSend(out, kBytes, ecclUint8, 1 - rank, comm, nullptr)
                          : ecclRecv(in, kBytes, ecclUint8, 1 - rank, comm, nullptr);
    };
    for (int i = 0; i < kMessages; ++i) {
      std::memset(out, i + rank, kBytes);
      if (rank == 0) {
        readBySender = 0;
        mprotect(out, kBytes, PROT_NONE);
        board.counter[6].store(i + 1);
      } else {
        while (board.counter[6].load() <= i) usleep(100);
        usleep(3000);
      }
      if (pass(0) != ecclSuccess) return 104;
      if (rank == 0) {
        mprotect(out, kBytes, PROT_READ | PROT_WRITE);
        copied += i >= kMessages - last && readBySender != 0;
      } else if (in[0] != std::byte(i) || in[kBytes - 1] != std::byte(i)) {
        return 105;
      }
      if (!answers) continue;
      if (pass(1) != ecclSuccess) return 106;
      if (rank == 0 && (in[0] != std::byte(i + 1) || in[kBytes - 1] != std::byte(i + 1))) return 107;
    }
    return ecclCommDestroy(comm) == ecclSuccess ? copied : 108;
  });
  EXPECT_EQ(outcomes[1].code, 0) << outcomes[1].text;
  EXPECT_LE(outcomes[0].code, last) << outcomes[0].text;
  return outcomes[0].code;
}

// The service thread, or a machine that is busy, may have some of them made another way.
TEST(ExchangedMessages, AreCopiedWhereAreasComeBack) {
  if (sysconf(_SC_PAGESIZE) > static_cast<long>(kBytes)) GTEST_SKIP() << "pages are longer than the message";
  EXPECT_EQ(copiedOf(20, true), 20);
}

TEST(ExchangedMessages, AreReadInPlaceWhereNoneComesBack) {
  if (sysconf(_SC_PAGESIZE) > static_cast<long>(kBytes)) GTEST_SKIP() << "pages are longer than the message";
  EXPECT_EQ(copiedOf(20, false), 0);
}

}  // namespace
}  // namespace eccl
