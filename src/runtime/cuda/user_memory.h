// Memory of a GPU that users have from ecclMemAlloc.
//
// Blocks that are large enough can be shown to other processes: by descriptor (mapped_block.h), or by handle
// where the GPU has no such memory, or none left, or the user does not want it. What another process was shown
// by handle stays with this one: for the driver to free it would not end what the other one has open, and to
// close that its driver waits for all streams (handle_loans.h). So it is kept for the next ecclMemAlloc.
#pragma once

#include <map>
#include <set>

#include "runtime/cuda/loans.h"

namespace eccl::runtime::cuda {

/// That of one GPU of this process. Owner: the process, for ever. Any thread. Errors (device): a driver's call
/// failed.
class UserMemory {
 public:
  static UserMemory& of(Gpu& gpu);
  explicit UserMemory(Gpu& gpu) : gpu_(gpu) {}

  /// Not zeroed. `by`: how other processes are to be shown it.
  Result<Address> allocate(size_t bytes, LendBy by);
  /// Nothing uses it any more. By handle it waits for all that the GPU does, unless the block was lent.
  Status free(Address address);

  struct Block {
    Address begin = 0;
    size_t bytes = 0;
    std::shared_ptr<MappedBlock> mapped;  // by descriptor
    LendBy by() const { return mapped != nullptr ? LendBy::descriptor : LendBy::handle; }
  };
  /// The block that `address` lies in, if other processes can be shown it.
  std::optional<Block> find(Address address);
  /// By what another process reaches a block: by handle from now on for ever. The GPU's context is current.
  Result<Ticket> lend(const Block& block);
  /// Rises when a block by descriptor is freed.
  uint64_t frees() const { return frees_.load(std::memory_order_acquire); }

 private:
  struct Known {
    size_t bytes;
    std::shared_ptr<MappedBlock> mapped;
  };
  /// A free block of such a size; 0: there is none.
  Address takeFree(size_t least, size_t most);
  Address allocateMapped(size_t bytes);

  Gpu& gpu_;
  std::atomic<uint64_t> frees_{0};
  std::mutex mutex_;
  std::map<Address, Known> blocks_;      // those that others can be shown
  std::set<Address> lent_;               // of those by handle
  std::multimap<size_t, Address> free_;  // of those that are lent, by bytes
};

}  // namespace eccl::runtime::cuda
