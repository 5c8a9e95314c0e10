// Whether receivers claim the slots that they read (kernels/reduce.h): they write there, which shows where
// pages may only be read.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "program/claim_choice.h"
#include "support/processes.h"
#include "transport/shm/shm_transport.h"

namespace eccl {
namespace {

struct Pages {
  uintptr_t begin, end;
  bool hold(const void* address) const {
    const auto at = reinterpret_cast<uintptr_t>(address);
    return begin <= at && at < end;
  }
  void allow(int access) const { mprotect(reinterpret_cast<void*>(begin), end - begin, access); }
};

const auto kPage = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
const auto kSlotBytes = static_cast<uint32_t>(std::max<uintptr_t>(32768, 8 * kPage));

// Of one process.
std::vector<Pages> guarded;                           // of its rings
Pages held{};                                         // of the sender's memory
std::atomic<int>*claims = nullptr, *stops = nullptr;  // that both processes see
volatile sig_atomic_t claimedWhileHeld = 0;

void onFault(int, siginfo_t* fault, void*) {
  if (held.hold(fault->si_addr)) {
    stops->fetch_add(1);
    for (int i = 0; i < 20'000 && claims->load() == 0; ++i) usleep(100);
    claimedWhileHeld = claims->load();
    return held.allow(PROT_READ | PROT_WRITE);
  }
  const auto isThere = [&](const Pages& pages) { return pages.hold(fault->si_addr); };
  if (std::none_of(guarded.begin(), guarded.end(), isThere)) _exit(70);
  claims->fetch_add(1);
  for (const Pages& pages : guarded) pages.allow(PROT_READ | PROT_WRITE);
}

/// All rings of this process may only be read, from a place in them on; of that, whole pages.
void guardRings(size_t from) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find("eccl-ring") == std::string::npos) continue;
    const uintptr_t begin = std::stoull(line, nullptr, 16) + (from + kPage - 1) / kPage * kPage,
                    end = std::stoull(line.substr(line.find('-') + 1), nullptr, 16);
    if (begin < end) guarded.push_back({begin, end});
  }
  for (const Pages& pages : guarded) pages.allow(PROT_READ);
}

/// Rank 0 sends rank 1 so many bytes, by a Broadcast or a Send, some times; at the last rank 1 guards its
/// rings, from the slots on or from the data of long messages. `holds`: rank 0 does not get to the end of its
/// memory before something was claimed. How often rank 1 wrote to its rings; -1: something failed.
int writesOf(size_t bytes, bool slots = false, bool sends = false, bool holds = false,
             uint32_t slotBytes = kSlotBytes) {
  const auto outcomes = test::runProcesses(2, [&](int rank, test::Board& board, std::string& report) {
    setenv("ECCL_TRANSPORT", "shm", 1);
    setenv("ECCL_SLOTS", "8", 1);
    setenv("ECCL_SLOT_BYTES", std::to_string(slotBytes).c_str(), 1);
    setenv("ECCL_SLOT_STREAMING", "0", 1);  // what is streamed is not claimed
    setenv("ECCL_SINGLE_COPY", "0", 1);
    claims = &board.counter[7], stops = &board.counter[5];
    struct sigaction action {};
    action.sa_sigaction = onFault;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGSEGV, &action, nullptr);
    ecclComm_t comm = test::join(rank, 2, board, report);
    if (comm == nullptr) return 1;
    const size_t mapped = (bytes + kPage - 1) / kPage * kPage;
    auto* const memory = static_cast<uint8_t*>(
        mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (memory == MAP_FAILED) return 2;
    const auto call = [&](uint8_t value) {
      std::fill_n(memory, bytes, rank == 0 ? value : 0);
      if (rank == 0 && holds && value == 20) {
        const auto end = reinterpret_cast<uintptr_t>(memory) + mapped;
        held = {end - kPage, end};
        held.allow(PROT_NONE);
      }
      const ecclResult_t result = !sends ? ecclBroadcast(memory, memory, bytes, ecclUint8, 0, comm, nullptr)
                                  : rank == 0 ? ecclSend(memory, bytes, ecclUint8, 1, comm, nullptr)
                                              : ecclRecv(memory, bytes, ecclUint8, 0, comm, nullptr);
      if (rank == 0) stops->fetch_add(1);  // whatever became of it: the other waits for it
      return result == ecclSuccess && memory[0] == value && memory[bytes - 1] == value;
    };
    for (uint8_t i = 1; i < 20; ++i)  // so many that the slots are not in a page with other words
      if (!call(i)) return 3;
    const RingShape shape = transport::shmRing({8, slotBytes});
    if (rank == 1) guardRings(slots ? shape.slotsAt() : shape.dataAt());
    if (rank == 1 && guarded.empty()) return 4;
    board.meet(6, 2);
    while (holds && rank == 1 && stops->load() < 20) usleep(100);
    const bool good = call(20);
    for (const Pages& pages : guarded) pages.allow(PROT_READ | PROT_WRITE);
    report = std::to_string(holds ? claimedWhileHeld : claims->load());
    return ecclCommDestroy(comm) == ecclSuccess && good ? 0 : 5;
  });
  for (const auto& outcome : outcomes) EXPECT_EQ(outcome.code, 0) << outcome.text;
  const auto& teller = outcomes[holds ? 0 : 1];
  return teller.code == 0 ? std::atoi(teller.text.c_str()) : -1;
}

TEST(Claims, AreMadeWhereACallIsOneMessage) {
  EXPECT_GE(writesOf(3 * kPage), 1);
}
// Of such as are always claimed.
TEST(Claims, AreMadeInCallsOfManyMessages) {
  constexpr uint32_t kShort = ClaimChoice::kFrom / 2;
  if (kPage > kShort) GTEST_SKIP() << "pages are longer than such messages";
  EXPECT_GE(writesOf(20 * kShort, false, false, false, kShort), 1);
}
// Behind the slots, and in a page of their data that is not the first.
TEST(Claims, AreNotMadeOfShortMessages) {
  EXPECT_EQ(writesOf(256, true), 0);
  EXPECT_GE(writesOf(3 * kPage, true), 1);
}
// A receiver that has lost its processor finds the message when it is whole, so this may take some tries.
TEST(Claims, AreMadeWhileAMessageGrows) {
  int claimed = 0;
  for (int attempt = 0; attempt < 5 && claimed == 0; ++attempt)
    claimed = writesOf(kSlotBytes, false, true, true);
  EXPECT_GE(claimed, 1);
}

}  // namespace
}  // namespace eccl
