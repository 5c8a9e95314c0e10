#include "transport/shm/shared_heap.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "support/sanitizers.h"

namespace eccl::transport {
namespace {

std::byte* allocate(size_t bytes) {
  Result<void*> memory = SharedHeap::ofThisProcess().allocate(bytes);
  EXPECT_TRUE(memory.ok()) << memory.status().message();
  return memory.ok() ? static_cast<std::byte*>(*memory) : nullptr;
}
void release(void* memory) {
  EXPECT_TRUE(SharedHeap::ofThisProcess().free(memory).ok());
}

TEST(SharedHeap, GivesZeroedPagesInItsWindow) {
  const Window window = SharedHeap::ofThisProcess().window();
  std::vector<std::byte*> memory;
  for (size_t bytes : {0, 1, 4096, 4097, 1 << 20}) {
    memory.push_back(allocate(bytes));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory.back()) % 4096, 0u);
    EXPECT_TRUE(window.holds(window.offsetOf(memory.back()), bytes));
    for (size_t i = 0; i < bytes; ++i) ASSERT_EQ(memory.back()[i], std::byte{0});
    std::memset(memory.back(), 0xff, bytes);
  }
  for (std::byte* each : memory) release(each);
  std::byte* again = allocate(1 << 20);  // the same pages
  for (size_t i = 0; i < 1 << 20; ++i) ASSERT_EQ(again[i], std::byte{0});
  release(again);
}

// Freed in any order, neighbours become one: else the heap would end up in pieces.
TEST(SharedHeap, WhatWasFreedCanBeHadInOnePiece) {
  constexpr size_t kPiece = 1 << 20;
  const int orders[][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
  for (const auto& order : orders) {
    std::byte* piece[3];
    for (auto& each : piece) each = allocate(kPiece);
    std::byte* behind = allocate(1);
    for (int i : order) release(piece[i]);
    std::byte* whole = allocate(3 * kPiece);
    EXPECT_EQ(whole, piece[0]);
    release(whole);
    release(behind);
  }
}

TEST(SharedHeap, RefusesWhatItCannotGiveAndWhatItDidNot) {
  SharedHeap& heap = SharedHeap::ofThisProcess();
  for (size_t bytes : {SIZE_MAX, SIZE_MAX - 4096, static_cast<size_t>(heap.window().size) + 1}) {
    Result<void*> refused = heap.allocate(bytes);
    ASSERT_FALSE(refused.ok());
    EXPECT_THAT(refused.status().message(), ::testing::HasSubstr("ulimit -v"));
  }
  int local;
  EXPECT_FALSE(heap.free(&local).ok());
  std::byte* memory = allocate(8192);
  EXPECT_FALSE(heap.free(memory + 4096).ok());
  release(memory);
  EXPECT_FALSE(heap.free(memory).ok());
}

TEST(SharedHeap, IsMappedOnceByItsPeers) {
  SharedHeap& heap = SharedHeap::ofThisProcess();
  const Window window = heap.window();
  std::byte* memory = allocate(100);
  memory[99] = std::byte{7};
  {
    Result<PeerHeap> first = mapPeerHeap(heap.fd(), window.size, 0),
                     second = mapPeerHeap(heap.fd(), window.size, 0);
    ASSERT_TRUE(first.ok() && second.ok());
    EXPECT_EQ(first->window.base, second->window.base);
    EXPECT_EQ(first->window.at(window.offsetOf(memory))[99], std::byte{7});
  }
  const int passed = dup(heap.fd());
  const uint64_t at = window.offsetOf(memory);
  const pid_t child = fork();
  if (child == 0) {
    // Its own heap is another file, and what it allocates is not its parent's.
    Result<PeerHeap> parents = mapPeerHeap(passed, window.size, 0), again = mapPeerHeap(passed, window.size, 0);
    const bool mapped = parents.ok() && again.ok() && parents->window.base == again->window.base &&
                        parents->window.base != window.base && parents->window.at(at)[99] == std::byte{7};
    std::byte* mine = allocate(100);
    mine[99] = std::byte{8};
    const bool apart =
        mine[99] == std::byte{8} && memory[99] == std::byte{7} && parents->window.at(at)[99] == std::byte{7};
    parents->window.at(at)[98] = std::byte{6};
    _exit(mapped && apart && !SharedHeap::ofThisProcess().free(memory).ok() ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(memory[98], std::byte{6});
  EXPECT_EQ(memory[99], std::byte{7});
  close(passed);
  release(memory);
}

TEST(SharedHeap, APeersFileMustBeWhatItSays) {
  const int pipe = ::dup(0);
  EXPECT_FALSE(mapPeerHeap(pipe, 4096, 0).ok());
  close(pipe);
  const pid_t child = fork();
  if (child == 0) {
    Result<SharedMemory> made = createShared("eccl-test", 8192);
    _exit(!mapPeerHeap(made->fd.get(), 4096, 0).ok() && mapPeerHeap(made->fd.get(), 8192, 0).ok() ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

constexpr uint64_t kMiB = uint64_t{1} << 20, kGiB = kMiB << 10, kTiB = kGiB << 10;

/// A heap of another process, sealed as such are, without memory but what is written.
Fd heapOf(uint64_t bytes) {
  Fd file(memfd_create("eccl-test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  EXPECT_EQ(ftruncate(file.get(), static_cast<off_t>(bytes)), 0);
  EXPECT_EQ(fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 0);
  return file;
}

// Heaps of 256 ranks of a host with 8 TiB of memory would take 4 PiB of the 128 TiB there are.
TEST(SharedHeap, HugeOnesOfManyPeersAreMappedAsFarAsTheyAreUsed) {
  std::vector<PeerHeap> heaps;
  for (int i = 0; i < 256; ++i) {
    const Fd file = heapOf(16 * kTiB);
    Result<PeerHeap> heap = mapPeerHeap(file.get(), 16 * kTiB, (i % 3) * kGiB / 2);
    ASSERT_TRUE(heap.ok()) << heap.status().message();
    EXPECT_EQ(heap->window.size, i % 3 == 0 ? 64 * kMiB : (i % 3) * kGiB / 2);
    heaps.push_back(heap.take());
  }
  for (PeerHeap& heap : heaps) heap.extend(2 * kGiB);
  for (PeerHeap& heap : heaps) EXPECT_EQ(heap.window.size, 2 * kGiB);
}

TEST(SharedHeap, APeersIsMappedFurtherWithoutItsDescriptor) {
  const uint64_t total = 3 * kGiB;
  Fd file = heapOf(total);
  PeerHeap one = mapPeerHeap(file.get(), total, 1).take(), other = mapPeerHeap(file.get(), total, 1).take();
  EXPECT_EQ(one.window.base, other.window.base);
  EXPECT_FALSE(mapPeerHeap(file.get(), kTiB, 1).ok()) << "it is mapped already, and smaller";
  const std::byte far{42};
  ASSERT_EQ(pwrite(file.get(), &far, 1, static_cast<off_t>(kGiB)), 1);
  file.reset();
  *one.window.at(100) = std::byte{7};
  one.extend(64 * kMiB);  // is there
  EXPECT_EQ(one.window.base, other.window.base);
  one.extend(2 * kGiB);
  EXPECT_EQ(one.window.size, total);  // rather all than two thirds
  EXPECT_EQ(*one.window.at(kGiB), far);
  EXPECT_EQ(*one.window.at(100), std::byte{7});
  EXPECT_EQ(other.window.size, 64 * kMiB);  // what the other connection uses stays where it is
  *other.window.at(101) = std::byte{8};
  EXPECT_EQ(*one.window.at(101), std::byte{8});
  other.extend(total);
  EXPECT_EQ(other.window.base, one.window.base);
  other.extend(UINT64_MAX);  // nonsense of the peer
  EXPECT_EQ(other.window.size, total);
}

TEST(SharedHeap, WithoutRoomAPeersStaysAsItIs) {
  if (kSanitized) GTEST_SKIP() << "sanitizers need more address space than any limit leaves";
  const Fd file = heapOf(kTiB);
  const pid_t child = fork();
  if (child == 0) {
    PeerHeap heap = mapPeerHeap(file.get(), kTiB, 1).take();
    const rlimit limit{kGiB, kGiB};
    setrlimit(RLIMIT_AS, &limit);
    heap.extend(kTiB);
    *heap.window.at(5) = std::byte{1};
    _exit(heap.window.size == 64 * kMiB ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(SharedHeap, LeavesMostOfTheAddressSpaceToOthers) {
  EXPECT_LE(SharedHeap::ofThisProcess().window().size, 16 * kTiB);
}

TEST(SharedHeap, IsSmallerUnderALimit) {
  if (kSanitized) GTEST_SKIP() << "sanitizers need more address space than any limit leaves";
  const Window inherited = SharedHeap::ofThisProcess().window();
  const pid_t child = fork();
  if (child == 0) {
    munmap(inherited.base, inherited.size);
    const rlimit limit{rlim_t{1} << 30, rlim_t{1} << 30};
    setrlimit(RLIMIT_AS, &limit);
    const uint64_t size = SharedHeap::ofThisProcess().window().size;
    _exit(size >= 64u << 20 && size <= 1u << 28 && allocate(1 << 20) != nullptr ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

/// Bytes of the heap's mappings in this process that core dumps have.
uint64_t dumpedBytes() {
  std::ifstream maps("/proc/self/smaps");
  uint64_t bytes = 0, size = 0;
  bool isHeap = false;
  for (std::string line; std::getline(maps, line);) {
    unsigned long long begin, end;
    if (std::sscanf(line.c_str(), "%llx-%llx ", &begin, &end) == 2) {
      isHeap = line.find("memfd:eccl-heap") != std::string::npos;
      size = end - begin;
    }
    if (isHeap && line.rfind("VmFlags:", 0) == 0 && line.find(" dd") == std::string::npos) bytes += size;
  }
  return bytes;
}

// The kernel makes all pages of a mapped file that it dumps, for all who have it.
TEST(SharedHeap, CoreDumpsHaveWhatIsUsedAlone) {
  SharedHeap::ofThisProcess().window();
  const uint64_t before = dumpedBytes();
  EXPECT_LT(before, kGiB);
  void* const memory = allocate(3 * kMiB);
  EXPECT_EQ(dumpedBytes(), before + 3 * kMiB);
  PeerHeap heap =
      mapPeerHeap(SharedHeap::ofThisProcess().fd(), SharedHeap::ofThisProcess().window().size, 1).take();
  heap.extend(kGiB);
  EXPECT_EQ(dumpedBytes(), before + 3 * kMiB) << "peers' are dumped";
  release(memory);
  EXPECT_EQ(dumpedBytes(), before);
}

// A signal would end the process.
TEST(SharedHeap, IsSmallerWhereFilesAreLimited) {
  const pid_t child = fork();
  if (child == 0) {
    const rlimit limit{100u << 20, RLIM_INFINITY};
    setrlimit(RLIMIT_FSIZE, &limit);
    const uint64_t size = SharedHeap::ofThisProcess().window().size;
    const std::string said = createShared("test", 101u << 20).status().message();
    _exit(size >= 64u << 20 && size <= 100u << 20 && said.find("ulimit -f") != std::string::npos ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace eccl::transport
