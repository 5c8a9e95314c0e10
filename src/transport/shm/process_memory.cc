#include "transport/shm/process_memory.h"

#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>

namespace eccl::transport {
namespace {

void* at(uint64_t address) {
  return reinterpret_cast<void*>(static_cast<uintptr_t>(address));
}

/// A page of its own, which a forked child finds zeroed.
struct MarkPage {
  enum State : uint32_t { kNone, kBeingMade, kMade };
  uint32_t state;
  Nonce nonce;
};

MarkPage* mapMark() {
  const auto bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  if (madvise(memory, bytes, MADV_WIPEONFORK) == 0) return static_cast<MarkPage*>(memory);
  munmap(memory, bytes);
  return nullptr;
}

}  // namespace

ProcessMark markOfThisProcess(System& system) {
  static MarkPage* const page = mapMark();
  if (page == nullptr) return {};
  uint32_t none = MarkPage::kNone;
  if (__atomic_compare_exchange_n(&page->state, &none, MarkPage::kBeingMade, false, __ATOMIC_ACQUIRE,
                                  __ATOMIC_ACQUIRE)) {
    system.random(page->nonce.data(), page->nonce.size());
    storeRelease(&page->state, uint32_t{MarkPage::kMade});
  }
  while (loadAcquire(&page->state) != MarkPage::kMade) relaxProcessor();
  return {reinterpret_cast<uintptr_t>(page->nonce.data()), page->nonce};
}

bool legibleToOthers(const std::byte* memory) {
  std::byte byte;
  const iovec to{&byte, 1}, from{const_cast<std::byte*>(memory), 1};
  return process_vm_readv(getpid(), &to, 1, &from, 1, 0) == 1;
}

Status ProcessMemory::check() const {
  if (mark_.address == 0)
    return Status::error(Code::system, "the sender's process has no mark to know it by (Linux 4.14 is needed)");
  if (pid_ <= 0) {
    return Status::error(Code::system,
                         "the sender's process has no number here (containers with a common pid "
                         "namespace see each other)");
  }
  Nonce found{};
  const iovec to{found.data(), found.size()}, from{at(mark_.address), found.size()};
  if (process_vm_readv(pid_, &to, 1, &from, 1, 0) == static_cast<ssize_t>(found.size())) {
    if (found == mark_.nonce) return {};
    return Status::error(Code::remote, "process %d is not the sender", pid_);
  }
  const int error = errno;
  return Status::fromErrno(error, "the memory of process %d cannot be read (%s)", pid_,
                           error == EPERM ? "kernel.yama.ptrace_scope is 0 where it can, and containers need "
                                            "CAP_SYS_PTRACE or a seccomp profile that allows process_vm_readv"
                                          : "process_vm_readv");
}

LaneFault ProcessMemory::read(uint64_t address, std::byte* to, uint32_t length) {
  Nonce found;
  const iovec local[2] = {{to, length}, {found.data(), found.size()}};
  const iovec remote[2] = {{at(address), length}, {at(mark_.address), found.size()}};
  const ssize_t got = process_vm_readv(pid_, local, 2, remote, 2, 0);
  if (got == static_cast<ssize_t>(length + found.size()))
    return found == mark_.nonce ? LaneFault::none : LaneFault::poisoned;
  // What cannot be read of a process that is there is the sender's mistake.
  return check().ok() ? LaneFault::window : LaneFault::poisoned;
}

}  // namespace eccl::transport
