// The memory of another process of this host, read by the kernel (process_vm_readv): plain memory of the user,
// which no mapping shows. Who may read is the kernel's to say: the rights of a debugger, which the same user
// has, unless Yama (kernel.yama.ptrace_scope), seccomp or a container say otherwise.
//
// A process number may be another process's by the time it is used. So each process has a mark, random bytes at
// an address, which is read in the same system call behind the data: only if it is there, the data came from
// the process that told the mark. Forked children do not have it.
#pragma once

#include <sys/types.h>

#include "base/status.h"
#include "base/system.h"
#include "program/remote_reads.h"
#include "transport/core/ring_memory.h"

namespace eccl::transport {

/// Where a process has which random bytes. Address 0: nowhere.
struct ProcessMark {
  uint64_t address = 0;
  Nonce nonce{};
};
/// This process's, made by the first call; a forked child makes its own. Any thread.
ProcessMark markOfThisProcess(System& system = System::real());

/// Whether this byte of this process, and so the mapping it is in, can be read by the kernel. Memory of devices
/// cannot, nor what CUDA has pinned. Any thread.
bool legibleToOthers(const std::byte* memory);

/// Reads one process. Owner: the connection's path. Threads: the driver's.
class ProcessMemory final : public RemoteReads {
 public:
  /// `pid` is the kernel's word, not the peer's: 0 if it is not known. `aside`: kMaxOperands times `slotBytes`.
  ProcessMemory(pid_t pid, const ProcessMark& mark, RingMemory aside, uint32_t slotBytes)
      : pid_(pid), mark_(mark), aside_(std::move(aside)), slotBytes_(slotBytes) {}
  /// Reads the mark. An error (system) says why this does not work and what would help; not logged.
  Status check() const;
  LaneFault read(uint64_t address, std::byte* to, uint32_t length) override;
  std::byte* aside(int source) override {
    return static_cast<std::byte*>(aside_.get()) + static_cast<size_t>(source) * slotBytes_;
  }

 private:
  const pid_t pid_;
  const ProcessMark mark_;
  const RingMemory aside_;
  const uint32_t slotBytes_;
};

}  // namespace eccl::transport
