// Memory of a GPU that users have from ecclMemAlloc.
//
// What another process was shown stays with this one: for the driver to free it would not end what the
// other one has open, and to close that its driver waits for all streams (loans.h). So it is kept for the next
// ecclMemAlloc.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <set>

#include "runtime/cuda/loans.h"

namespace eccl::runtime::cuda {

/// That of one GPU of this process. Owner: the process, for ever. Any thread. Errors (device): a driver's call
/// failed.
class UserMemory {
 public:
  static UserMemory& of(Gpu& gpu);
  explicit UserMemory(Gpu& gpu) : gpu_(gpu) {}

  /// Not zeroed.
  Result<Address> allocate(size_t bytes);
  /// Waits for all that the GPU does, unless the block was lent.
  Status free(Address address);

  struct Block {
    Address begin = 0;
    size_t bytes = 0;
  };
  /// The block that `address` lies in, if other processes can be shown it.
  std::optional<Block> find(Address address);
  /// By what another process reaches a block, from now on for ever. The GPU's context is current.
  Result<Ticket> lend(const Block& block);

 private:
  /// A free block of such a size; 0: there is none.
  Address takeFree(size_t least, size_t most);

  Gpu& gpu_;
  std::mutex mutex_;
  std::map<Address, size_t> blocks_;  // those that others can be shown
  std::set<Address> lent_;
  std::multimap<size_t, Address> free_;  // of those that are lent, by bytes
};

}  // namespace eccl::runtime::cuda
