// Calls made again and again, which skip what has been done before.

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <vector>

#include "runtime/execution/fast_path.h"
#include "support/processes.h"

namespace eccl::runtime {
namespace {

/// How many calls of this process's log took the fast path.
int fastCallsIn(const std::string& file) {
  std::ifstream in(file);
  int count = 0;
  for (std::string line; std::getline(in, line);) count += line.find(", fast path") != std::string::npos;
  return count;
}

using CallFunction = std::function<ecclResult_t(ecclComm_t, float*, float*)>;

constexpr int kCalls = 20;

/// kCalls by each of some ranks; how many took the fast path, of each.
std::vector<int> fastOnes(const char* transport, const CallFunction& call, int ranks = 2) {
  const std::string folder = std::filesystem::temp_directory_path() / ("eccl-fast-" + std::to_string(getpid()));
  std::filesystem::create_directory(folder);
  auto outcomes = test::runProcesses(ranks, [&](int rank, test::Board& board, std::string& report) {
    const std::string file = folder + "/" + std::to_string(rank);
    setenv("ECCL_TRANSPORT", transport, 1);
    setenv("ECCL_DEBUG", "TRACE", 1);
    setenv("ECCL_DEBUG_FILE", file.c_str(), 1);
    ecclComm_t comm = test::join(rank, ranks, board, report);
    if (comm == nullptr) return 99;
    std::vector<float> in(1 << 20, 1), out(1 << 20);
    for (int i = 0; i < kCalls; ++i) {
      if (call(comm, in.data(), out.data()) != ecclSuccess) return 98;
    }
    ecclCommDestroy(comm);
    return fastCallsIn(file);
  });
  std::filesystem::remove_all(folder);
  std::vector<int> fast;
  for (const auto& outcome : outcomes) {
    EXPECT_TRUE(outcome.ended) << outcome.text;
    fast.push_back(outcome.code);
  }
  return fast;
}

CallFunction allReduce(size_t count) {
  return [=](ecclComm_t comm, float* in, float* out) {
    return ecclAllReduce(in, out, count, ecclFloat, ecclSum, comm, nullptr);
  };
}

ecclResult_t sendAndReceive(ecclComm_t comm, float* in, float* out) {
  int rank = 0;
  ecclCommUserRank(comm, &rank);
  if (rank == 0) return ecclSend(in, 10, ecclFloat, 1, comm, nullptr);
  return ecclRecv(out, 10, ecclFloat, 0, comm, nullptr);
}

// A peer waits on the same processor, and needs turns of it: to go on as a Run takes longer.
TEST(FastLooks, WhoYieldsInsteadOfSpinningIsNotOverSooner) {
  FastLooks looks({.spins = true, .queued = false}, FastLooks::At::memory, System::real());
  while (!looks.count()) looks.rest(nullptr);
  looks.yieldFromNowOn();
  for (int i = 0; i < 100; ++i) {
    ASSERT_FALSE(looks.over()) << i;
    looks.rest(nullptr);
    looks.count();
  }
  for (int i = 0; i < 2000 && !looks.over(); ++i) looks.count();
  EXPECT_TRUE(looks.over());
}

TEST(FastPath, AreThoseLikeCallsBefore) {
  // The first makes the connections, the second prepares. One that comes while the service thread is at work,
  // as it is now and then on a busy machine, waits for it like any other.
  for (const CallFunction& call : {allReduce(2), allReduce(20000), CallFunction(sendAndReceive)})
    for (int number : fastOnes("shm", call)) {
      EXPECT_GE(number, kCalls / 2);
      EXPECT_LE(number, kCalls - 2);
    }
}

// Over TCP a message may wake the service thread of a rank that is late: that call goes the way of all others.
ecclResult_t sendThere(ecclComm_t comm, float* in, float* out, int first) {
  int rank = 0;
  ecclCommUserRank(comm, &rank);
  for (int turn : {0, 1}) {
    const ecclResult_t result = turn == (rank ^ first) ? ecclSend(in, 10, ecclFloat, 1 - rank, comm, nullptr)
                                                       : ecclRecv(out, 10, ecclFloat, 1 - rank, comm, nullptr);
    if (result != ecclSuccess) return result;
  }
  return ecclSuccess;
}

// Each of several shapes keeps its place.
TEST(FastPath, AreThoseOfSeveralShapesInTurn) {
  const CallFunction call = [](ecclComm_t comm, float* in, float* out) {
    for (size_t count : {1, 2, 3, 100}) {
      if (const ecclResult_t result = allReduce(count)(comm, in, out); result != ecclSuccess) return result;
    }
    return sendThere(comm, in, out, 0);
  };
  for (int number : fastOnes("shm", call)) EXPECT_GE(number, 6 * kCalls / 2);
}

// Over sockets too; a call that is not complete at once goes on in the stream.
TEST(FastPath, AreQueuedOnes) {
  for (const char* transport : {"shm", "tcp"}) {
    const CallFunction call = [](ecclComm_t comm, float* in, float* out) {
      static ecclStream_t stream = nullptr;
      if (stream == nullptr && ecclStreamCreate(&stream) != ecclSuccess) return ecclInternalError;
      const ecclResult_t result = ecclAllReduce(in, out, 2, ecclFloat, ecclSum, comm, stream);
      return result != ecclSuccess ? result : ecclStreamSynchronize(stream);
    };
    for (int number : fastOnes(transport, call)) EXPECT_GT(number, transport[0] == 's' ? kCalls / 4 : 0);
  }
}

TEST(FastPath, AreSendsAndReceivesOfAGroup) {
  constexpr int kEach = 5;
  const CallFunction call = [](ecclComm_t comm, float* in, float* out) {
    int rank = 0;
    ecclCommUserRank(comm, &rank);
    ecclGroupStart();
    for (size_t i = 0; i < kEach; ++i) {
      ecclSend(in + i, 1, ecclFloat, 1 - rank, comm, nullptr);
      ecclRecv(out + i, 1, ecclFloat, 1 - rank, comm, nullptr);
    }
    return ecclGroupEnd();
  };
  for (int number : fastOnes("shm", call)) EXPECT_GE(number, 2 * kEach * kCalls / 2);
}

TEST(FastPath, AreThoseOverFewSockets) {
  for (int number : fastOnes("tcp", allReduce(2))) EXPECT_GT(number, 0);
}

/// The calls that took the fast path to their end, by the log: all that took it but those that went on as a
/// Run.
std::set<int> wholeOnesIn(const std::string& file) {
  std::ifstream in(file);
  std::set<int> whole;
  for (std::string line; std::getline(in, line);) {
    const size_t at = line.find("number ");
    if (at == std::string::npos) continue;
    const int number = std::stoi(line.substr(at + 7));
    if (line.find(", fast path") != std::string::npos) whole.insert(number);
    if (line.find("goes on as a Run") != std::string::npos) whole.erase(number);
  }
  return whole;
}

/// Of 3000 AllReduces of 64 KiB over TCP by direct, those that took the fast path to their end on both ranks.
ptrdiff_t wholeOnesOfBoth() {
  const std::string folder =
      std::filesystem::temp_directory_path() / ("eccl-whole-" + std::to_string(getpid()));
  std::filesystem::create_directory(folder);
  const auto fileOf = [&](int rank) { return folder + "/" + std::to_string(rank); };
  auto outcomes = test::runProcesses(2, [&](int rank, test::Board& board, std::string& report) {
    setenv("ECCL_ALGO", "AllReduce:direct", 1);
    setenv("ECCL_CHANNELS", "1", 1);
    setenv("ECCL_TRANSPORT", "tcp", 1);
    setenv("ECCL_DEBUG", "TRACE", 1);
    setenv("ECCL_DEBUG_FILE", fileOf(rank).c_str(), 1);
    ecclComm_t comm = test::join(rank, 2, board, report);
    if (comm == nullptr) return 99;
    std::vector<float> in(16384, 1), out(16384);
    for (int i = 0; i < 3000; ++i) {
      if (allReduce(in.size())(comm, in.data(), out.data()) != ecclSuccess) return 98;
    }
    return ecclCommDestroy(comm) == ecclSuccess ? 0 : 97;
  });
  for (const auto& outcome : outcomes) EXPECT_EQ(outcome.code, 0) << outcome.text;
  const std::set<int> one = wholeOnesIn(fileOf(0)), other = wholeOnesIn(fileOf(1));
  std::filesystem::remove_all(folder);
  return std::count_if(one.begin(), one.end(), [&](int number) { return other.count(number) > 0; });
}

// Both send 32 KiB from the user's memory, and each waits until the other says that it was read. If both waited
// first, one of them would give the fast path up in each call, but for a few. On a busy machine the service
// thread may be at work in nearly all calls of a communicator, so it is tried with several.
TEST(FastPath, TellsWhatWasReadBeforeItWaitsForTheOthersToTell) {
  constexpr ptrdiff_t kMany = 100;
  ptrdiff_t most = 0;
  for (int i = 0; i < 10 && most < kMany; ++i) most = std::max(most, wholeOnesOfBoth());
  EXPECT_GE(most, kMany);
}

TEST(FastPath, AreNoneOfSeveralTilesOrOverManySockets) {
  EXPECT_EQ(fastOnes("shm", allReduce(1 << 20)), std::vector<int>(2, 0));
  setenv("ECCL_ALGO", "AllReduce:direct", 1);
  EXPECT_EQ(fastOnes("tcp", allReduce(2), 4), std::vector<int>(4, 0));
}

TEST(FastPath, AreCheckedLikeOthers) {
  auto outcomes = test::runProcesses(2, [](int rank, test::Board& board, std::string& report) {
    ecclComm_t comm = test::join(rank, 2, board, report);
    if (comm == nullptr) return 2;
    std::vector<float> in(16, 1), out(16);
    for (int i = 0; i < 3; ++i) {
      if (ecclAlltoAll(in.data(), out.data(), 8, ecclFloat, comm, nullptr) != ecclSuccess) return 3;
    }
    if (ecclAlltoAll(nullptr, out.data(), 8, ecclFloat, comm, nullptr) != ecclInvalidArgument) return 4;
    if (ecclAlltoAll(in.data(), nullptr, 8, ecclFloat, comm, nullptr) != ecclInvalidArgument) return 5;
    if (ecclAlltoAll(in.data(), in.data(), 8, ecclFloat, comm, nullptr) != ecclInvalidArgument) return 6;
    // Refused calls have no number: the others do not wait for them.
    if (ecclAlltoAll(in.data(), out.data(), 8, ecclFloat, comm, nullptr) != ecclSuccess) return 7;
    return ecclCommDestroy(comm) == ecclSuccess ? 0 : 8;
  });
  for (auto& outcome : outcomes) EXPECT_EQ(outcome.code, 0) << outcome.text;
}

// Short messages of every length, to one receiver and to several, arrive as they are and nowhere else.
TEST(FastPath, BringsEveryLength) {
  constexpr int kRanks = 3;
  constexpr size_t kMost = 1100, kGuard = 64;
  auto outcomes = test::runProcesses(kRanks, [](int rank, test::Board& board, std::string& report) {
    setenv("ECCL_TRANSPORT", "shm", 1);
    ecclComm_t comm = test::join(rank, kRanks, board, report);
    if (comm == nullptr) return 2;
    std::vector<uint8_t> in(kMost), out(kMost + 2 * kGuard);
    for (size_t length = 1; length <= kMost; length += length < 150 ? 1 : 13) {
      for (int time = 0; time < 4; ++time) {
        for (size_t i = 0; i < length; ++i)
          in[i] = static_cast<uint8_t>(length * 7 + i * 3 + static_cast<size_t>(time));
        std::fill(out.begin(), out.end(), 0xee);
        uint8_t* const to = out.data() + kGuard;
        const ecclResult_t result = time % 2 == 0
                                        ? ecclBroadcast(in.data(), to, length, ecclUint8, 0, comm, nullptr)
                                    : rank == 0 ? ecclSend(in.data(), length, ecclUint8, 1, comm, nullptr)
                                    : rank == 1 ? ecclRecv(to, length, ecclUint8, 0, comm, nullptr)
                                                : ecclSuccess;
        if (result != ecclSuccess) return 3;
        const bool gets = time % 2 == 0 || rank == 1;
        for (size_t i = 0; i < out.size(); ++i) {
          const bool inside = gets && i >= kGuard && i < kGuard + length;
          if (out[i] == (inside ? in[i - kGuard] : 0xee)) continue;
          report = "length " + std::to_string(length) + ", byte " + std::to_string(i);
          return 4;
        }
      }
    }
    return ecclCommDestroy(comm) == ecclSuccess ? 0 : 5;
  });
  for (auto& outcome : outcomes) EXPECT_EQ(outcome.code, 0) << outcome.text;
}

// Messages of some KiB, which go in slots from memory that no peer sees, and in place else. Which memory a call
// has is not known when it is prepared: it changes from call to call, on each side.
TEST(FastPath, BringsMessagesOfSomeKiBWhateverMemoryEachSideHas) {
  constexpr size_t kLengths[] = {4096, 6000, 8192, 12'000, kReadFrom - 4, kReadFrom, 20'000};
  constexpr int kTimes = 16;
  const auto outcomes = test::runProcesses(2, [&](int rank, test::Board& board, std::string& report) {
    setenv("ECCL_TRANSPORT", "shm", 1);
    ecclComm_t comm = test::join(rank, 2, board, report);
    if (comm == nullptr) return 2;
    constexpr size_t kMost = 2 * 20'000;
    std::vector<uint8_t> plain[2] = {std::vector<uint8_t>(kMost), std::vector<uint8_t>(kMost)};
    void* shown[2] = {};
    for (void*& each : shown)
      if (ecclMemAlloc(&each, kMost) != ecclSuccess) return 3;
    const auto valueOf = [](int of, int time, size_t i) {
      return static_cast<uint8_t>(i * 3 + i / 251 + static_cast<size_t>(of) * 101 +
                                  static_cast<size_t>(time) * 7);
    };
    for (const size_t length : kLengths) {
      for (int time = 0; time < kTimes; ++time) {
        const int kind = rank == 0 ? time % 4 : time / 4;
        auto* const in = (kind & 1) != 0 ? static_cast<uint8_t*>(shown[0]) : plain[0].data();
        auto* const out = (kind & 2) != 0 ? static_cast<uint8_t*>(shown[1]) : plain[1].data();
        const auto call = [&](int which) {
          switch (which) {
            case 0:
              return ecclBroadcast(in, out, length, ecclUint8, 0, comm, nullptr);
            case 1:
              return rank == 0 ? ecclSend(in, length, ecclUint8, 1, comm, nullptr)
                               : ecclRecv(out, length, ecclUint8, 0, comm, nullptr);
            case 2:
              return ecclAllGather(in, out, length, ecclUint8, comm, nullptr);
            default:
              return ecclAllReduce(in, out, length, ecclUint8, ecclSum, comm, nullptr);
          }
        };
        for (int which = 0; which < 4; ++which) {
          for (size_t i = 0; i < length; ++i) in[i] = valueOf(rank, time, i);
          std::memset(out, 0xee, kMost);
          if (call(which) != ecclSuccess) return report += ecclGetLastError(comm), 4;
          const size_t bytes = which == 1 && rank == 0 ? 0 : which == 2 ? 2 * length : length;
          for (size_t i = 0; i < kMost; ++i) {
            const uint8_t zero = valueOf(0, time, i % length), one = valueOf(1, time, i % length);
            const uint8_t wanted = i >= bytes    ? 0xee
                                   : which == 3  ? static_cast<uint8_t>(zero + one)
                                   : i >= length ? one
                                                 : zero;
            if (out[i] == wanted) continue;
            report += format("call %d of %zu bytes, time %d: byte %zu", which, length, time, i);
            return 5;
          }
        }
      }
    }
    for (void* each : shown) ecclMemFree(each);
    return ecclCommDestroy(comm) == ecclSuccess ? 0 : 6;
  });
  for (const auto& outcome : outcomes) EXPECT_EQ(outcome.code, 0) << outcome.text;
}

const auto kPage = static_cast<size_t>(sysconf(_SC_PAGESIZE));

/// What arrives while its sender, which has come to memory that it must not touch yet, does not go on.
struct HeldBack {
  uint8_t* last = nullptr;               // page of what is sent
  volatile const uint8_t* to = nullptr;  // of the other process
  std::atomic<int>* begun = nullptr;
  bool arrived = false;
} heldBack;

void goOnWhenSomethingHasArrived(int, siginfo_t* info, void*) {
  const auto at = reinterpret_cast<uintptr_t>(info->si_addr), last = reinterpret_cast<uintptr_t>(heldBack.last);
  if (heldBack.last == nullptr || at < last || at >= last + kPage) _exit(70);
  ++*heldBack.begun;
  for (int i = 0; i < 300 && !heldBack.arrived; ++i, usleep(1000)) heldBack.arrived = *heldBack.to != 0;
  mprotect(heldBack.last, kPage, PROT_READ | PROT_WRITE);
}

// The receiver takes what there is of a message while its sender writes the rest: else the sender would wait
// for nothing. A call may miss the fast path where the service thread is at work, so one of some is enough.
void takesWhatThereIs(size_t bytes, bool broadcast) {
  auto* const shared =
      static_cast<uint8_t*>(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  const auto outcomes = test::runProcesses(2, [&](int rank, test::Board& board, std::string& report) {
    setenv("ECCL_TRANSPORT", "shm", 1);
    setenv("ECCL_SINGLE_COPY", "0", 1);
    setenv("ECCL_SLOT_STREAMING", "0", 1);
    ecclComm_t comm = test::join(rank, 2, board, report);
    if (comm == nullptr) return 2;
    auto* const in =
        static_cast<uint8_t*>(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    std::memset(in, 1, bytes);
    const size_t half = broadcast ? bytes / 2 : 0;  // a Broadcast may be two messages
    heldBack = {in + bytes - kPage, shared + half, &board.counter[7]};
    struct sigaction action {};
    action.sa_sigaction = goOnWhenSomethingHasArrived;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGSEGV, &action, nullptr);
    const auto call = [&] {
      if (broadcast) return ecclBroadcast(in, rank == 0 ? in : shared, bytes, ecclUint8, 0, comm, nullptr);
      return rank == 0 ? ecclSend(in, bytes, ecclUint8, 1, comm, nullptr)
                       : ecclRecv(shared, bytes, ecclUint8, 0, comm, nullptr);
    };
    for (int i = 0; i < kCalls; ++i)
      if (call() != ecclSuccess) return 3;
    auto meet = [&, meetings = 0]() mutable {
      ++board.counter[6];
      for (++meetings; board.counter[6] < 2 * meetings;) usleep(100);
    };
    for (int attempt = 1; attempt <= 5; ++attempt) {
      if (rank == 1) std::memset(shared, 0, bytes);
      meet();
      if (rank == 0) mprotect(heldBack.last, kPage, PROT_NONE);
      while (rank == 1 && board.counter[7] < attempt) usleep(100);  // until the sender is in the middle of it
      if (call() != ecclSuccess) return 4;
      for (size_t i = 0; rank == 1 && i < bytes; ++i)
        if (shared[i] != 1) return 5;
      meet();
    }
    if (ecclCommDestroy(comm) != ecclSuccess) return 6;
    return rank == 1 || heldBack.arrived ? 0 : 7;
  });
  munmap(shared, bytes);
  for (const auto& outcome : outcomes) EXPECT_EQ(outcome.code, 0) << outcome.text;
}

TEST(FastPath, TakesWhatThereIsOfALongMessage) {
  takesWhatThereIs(1 << 17, false);
  if (kPage <= 8192) takesWhatThereIs(1 << 15, true);  // it grows by 8 KiB
}

// Long ones too, however late one of the two is, alone and in groups, and whether its slots are streamed.
TEST(FastPath, BringsLongMessages) {
  for (const char* streamFrom : {"0", "1024", "-1"}) {
    const auto outcomes = test::runProcesses(2, [&](int rank, test::Board& board, std::string& report) {
      setenv("ECCL_TRANSPORT", "shm", 1);
      setenv("ECCL_SINGLE_COPY", "0", 1);
      setenv("ECCL_SLOT_STREAMING", streamFrom, 1);
      ecclComm_t comm = test::join(rank, 2, board, report);
      if (comm == nullptr) return 2;
      std::vector<uint32_t> in(1 << 16), out(in.size() + 2), back(in.size());
      for (const size_t count : {4096u, 4097u, 10'000u, 16'384u, 33'333u, 1u << 16}) {
        for (uint32_t time = 0; time < 16; ++time) {
          for (size_t i = 0; i < count; ++i) in[i] = static_cast<uint32_t>(i * 3 + time * 77 + count);
          std::fill(out.begin(), out.end(), 0xeeeeeeee);
          if (time % 4 == static_cast<uint32_t>(rank)) usleep(200 * (time % 3));
          const bool grouped = time % 8 >= 4;
          ecclResult_t result = ecclSuccess;
          if (grouped) ecclGroupStart();
          for (const int turn : {0, 1}) {
            const ecclResult_t one = turn == rank
                                         ? ecclSend(in.data(), count, ecclUint32, 1 - rank, comm, nullptr)
                                         : ecclRecv(out.data() + 1, count, ecclUint32, 1 - rank, comm, nullptr);
            if (one != ecclSuccess) result = one;
          }
          if (grouped) result = ecclGroupEnd();
          if (result == ecclSuccess)
            result = ecclBroadcast(in.data(), back.data(), count, ecclUint32, 0, comm, nullptr);
          if (result != ecclSuccess) return 3;
          if (!std::equal(in.begin(), in.begin() + static_cast<ptrdiff_t>(count), out.begin() + 1) ||
              !std::equal(in.begin(), in.begin() + static_cast<ptrdiff_t>(count), back.begin()) ||
              out[0] != 0xeeeeeeee || out[count + 1] != 0xeeeeeeee) {
            report = "count " + std::to_string(count) + ", time " + std::to_string(time);
            return 4;
          }
        }
      }
      // A message of another length than is wanted.
      board.meet(1, 2);
      const ecclResult_t result = rank == 0 ? ecclSend(in.data(), 4096, ecclUint32, 1, comm, nullptr)
                                            : ecclRecv(out.data(), 10'000, ecclUint32, 0, comm, nullptr);
      if (rank == 1 && result == ecclSuccess) return 5;
      board.meet(2, 2);
      ecclCommAbort(comm);
      return 0;
    });
    for (const auto& outcome : outcomes) EXPECT_EQ(outcome.code, 0) << outcome.text;
  }
}

// A rank that sleeps in a call is woken by short ones: without, each round took the 100 ms after which a
// sleeper looks by itself.
TEST(FastPath, WakesThoseWhoSleep) {
  constexpr int kRounds = 40;
  auto outcomes = test::runProcesses(2, [&](int rank, test::Board& board, std::string& report) {
    setenv("ECCL_TRANSPORT", "shm", 1);
    ecclComm_t comm = test::join(rank, 2, board, report);
    if (comm == nullptr) return 2;
    float in = 1, out = 0;
    const auto begun = std::chrono::steady_clock::now();
    for (int i = 0; i < kRounds; ++i) {
      if (rank == i % 2) usleep(3000);
      if (ecclAllReduce(&in, &out, 1, ecclFloat, ecclSum, comm, nullptr) != ecclSuccess || out != 2) return 3;
    }
    const auto took = std::chrono::steady_clock::now() - begun;
    if (took > kRounds * std::chrono::milliseconds(50)) return 4;
    return ecclCommDestroy(comm) == ecclSuccess ? 0 : 5;
  });
  for (auto& outcome : outcomes) EXPECT_EQ(outcome.code, 0) << outcome.text;
}

// A datatype that is none is refused, also where its lowest byte is that of calls before.
TEST(FastPath, LooksAtTheWholeDatatype) {
  auto outcomes = test::runProcesses(2, [](int rank, test::Board& board, std::string& report) {
    ecclComm_t comm = test::join(rank, 2, board, report);
    if (comm == nullptr) return 2;
    char in = 1, out = 0;
    const auto sum = [&](int type) {
      return ecclAllReduce(&in, &out, 1, static_cast<ecclDataType_t>(type), ecclSum, comm, nullptr);
    };
    for (int i = 0; i < 3; ++i)
      if (sum(ecclInt8) != ecclSuccess) return 3;
    for (int type : {256 + ecclInt8, -256 + ecclInt8, -1, static_cast<int>(ecclNumTypes)})
      if (sum(type) != ecclInvalidArgument) return 4;
    return sum(ecclInt8) == ecclSuccess && ecclCommDestroy(comm) == ecclSuccess ? 0 : 5;
  });
  for (auto& outcome : outcomes) EXPECT_EQ(outcome.code, 0) << outcome.text;
}

}  // namespace
}  // namespace eccl::runtime
