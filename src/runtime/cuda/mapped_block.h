// Memory of a GPU that other processes can map: CUDA's virtual memory management, with descriptors.
//
// The memory exists as long as anybody has it mapped, so a process that lends some may give it back at any
// time, and the borrower has it until it does the same. To unmap it waits for no stream (perf/results/gpu.md),
// unlike cuMemFree and cuIpcCloseMemHandle: no kernel may use it any more.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "runtime/cuda/gpu.h"
#include "transport/net/fd.h"

namespace eccl::runtime::cuda {

/// A name that nobody else has.
using Name = transport::DescriptorName;
Name newName();

/// One block, at addresses of this process's. Owner: whoever uses it, shared. Any thread. Errors (device): a
/// driver's call failed.
class MappedBlock {
 public:
  /// New memory, not zeroed, in whole pages, of a GPU that has some (Gpu::mappedMemory()). This GPU reaches it;
  /// `peers`: and those of the process that can.
  static Result<std::shared_ptr<MappedBlock>> make(Gpu& gpu, size_t bytes, bool peers);
  /// That of another process, of which a whole number of pages is wanted; this GPU reaches it. Error also: it
  /// has fewer.
  static Result<std::shared_ptr<MappedBlock>> open(Gpu& gpu, const transport::Fd& descriptor, size_t bytes);
  /// No kernel uses it any more, nor its addresses.
  ~MappedBlock();
  MappedBlock(const MappedBlock&) = delete;
  MappedBlock& operator=(const MappedBlock&) = delete;

  Address begin() const { return begin_; }
  size_t bytes() const { return bytes_; }
  /// The name by which other processes ask for it (find()), until it is unmapped.
  Result<Name> share();
  /// All of it as a dma-buf, by which other devices get at it (Gpu::exportsDmabufs()); the caller's. It keeps
  /// the memory.
  Result<transport::Fd> dmabuf() const;
  /// Gives the memory back. Its addresses stay taken until it is destroyed, so that nothing else is found
  /// there.
  Status unmap();
  bool isMapped() const { return mapped_.load(std::memory_order_acquire); }

  /// What share() gave a name to, in this process; the caller's. Error (invalidArgument): there is none.
  static Result<transport::Fd> find(const Name& name);
  /// A kernel that was never seen to end may still use it: it stays as it is, as long as the process.
  static void keep(std::shared_ptr<MappedBlock> block);

 private:
  explicit MappedBlock(Gpu& gpu) : gpu_(gpu) {}
  Status map(size_t bytes);
  void letIn(const std::vector<int>& peers);

  Gpu& gpu_;
  Address begin_ = 0;
  size_t bytes_ = 0;
  std::atomic<bool> mapped_{false};
  std::mutex mutex_;  // of the following
  MemoryHandle handle_ = 0;
  std::optional<Name> name_;
};

}  // namespace eccl::runtime::cuda
