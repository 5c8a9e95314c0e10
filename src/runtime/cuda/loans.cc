#include "runtime/cuda/loans.h"

#include "base/system.h"

namespace eccl::runtime::cuda {
namespace {

/// Loans are multiples of this: what is smaller shares a page of the driver's with other memory, which a
/// borrower would reach, too.
constexpr size_t kPage = 2 << 20;
/// What a borrower writes into the header when it is through.
constexpr uint64_t kGivenBack = 1;

}  // namespace

size_t Loans::pages(size_t bytes) {
  return (bytes + kPage - 1) / kPage * kPage;
}

Loans& Loans::of(Gpu& gpu) {
  return onlyOf<Loans>(gpu);
}

Result<Loan> Loans::lend(size_t bytes) {
  bytes = pages(Loan::kHeader + bytes);
  std::lock_guard lock(mutex_);
  for (auto at = ended_.begin(); at != ended_.end(); ++at) {
    uint64_t givenBack = 0;
    if (at->bytes != bytes) continue;
    ECCL_TRY(gpu_.download(&givenBack, at->memory, sizeof givenBack));
    if (givenBack != kGivenBack) continue;
    // By way of the memory that the GPU keeps, which is zeroed when it is taken.
    gpu_.giveBack(at->memory, bytes);
    ended_.erase(at);
    break;
  }
  Loan loan;
  loan.bytes = bytes;
  ECCL_ASSIGN(loan.memory, gpu_.take(bytes));
  Result<Ticket> ticket = find(loan.memory);
  if (!ticket.ok()) return gpu_.giveBack(loan.memory, bytes), ticket.status();
  loan.ticket = *ticket;
  return loan;
}

Result<Ticket> Loans::find(Address block) {
  const auto [known, isNew] = handles_.try_emplace(block);
  if (isNew) {
    const DriverCode code = gpu_.driver().cuIpcGetMemHandle(&known->second, block);
    if (code != kSuccess) handles_.erase(known);
    ECCL_TRY(gpu_.driver().check(code, "cuIpcGetMemHandle", "of memory on %s", gpu_.name().c_str()));
  }
  return Ticket{process(), known->second};
}

Result<Ticket> Loans::ticketOf(Address block) {
  std::lock_guard lock(mutex_);
  return find(block);
}

void Loans::end(const Loan& loan) {
  std::lock_guard lock(mutex_);
  ended_.push_back(loan);
}

Result<Address> Loans::open(const Ticket& ticket) {
  if (const auto found = opened_.find(ticket); found != opened_.end()) return found->second;
  Address memory = 0;
  ECCL_TRY(gpu_.driver().check(gpu_.driver().cuIpcOpenMemHandle(&memory, ticket.handle, kLazyPeerAccess),
                               "cuIpcOpenMemHandle", "of another process's memory on %s", gpu_.name().c_str()));
  opened_.emplace(ticket, memory);
  return memory;
}

Result<Address> Loans::borrow(const Ticket& ticket) {
  ECCL_ASSIGN(const Address memory, reach(ticket));
  return memory + Loan::kHeader;
}

Result<Address> Loans::reach(const Ticket& ticket) {
  std::lock_guard lock(mutex_);
  return open(ticket);
}

void Loans::giveBack(Address data) {
  gpu_.note(data - Loan::kHeader, kGivenBack);
}

Loans::Name Loans::newName() {
  Name name;
  System::real().random(name.data(), name.size());
  return name;
}

const Loans::Name& Loans::process() {
  static const auto* const made = new Name(newName());
  return *made;
}

Result<Loans::Door> Loans::door() {
  {
    std::lock_guard lock(mutex_);
    if (door_) return *door_;
  }
  const Name name = newName();
  ECCL_ASSIGN(const Loan loan, lend(name.size()));
  ECCL_TRY(gpu_.upload(loan.data(), name.data(), name.size()));
  std::lock_guard lock(mutex_);
  if (!door_) door_ = {loan.ticket.handle, name};
  return *door_;
}

Status Loans::tryDoor(const Door& door) {
  std::lock_guard lock(mutex_);
  if (tried_.count(door.name) != 0) return {};
  if (door.name == Name{}) return Status::error(Code::system, "that process cannot lend any");
  ECCL_ASSIGN(const Address memory, open({door.name, door.handle}));
  Name found{};
  ECCL_TRY(gpu_.download(found.data(), memory + Loan::kHeader, found.size()));
  if (found != door.name)
    return Status::error(Code::system,
                         "another process's memory, reached from %s, holds other bytes than were put there",
                         gpu_.name().c_str());
  tried_.insert(door.name);
  return {};
}

}  // namespace eccl::runtime::cuda
