// Reading other processes: whose memory it is, and what is said where it cannot be read.
#include "transport/shm/process_memory.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "support/mapped_memory.h"

namespace eccl::transport {
namespace {

constexpr uint32_t kSlotBytes = 4096;

/// A child that does nothing until it is ended.
class Child {
 public:
  Child() : pid_(fork()) {
    if (pid_ != 0) return;
    for (;;) pause();
  }
  ~Child() { end(); }
  pid_t pid() const { return pid_; }
  void end() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

 private:
  pid_t pid_;
};

ProcessMemory reader(pid_t pid, const ProcessMark& mark) {
  return ProcessMemory(pid, mark, mapPrivate(size_t{kMaxOperands} * kSlotBytes).take(), kSlotBytes);
}
uint64_t addressOf(const void* memory) {
  return reinterpret_cast<uintptr_t>(memory);
}

class ReadingProcesses : public ::testing::Test {
  void SetUp() override {
    const std::byte here{};
    errno = 0;
    if (!legibleToOthers(&here) && (errno == EPERM || errno == ENOSYS))
      GTEST_SKIP() << "process_vm_readv is forbidden here (seccomp)";
  }
};

TEST_F(ReadingProcesses, ReadsWhatIsThere) {
  std::vector<std::byte> from(100'000, std::byte{7}), to(100'000);
  ProcessMemory own = reader(getpid(), markOfThisProcess());
  ASSERT_TRUE(own.check().ok()) << own.check().message();
  EXPECT_EQ(own.read(addressOf(from.data()), to.data(), 100'000), LaneFault::none);
  EXPECT_EQ(to, from);
}

// A forked child has all of its parent's memory, but is not the process that has told its mark. Nor is one that
// has got the number of a process that has ended.
TEST_F(ReadingProcesses, IsOfTheProcessThatToldTheMark) {
  const ProcessMark mark = markOfThisProcess();
  Child child;
  ProcessMemory other = reader(child.pid(), mark);
  EXPECT_EQ(other.check().code(), Code::remote) << other.check().message();
  std::byte from[64] = {}, to[64];
  EXPECT_EQ(other.read(addressOf(from), to, 64), LaneFault::poisoned);
}

TEST_F(ReadingProcesses, AForkedChildMakesAMarkOfItsOwn) {
  const ProcessMark mark = markOfThisProcess();
  const pid_t pid = fork();
  if (pid == 0) {
    const ProcessMark own = markOfThisProcess();
    _exit(own.nonce != mark.nonce && reader(getpid(), own).check().ok() ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(pid, &status, 0), pid);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(markOfThisProcess().nonce, mark.nonce);
  EXPECT_TRUE(reader(getpid(), mark).check().ok());
}

TEST_F(ReadingProcesses, NoticesThatTheProcessIsNoMore) {
  // Where the child's mark is, is known by its parent's mapping: the child writes it there itself.
  auto* shared = static_cast<ProcessMark*>(
      mmap(nullptr, sizeof(ProcessMark), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  auto* memory =
      static_cast<std::byte*>(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(static_cast<void*>(shared), MAP_FAILED);
  const pid_t pid = fork();
  if (pid == 0) {
    auto* page = static_cast<std::byte*>(
        mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    ProcessMark mark;
    mark.nonce.fill(9);
    std::memcpy(page, mark.nonce.data(), mark.nonce.size());
    std::memset(memory, 5, 4096);
    mark.address = addressOf(page);
    shared->nonce = mark.nonce;
    __atomic_store_n(&shared->address, mark.address, __ATOMIC_RELEASE);
    for (;;) pause();
  }
  while (__atomic_load_n(&shared->address, __ATOMIC_ACQUIRE) == 0) usleep(1000);
  ProcessMemory child = reader(pid, *shared);
  std::byte to[4096];
  EXPECT_EQ(child.read(addressOf(memory), to, 4096), LaneFault::none);
  EXPECT_EQ(to[4095], std::byte{5});
  kill(pid, SIGKILL);
  waitpid(pid, nullptr, 0);
  EXPECT_EQ(child.read(addressOf(memory), to, 4096), LaneFault::poisoned);
  EXPECT_FALSE(child.check().ok());
  munmap(shared, sizeof(ProcessMark));
  munmap(memory, 4096);
}

TEST_F(ReadingProcesses, WhatTheProcessDoesNotHaveIsItsMistake) {
  void* nothing = mmap(nullptr, 8192, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_EQ(mprotect(static_cast<std::byte*>(nothing) + 4096, 4096, PROT_NONE), 0);
  ProcessMemory own = reader(getpid(), markOfThisProcess());
  std::vector<std::byte> to(8192);
  EXPECT_EQ(own.read(addressOf(nothing), to.data(), 4096), LaneFault::none);
  for (const auto& [address, length] :
       {std::pair{addressOf(nothing), 4097u}, std::pair{addressOf(nothing) + 4096, 1u},
        std::pair{uint64_t{0}, 1u}, std::pair{uint64_t{1} << 62, 64u}, std::pair{~kInProcess, 64u}}) {
    EXPECT_EQ(own.read(address, to.data(), length), LaneFault::window) << address;
  }
  munmap(nothing, 8192);
}

TEST_F(ReadingProcesses, SaysWhyItCannotRead) {
  EXPECT_NE(reader(0, markOfThisProcess()).check().message().find("pid namespace"), std::string::npos);
  EXPECT_NE(reader(getpid(), ProcessMark()).check().message().find("no mark"), std::string::npos);
  ProcessMark wrong = markOfThisProcess();
  wrong.nonce[3] = static_cast<uint8_t>(wrong.nonce[3] + 1);
  EXPECT_EQ(reader(getpid(), wrong).check().code(), Code::remote);
  wrong.address = 64;
  EXPECT_NE(reader(getpid(), wrong).check().message().find(std::to_string(getpid())), std::string::npos);
  Child ended;
  const pid_t pid = ended.pid();
  ended.end();
  EXPECT_EQ(reader(pid, markOfThisProcess()).check().code(), Code::system);
}

TEST_F(ReadingProcesses, LegibleIsWhatTheKernelCanRead) {
  const std::byte here{};
  EXPECT_TRUE(legibleToOthers(&here));
  void* nothing = mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  EXPECT_FALSE(legibleToOthers(static_cast<std::byte*>(nothing)));
  munmap(nothing, 4096);
  const auto* clock = static_cast<const std::byte*>(test::beginOfMapping("[vvar]"));
  ASSERT_NE(clock, nullptr);
  EXPECT_FALSE(legibleToOthers(clock));
}

}  // namespace
}  // namespace eccl::transport
