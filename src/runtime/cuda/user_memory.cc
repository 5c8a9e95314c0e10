#include "runtime/cuda/user_memory.h"

namespace eccl::runtime::cuda {
namespace {

/// Less is not worth a page of the driver's to itself, which what others can be shown has to have.
constexpr size_t kLeastShared = 1 << 20;

}  // namespace

UserMemory& UserMemory::of(Gpu& gpu) {
  return onlyOf<UserMemory>(gpu);
}

Address UserMemory::takeFree(size_t least, size_t most) {
  std::lock_guard lock(mutex_);
  const auto at = free_.lower_bound(least);
  if (at == free_.end() || at->first > most) return 0;
  const Address address = at->second;
  blocks_[address] = at->first;
  free_.erase(at);
  return address;
}

// The driver is asked without the lock, which calls take: it may wait for a stream that waits for a call.
Result<Address> UserMemory::allocate(size_t bytes) {
  const bool shared = bytes >= kLeastShared && bytes < SIZE_MAX / 2;
  if (shared) bytes = Loans::pages(bytes);
  if (const Address address = shared ? takeFree(bytes, 2 * bytes) : 0; address != 0) return address;
  const Entered entered(gpu_.driver(), gpu_.context());
  ECCL_TRY(entered.status());
  Address address = 0;
  const DriverCode code = gpu_.driver().cuMemAlloc(&address, bytes);
  if (code == kOutOfMemory) address = takeFree(bytes, SIZE_MAX);
  if (address == 0)
    ECCL_TRY(gpu_.driver().check(code, "cuMemAlloc", "of %zu bytes on %s", bytes, gpu_.name().c_str()));
  if (code != kSuccess || !shared) return address;
  std::lock_guard lock(mutex_);
  blocks_[address] = bytes;
  return address;
}

Status UserMemory::free(Address address) {
  {
    std::lock_guard lock(mutex_);
    const auto block = blocks_.extract(address);
    if (block && lent_.count(address) != 0) return free_.emplace(block.mapped(), address), Status();
  }
  const Entered entered(gpu_.driver(), gpu_.context());
  ECCL_TRY(entered.status());
  return gpu_.driver().check(gpu_.driver().cuMemFree(address), "cuMemFree", "on %s", gpu_.name().c_str());
}

std::optional<UserMemory::Block> UserMemory::find(Address address) {
  std::lock_guard lock(mutex_);
  const auto after = blocks_.upper_bound(address);
  if (after == blocks_.begin()) return std::nullopt;
  const auto& [begin, bytes] = *std::prev(after);
  if (address - begin >= bytes) return std::nullopt;
  return Block{begin, bytes};
}

Result<Ticket> UserMemory::lend(const Block& block) {
  bool isNew;
  {
    std::lock_guard lock(mutex_);
    isNew = lent_.insert(block.begin).second;  // first: it is not freed any more
  }
  Result<Ticket> ticket = Loans::of(gpu_).ticketOf(block.begin);
  if (!ticket.ok() && isNew) {
    std::lock_guard lock(mutex_);
    lent_.erase(block.begin);
  }
  return ticket;
}

}  // namespace eccl::runtime::cuda
