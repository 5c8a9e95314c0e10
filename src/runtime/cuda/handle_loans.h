// Loans by CUDA's IPC handles.
//
// When the borrower is through it says so in the memory itself, as that outlives the communicator that it was
// for; only then does the lender use it again. What was opened once stays open for the next time, until the
// process ends: to close it the driver waits for all streams of the process (NVIDIA H100, November 2026:
// perf/results/gpu.md), which may wait for other ranks. Nor does a lender ever free what it has lent.
#pragma once

#include <map>
#include <vector>

#include "runtime/cuda/loans.h"

namespace eccl::runtime::cuda {

/// As Loans.
class HandleLoans final : public Loans {
 public:
  using Loans::Loans;
  static HandleLoans& of(Gpu& gpu) { return onlyOf<HandleLoans>(gpu); }

  Result<Loan> lend(size_t bytes) override;
  /// It is lent again when the borrower has given it back: never, if that does not happen.
  void end(Loan loan) override;
  Result<Borrowed> reach(const Ticket& ticket, size_t bytes, const Fetch& fetch) override;
  void giveBack(Borrowed loan) override;
  /// By what another process finds a whole block of cuMemAlloc's, in pages, which is never freed.
  Result<Ticket> ticketOf(Address block);

 private:
  /// Under the mutex: opens it, or makes its handle, if that was not done yet.
  Result<Address> open(const Ticket& ticket);
  Result<Ticket> find(Address block);

  std::mutex mutex_;
  std::vector<Loan> ended_;  // perhaps not given back yet
  std::map<Address, IpcHandle> handles_;
  std::map<Ticket, Address> opened_;
};

}  // namespace eccl::runtime::cuda
