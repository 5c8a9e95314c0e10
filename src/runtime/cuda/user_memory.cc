#include "runtime/cuda/user_memory.h"

#include "base/log.h"
#include "runtime/cuda/handle_loans.h"

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
  blocks_[address] = {at->first, nullptr};
  free_.erase(at);
  return address;
}

// The driver is asked without the lock, which calls take: it may wait for a stream that waits for a call.
Result<Address> UserMemory::allocate(size_t bytes, LendBy by) {
  const Entered entered(gpu_.driver(), gpu_.context());
  ECCL_TRY(entered.status());
  const bool shared = bytes >= kLeastShared && bytes < SIZE_MAX / 2;
  if (shared && by == LendBy::descriptor && gpu_.mappedMemory()) {
    if (const Address address = allocateMapped(bytes); address != 0) return address;
  }
  if (shared) bytes = inPages(bytes);
  if (const Address address = shared ? takeFree(bytes, 2 * bytes) : 0; address != 0) return address;
  Address address = 0;
  const DriverCode code = gpu_.driver().cuMemAlloc(&address, bytes);
  if (code == kOutOfMemory) address = takeFree(bytes, SIZE_MAX);
  if (address == 0)
    ECCL_TRY(gpu_.driver().check(code, "cuMemAlloc", "of %zu bytes on %s", bytes, gpu_.name().c_str()));
  if (code != kSuccess || !shared) return address;
  std::lock_guard lock(mutex_);
  blocks_[address] = {bytes, nullptr};
  return address;
}

/// 0: it cannot be.
Address UserMemory::allocateMapped(size_t bytes) {
  const Result<std::shared_ptr<MappedBlock>> block = MappedBlock::make(gpu_, bytes, true);
  if (!block.ok()) {
    ECCL_INFO("ecclMemAlloc asks for other memory: %s", block.status().message().c_str());
    return 0;
  }
  std::lock_guard lock(mutex_);
  const Address address = (*block)->begin();
  blocks_[address] = {(*block)->bytes(), *block};
  return address;
}

Status UserMemory::free(Address address) {
  const Entered entered(gpu_.driver(), gpu_.context());
  ECCL_TRY(entered.status());
  {
    std::unique_lock lock(mutex_);
    const auto block = blocks_.extract(address);
    if (block && block.mapped().mapped != nullptr) {
      lock.unlock();
      const Status freed = block.mapped().mapped->unmap();
      ++frees_;
      return freed;
    }
    if (block && lent_.count(address) != 0) return free_.emplace(block.mapped().bytes, address), Status();
  }
  return gpu_.driver().check(gpu_.driver().cuMemFree(address), "cuMemFree", "on %s", gpu_.name().c_str());
}

std::optional<UserMemory::Block> UserMemory::find(Address address) {
  std::lock_guard lock(mutex_);
  const auto after = blocks_.upper_bound(address);
  if (after == blocks_.begin()) return std::nullopt;
  const auto& [begin, block] = *std::prev(after);
  if (address - begin >= block.bytes) return std::nullopt;
  return Block{begin, block.bytes, block.mapped};
}

Result<Ticket> UserMemory::lend(const Block& block) {
  if (block.mapped != nullptr) return ticketOf(*block.mapped);
  if (block.begin % kPage != 0)
    return Status::error(eccl::Code::system, "its block does not begin where a page of the driver's does");
  bool isNew;
  {
    std::lock_guard lock(mutex_);
    isNew = lent_.insert(block.begin).second;  // first: it is not freed any more
  }
  Result<Ticket> ticket = HandleLoans::of(gpu_).ticketOf(block.begin);
  if (!ticket.ok() && isNew) {
    std::lock_guard lock(mutex_);
    lent_.erase(block.begin);
  }
  return ticket;
}

}  // namespace eccl::runtime::cuda
