#include "runtime/cuda/loans.h"

#include "runtime/cuda/handle_loans.h"

namespace eccl::runtime::cuda {
namespace {

/// By descriptor. The memory is gone when both sides have unmapped it.
class DescriptorLoans final : public Loans {
 public:
  using Loans::Loans;
  Result<Loan> lend(size_t bytes) override {
    if (!gpu_.mappedMemory())
      return Status::error(eccl::Code::system, "%s has no memory with descriptors", gpu_.name().c_str());
    Loan loan;
    ECCL_ASSIGN(loan.mapped, MappedBlock::make(gpu_, Loan::kHeader + bytes, false));
    loan.memory = loan.mapped->begin();
    loan.bytes = loan.mapped->bytes();
    ECCL_ASSIGN(loan.ticket, ticketOf(*loan.mapped));
    if (const Status cleared = gpu_.clear(loan.memory, loan.bytes); !cleared.ok())
      return MappedBlock::keep(loan.mapped), cleared;  // it may still be under way
    return loan;
  }
  void end(Loan) override {}
  Result<Borrowed> reach(const Ticket& ticket, size_t bytes, const Fetch& fetch) override {
    ECCL_ASSIGN(const transport::Fd descriptor, fetch(ticket.block));
    Borrowed borrowed;
    ECCL_ASSIGN(borrowed.mapped, MappedBlock::open(gpu_, descriptor, bytes));
    borrowed.memory = borrowed.mapped->begin();
    return borrowed;
  }
  void giveBack(Borrowed) override {}
};

}  // namespace

Loans& Loans::of(Gpu& gpu, LendBy by) {
  if (by == LendBy::descriptor) return onlyOf<DescriptorLoans>(gpu);
  return onlyOf<HandleLoans>(gpu);
}

const Name& thisProcess() {
  static const auto* const made = new Name(newName());
  return *made;
}

Result<Ticket> ticketOf(MappedBlock& block) {
  Ticket ticket;
  ticket.lender = thisProcess();
  ECCL_ASSIGN(ticket.block, block.share());
  return ticket;
}

Result<Loans::Door> Loans::door() {
  std::lock_guard lock(mutex_);
  if (door_) return *door_;
  const Name name = newName();
  ECCL_ASSIGN(Loan loan, lend(name.size()));
  const Status written = gpu_.upload(loan.data(), name.data(), name.size());
  if (!written.ok()) return MappedBlock::keep(loan.mapped), written;  // may still be under way
  door_ = {loan.ticket, name};
  doors_ = std::move(loan);
  return *door_;
}

Status Loans::tryDoor(const Door& door, const Fetch& fetch) {
  if (door.name == Name{})
    return Status::error(Code::system, "that process cannot lend any so, or is not to (ECCL_CUMEM_ENABLE)");
  {
    std::lock_guard lock(mutex_);
    if (tried_.count(door.name) != 0) return {};
  }
  ECCL_ASSIGN(const Borrowed memory, borrow(door.ticket, sizeof(Name), fetch));
  Name found{};
  const Status read = gpu_.download(found.data(), memory.data(), found.size());
  if (!read.ok()) return MappedBlock::keep(memory.mapped), read;
  if (found != door.name)
    return Status::error(Code::system,
                         "another process's memory, reached from %s, holds other bytes than were put there",
                         gpu_.name().c_str());
  std::lock_guard lock(mutex_);
  tried_.insert(door.name);
  return {};
}

}  // namespace eccl::runtime::cuda
