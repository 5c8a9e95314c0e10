// Memory that changes behind a device's back.
#include "transport/verbs/memory_watch.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <thread>

namespace eccl::transport::verbs {
namespace {

using ::testing::HasSubstr;
constexpr size_t kWatched = 64 << 10;

std::byte* map(size_t bytes, int flags = MAP_PRIVATE | MAP_ANONYMOUS, int fd = -1, void* at = nullptr) {
  void* const memory = mmap(at, bytes, PROT_READ | PROT_WRITE, flags, fd, 0);
  EXPECT_NE(memory, MAP_FAILED);
  if (fd < 0) std::memset(memory, 1, bytes);
  return static_cast<std::byte*>(memory);
}

/// Containers may forbid userfaultfd: then everything goes by copies, and there is nothing to test.
#define WATCH_OR_SKIP(watch)                             \
  Result<MemoryWatch*> got = MemoryWatch::ofProcess();   \
  if (!got.ok()) GTEST_SKIP() << got.status().message(); \
  MemoryWatch* const watch = got.take()

TEST(MemoryWatch, SeesEachKindOfChange) {
  WATCH_OR_SKIP(watch);
  using Change = void (*)(std::byte*);
  const std::pair<const char*, Change> changes[] = {
      {"unmapped", [](std::byte* at) { munmap(at, kWatched); }},
      {"a part of it unmapped", [](std::byte* at) { munmap(at + kWatched / 2, kWatched / 4); }},
      {"emptied", [](std::byte* at) { madvise(at + kWatched / 2, 4096, MADV_DONTNEED); }},
      {"moved",
       [](std::byte* at) {
         EXPECT_NE(mremap(at, kWatched, 4 * kWatched, MREMAP_MAYMOVE | MREMAP_FIXED, map(4 * kWatched)),
                   MAP_FAILED);
       }},
      {"mapped anew", [](std::byte* at) { map(kWatched, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, at); }},
  };
  for (const auto& [what, change] : changes) {
    std::byte* const memory = map(3 * kWatched);
    const auto before = watch->watch({memory, kWatched}).take();
    const auto mark = watch->watch({memory + kWatched, kWatched}).take();
    const auto behind = watch->watch({memory + 2 * kWatched, kWatched}).take();
    ASSERT_TRUE(watch->settle());
    EXPECT_FALSE(mark->changed());
    change(memory + kWatched);
    ASSERT_TRUE(watch->settle());
    EXPECT_TRUE(mark->changed()) << what;
    EXPECT_FALSE(before->changed() || behind->changed()) << what;
  }
}

// As a process that writes, reads, forks, and frees what lies in between does.
TEST(MemoryWatch, WhatIsNoChangeIsNone) {
  WATCH_OR_SKIP(watch);
  std::byte* const memory = map(kWatched);
  const auto mark = watch->watch({memory + 100, 1000}).take();  // in the first page
  std::memset(memory, 7, kWatched);
  if (const pid_t child = fork(); child == 0) {
    memory[0] = std::byte{9};
    munmap(memory, kWatched);
    _exit(0);
  } else {
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  munmap(memory + 4096, kWatched - 4096);
  ASSERT_TRUE(watch->settle());
  EXPECT_FALSE(mark->changed());
  EXPECT_EQ(memory[0], std::byte{7});
  munmap(memory, 4096);
  ASSERT_TRUE(watch->settle());
  EXPECT_TRUE(mark->changed());
}

TEST(MemoryWatch, RefusesWhatOthersCanChange) {
  WATCH_OR_SKIP(watch);
  EXPECT_THAT(watch->watch({map(kWatched, MAP_SHARED | MAP_ANONYMOUS), kWatched}).status().message(),
              HasSubstr("others can change it"));
  const int file = memfd_create("eccl-test", MFD_CLOEXEC);
  ASSERT_EQ(ftruncate(file, kWatched), 0);
  EXPECT_FALSE(watch->watch({map(kWatched, MAP_SHARED, file), kWatched}).ok());
  const int program = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
  EXPECT_FALSE(watch->watch({map(4096, MAP_PRIVATE, program), 4096}).ok());
  std::byte* const hole = map(kWatched);
  munmap(hole, kWatched);
  EXPECT_FALSE(watch->watch({hole, kWatched}).ok());
  close(file);
  close(program);
}

// Who has got the address of memory that is being unmapped has to see that it was, also where the thread that
// unmaps it has not come back from that yet.
TEST(MemoryWatch, AChangeUnderWayIsSeen) {
  WATCH_OR_SKIP(watch);
  int seen = 0;
  for (int round = 0; round < 300; ++round) {
    std::byte* const memory = map(kWatched);
    const auto mark = watch->watch({memory, kWatched}).take();
    std::atomic<bool> ended{false};
    std::thread other([&] {
      munmap(memory, kWatched);
      ended = true;
    });
    void* again = MAP_FAILED;
    // Whatever else maps memory in this process may have got the addresses (ThreadSanitizer maps 64 KiB at a
    // time for the stacks it keeps): then there is nothing to wait for.
    for (bool last = false; again == MAP_FAILED && !last;) {
      last = ended;
      again = mmap(memory, kWatched, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE,
                   -1, 0);
    }
    // Either it is known that something is under way, or it shows.
    EXPECT_TRUE(!watch->settle() || mark->changed()) << round;
    other.join();
    if (again == MAP_FAILED) continue;
    munmap(again, kWatched);
    ++seen;
  }
  EXPECT_GT(seen, 0) << "others took the addresses each time";
}

// To unmap takes as long as it takes to read the report, whatever has become of the mark and of the watch.
TEST(MemoryWatch, NobodyWaitsForEver) {
  std::byte* const memory = map(4 * kWatched);
  {
    WATCH_OR_SKIP(watch);
    ASSERT_TRUE(watch->watch({memory, 4 * kWatched}).ok());  // ends at once
    munmap(memory, kWatched);
    std::thread others[4];
    for (std::thread& each : others) {
      each = std::thread([] {
        for (int i = 0; i < 200; ++i) munmap(map(kWatched), kWatched);
      });
    }
    munmap(memory + kWatched, kWatched);
    for (std::thread& each : others) each.join();
  }
  munmap(memory + 2 * kWatched, 2 * kWatched);
}

}  // namespace
}  // namespace eccl::transport::verbs
