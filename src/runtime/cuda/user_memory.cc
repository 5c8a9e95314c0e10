#include "runtime/cuda/user_memory.h"

namespace eccl::runtime::cuda {
namespace {

/// Less is not worth a page of the driver's to itself, which what others can be given has to have.
constexpr size_t kLeastShared = 1 << 20;

}  // namespace

UserMemory& UserMemory::of(Gpu& gpu) {
  static std::mutex mutex;
  static auto* const known = new std::map<Gpu*, UserMemory*>;
  std::lock_guard lock(mutex);
  UserMemory*& its = (*known)[&gpu];
  if (its == nullptr) its = new UserMemory(gpu);
  return *its;
}

Result<Address> UserMemory::allocate(size_t bytes) {
  const bool shared = bytes >= kLeastShared;
  if (shared) bytes = Loans::pages(bytes);
  std::lock_guard lock(mutex_);
  if (const auto at = free_.lower_bound(bytes); shared && at != free_.end() && at->first / 2 <= bytes) {
    const Address address = at->second;
    blocks_[address] = at->first;
    free_.erase(at);
    return address;
  }
  const Entered entered(gpu_.driver(), gpu_.context());
  ECCL_TRY(entered.status());
  Address address = 0;
  ECCL_TRY(gpu_.driver().check(gpu_.driver().cuMemAlloc(&address, bytes), "cuMemAlloc", "of %zu bytes on %s",
                               bytes, gpu_.name().c_str()));
  if (shared) blocks_[address] = bytes;
  return address;
}

Status UserMemory::free(Address address) {
  const Entered entered(gpu_.driver(), gpu_.context());
  ECCL_TRY(entered.status());
  bool lent;
  {
    std::lock_guard lock(mutex_);
    lent = lent_.count(address) != 0;
    if (!lent) blocks_.erase(address);
  }
  if (!lent)
    return gpu_.driver().check(gpu_.driver().cuMemFree(address), "cuMemFree", "on %s", gpu_.name().c_str());
  // As cuMemFree does: calls that use it are over then.
  const DriverCode waited = gpu_.driver().cuCtxSynchronize();
  std::lock_guard lock(mutex_);
  if (const auto block = blocks_.extract(address)) free_.emplace(block.mapped(), address);
  return gpu_.driver().check(waited, "cuCtxSynchronize", "on %s", gpu_.name().c_str());
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
  std::lock_guard lock(mutex_);
  ECCL_ASSIGN(const Ticket ticket, Loans::of(gpu_).ticketOf(block.begin));
  lent_.insert(block.begin);
  return ticket;
}

}  // namespace eccl::runtime::cuda
