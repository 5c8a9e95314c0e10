#include "runtime/cuda/handle_loans.h"

namespace eccl::runtime::cuda {
namespace {

/// What a borrower writes into the header when it is through.
constexpr uint64_t kGivenBack = 1;

}  // namespace

Result<Loan> HandleLoans::lend(size_t bytes) {
  bytes = inPages(Loan::kHeader + bytes);
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

Result<Ticket> HandleLoans::find(Address block) {
  const auto [known, isNew] = handles_.try_emplace(block);
  if (isNew) {
    const DriverCode code = gpu_.driver().cuIpcGetMemHandle(&known->second, block);
    if (code != kSuccess) handles_.erase(known);
    ECCL_TRY(gpu_.driver().check(code, "cuIpcGetMemHandle", "of memory on %s", gpu_.name().c_str()));
  }
  Ticket ticket;
  ticket.lender = thisProcess();
  ticket.handle = known->second;
  return ticket;
}

Result<Ticket> HandleLoans::ticketOf(Address block) {
  std::lock_guard lock(mutex_);
  return find(block);
}

void HandleLoans::end(Loan loan) {
  std::lock_guard lock(mutex_);
  ended_.push_back(std::move(loan));
}

Result<Address> HandleLoans::open(const Ticket& ticket) {
  if (const auto found = opened_.find(ticket); found != opened_.end()) return found->second;
  Address memory = 0;
  ECCL_TRY(gpu_.driver().check(gpu_.driver().cuIpcOpenMemHandle(&memory, ticket.handle, kLazyPeerAccess),
                               "cuIpcOpenMemHandle", "of another process's memory on %s", gpu_.name().c_str()));
  opened_.emplace(ticket, memory);
  return memory;
}

Result<Borrowed> HandleLoans::reach(const Ticket& ticket, size_t bytes, const Fetch&) {
  Borrowed borrowed;
  {
    std::lock_guard lock(mutex_);
    ECCL_ASSIGN(borrowed.memory, open(ticket));
  }
  Address begin = 0;
  size_t has = 0;
  ECCL_TRY(gpu_.driver().check(gpu_.driver().cuMemGetAddressRange(&begin, &has, borrowed.memory),
                               "cuMemGetAddressRange", "of another process's memory on %s",
                               gpu_.name().c_str()));
  if (borrowed.memory - begin > has || bytes > has - (borrowed.memory - begin))
    return Status::error(eccl::Code::remote, "it has %zu bytes, and is said to have %zu", has, bytes);
  return borrowed;
}

void HandleLoans::giveBack(Borrowed loan) {
  gpu_.note(loan.memory, kGivenBack).ignore();  // it stays lent
}

}  // namespace eccl::runtime::cuda
