#include "transport/shm/shared_heap.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <vector>

#include "support/sanitizers.h"

namespace eccl {
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
    Result<PeerHeap> first = mapPeerHeap(heap.fd(), window.size), second = mapPeerHeap(heap.fd(), window.size);
    ASSERT_TRUE(first.ok() && second.ok());
    EXPECT_EQ(first->window.base, second->window.base);
    EXPECT_EQ(first->window.at(window.offsetOf(memory))[99], std::byte{7});
  }
  const int passed = dup(heap.fd());
  const uint64_t at = window.offsetOf(memory);
  const pid_t child = fork();
  if (child == 0) {
    // Its own heap is another file, and what it allocates is not its parent's.
    Result<PeerHeap> parents = mapPeerHeap(passed, window.size), again = mapPeerHeap(passed, window.size);
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
  EXPECT_FALSE(mapPeerHeap(pipe, 4096).ok());
  close(pipe);
  const pid_t child = fork();
  if (child == 0) {
    Result<SharedMemory> made = createShared("eccl-test", 8192);
    _exit(!mapPeerHeap(made->fd.get(), 4096).ok() && mapPeerHeap(made->fd.get(), 8192).ok() ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
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
    _exit(size >= 64u << 20 && size < 1u << 30 && allocate(1 << 20) != nullptr ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace eccl
