#include "runtime/cuda/loans.h"

#include <map>

namespace eccl::runtime::cuda {
namespace {

/// Loans are multiples of this: what is smaller shares a page of the driver's with other memory, which a
/// borrower would reach, too.
constexpr size_t kPage = 2 << 20;

size_t pages(size_t bytes) {
  return (bytes + kPage - 1) / kPage * kPage;
}

}  // namespace

Loans& Loans::of(Gpu& gpu) {
  static std::mutex mutex;
  static auto* const known = new std::map<Gpu*, Loans*>;
  std::lock_guard lock(mutex);
  Loans*& loans = (*known)[&gpu];
  if (loans == nullptr) loans = new Loans(gpu);
  return *loans;
}

Result<Loan> Loans::lend(size_t bytes) {
  bytes = pages(Loan::kHeader + bytes);
  std::lock_guard lock(mutex_);
  for (auto at = ended_.begin(); at != ended_.end(); ++at) {
    uint64_t givenBack = 0;
    if (at->bytes != bytes) continue;
    ECCL_TRY(gpu_.download(&givenBack, at->memory, sizeof givenBack));
    if (givenBack == 0) continue;
    // By way of the memory that the GPU keeps, which is zeroed when it is taken.
    gpu_.giveBack(at->memory, bytes);
    ended_.erase(at);
    break;
  }
  Loan loan;
  loan.bytes = bytes;
  ECCL_ASSIGN(loan.memory, gpu_.take(bytes));
  ECCL_TRY(gpu_.driver().check(gpu_.driver().cuIpcGetMemHandle(&loan.handle, loan.memory), "cuIpcGetMemHandle",
                               "of %zu bytes on %s", bytes, gpu_.name().c_str()));
  return loan;
}

void Loans::end(const Loan& loan) {
  std::lock_guard lock(mutex_);
  ended_.push_back(loan);
}

Result<Address> Loans::open(const IpcHandle& handle) {
  Address memory = 0;
  ECCL_TRY(gpu_.driver().check(gpu_.driver().cuIpcOpenMemHandle(&memory, handle, kLazyPeerAccess),
                               "cuIpcOpenMemHandle", "of another process's memory on %s", gpu_.name().c_str()));
  return memory;
}

Result<Address> Loans::borrow(const IpcHandle& handle) {
  ECCL_ASSIGN(const Address memory, open(handle));
  return memory + Loan::kHeader;
}

/// Whoever cannot be told keeps the memory lent.
void Loans::giveBack(Address data) {
  constexpr uint64_t kGivenBack = 1;
  gpu_.upload(data - Loan::kHeader, &kGivenBack, sizeof kGivenBack).ignore();
  gpu_.driver().cuIpcCloseMemHandle(data - Loan::kHeader);
}

Result<Loans::Door> Loans::door(const Name& name) {
  {
    std::lock_guard lock(mutex_);
    if (door_) return *door_;
  }
  ECCL_ASSIGN(const Loan loan, lend(name.size()));
  ECCL_TRY(gpu_.upload(loan.data(), name.data(), name.size()));
  std::lock_guard lock(mutex_);
  if (!door_) door_ = {loan.handle, name};
  return *door_;
}

Status Loans::tryDoor(const Door& door) {
  std::lock_guard lock(mutex_);
  if (tried_.count(door.name) != 0) return {};
  if (door.name == Name{}) return Status::error(Code::system, "that process cannot lend any");
  ECCL_ASSIGN(const Address memory, open(door.handle));
  Name found{};
  const Status read = gpu_.download(found.data(), memory + Loan::kHeader, found.size());
  gpu_.driver().cuIpcCloseMemHandle(memory);
  ECCL_TRY(read);
  if (found != door.name)
    return Status::error(Code::system,
                         "another process's memory, reached from %s, holds other bytes than were put there",
                         gpu_.name().c_str());
  tried_.insert(door.name);
  return {};
}

}  // namespace eccl::runtime::cuda
