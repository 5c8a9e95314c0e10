// Whether receivers claim the slots that they read (kernels/reduce.h): they write there, which pages show that
// may only be read.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "support/processes.h"
#include "transport/shm/shm_transport.h"

namespace eccl {
namespace {

struct Pages {
  void* begin;
  size_t bytes;
};
std::vector<Pages> guarded;
volatile sig_atomic_t writes = 0;

void setAccess(int access) {
  for (const Pages& pages : guarded) mprotect(pages.begin, pages.bytes, access);
}
void onWrite(int) {
  writes = writes + 1;
  setAccess(PROT_READ | PROT_WRITE);
}

/// What holds the data of long messages, in all rings of this process. Not the page in which that begins.
void findData(RingShape shape) {
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const uintptr_t before = (transport::shmRing(shape).dataAt() + page - 1) / page * page;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find("eccl-ring") == std::string::npos) continue;
    const uintptr_t begin = std::stoull(line, nullptr, 16) + before,
                    end = std::stoull(line.substr(line.find('-') + 1), nullptr, 16);
    if (begin < end) guarded.push_back({reinterpret_cast<void*>(begin), end - begin});
  }
}

/// How often rank 1 of two writes to the data of its rings while it receives a Broadcast of so many bytes; -1:
/// something failed.
int writesOf(size_t bytes) {
  int found = -1;
  const auto outcomes = test::runProcesses(2, [&](int rank, test::Board& board, std::string& report) {
    setenv("ECCL_TRANSPORT", "shm", 1);
    setenv("ECCL_SLOTS", "8", 1);
    setenv("ECCL_SLOT_BYTES", "65536", 1);
    setenv("ECCL_SLOT_STREAMING", "0", 1);  // what is streamed is not claimed
    setenv("ECCL_SINGLE_COPY", "0", 1);
    ecclComm_t comm = test::join(rank, 2, board, report);
    if (comm == nullptr) return 1;
    std::vector<char> buffer(bytes);
    const auto broadcast = [&](char value) {
      std::fill(buffer.begin(), buffer.end(), static_cast<char>(rank == 0 ? value : 0));
      return ecclBroadcast(buffer.data(), buffer.data(), bytes, ecclInt8, 0, comm, nullptr) == ecclSuccess &&
             buffer.front() == value && buffer.back() == value;
    };
    for (char i = 1; i < 4; ++i)
      if (!broadcast(i)) return 2;
    if (rank == 1) {
      findData({8, 65536});
      struct sigaction action {};
      action.sa_handler = onWrite;
      sigaction(SIGSEGV, &action, nullptr);
      setAccess(PROT_READ);
    }
    const bool good = broadcast(5);
    setAccess(PROT_READ | PROT_WRITE);
    report = std::to_string(writes) + " " + std::to_string(guarded.size());
    if (rank == 1 && guarded.empty()) return 3;
    return ecclCommDestroy(comm) == ecclSuccess && good ? 0 : 4;
  });
  for (const auto& outcome : outcomes) EXPECT_EQ(outcome.code, 0) << outcome.text;
  if (outcomes[1].code == 0) found = std::atoi(outcomes[1].text.c_str());
  return found;
}

TEST(Claims, AreMadeWhileACallIsOneMessage) {
  EXPECT_GE(writesOf(12'000), 1);
}
TEST(Claims, AreMadeWhileAMessageGrows) {
  EXPECT_GE(writesOf(40'000), 1);
}
TEST(Claims, AreMadeOfCallsOfManyMessages) {
  EXPECT_GE(writesOf(1'000'000), 1);
}
TEST(Claims, AreNotMadeOfShortMessages) {
  EXPECT_EQ(writesOf(400), 0);
}

}  // namespace
}  // namespace eccl
