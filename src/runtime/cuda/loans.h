// Memory of a GPU that several processes use: who lends it, who borrows it, and when it is free again.
//
// The lender tells the borrower a ticket, by whatever way. The borrower's kernels then reach the memory at an
// address of their own. When the borrower is through it says so in the memory itself, as that outlives the
// communicator that it was for; only then does the lender use it again.
//
// What was opened once stays open for the next time, until the process ends: to close it the driver waits for
// all streams of the process (NVIDIA H100, November 2026: perf/results/gpu.md), which may wait for other ranks.
// Nor does a lender ever free what it has lent.
#pragma once

#include <array>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <vector>

#include "runtime/cuda/gpu.h"

namespace eccl::runtime::cuda {

/// By what another process finds lent memory. No other memory ever has the same.
struct Ticket {
  std::array<char, 16> lender{};  ///< a name that nobody else has
  IpcHandle handle{};
  auto operator<=>(const Ticket&) const = default;
};

/// Memory that this process lends to one other.
struct Loan {
  Address memory = 0;  ///< what is lent begins kHeader bytes behind
  size_t bytes = 0;    ///< with those
  Ticket ticket;

  static constexpr size_t kHeader = 128;  ///< bytes that are the loan's own
  Address data() const { return memory + kHeader; }
};

/// The loans of one GPU of this process. Owner: the process, for ever. Any thread, with the GPU's context
/// current. Errors (device): a driver's call failed.
class Loans {
 public:
  static Loans& of(Gpu& gpu);
  explicit Loans(Gpu& gpu) : gpu_(gpu) {}

  /// `bytes` of zeroed memory.
  Result<Loan> lend(size_t bytes);
  /// It is lent again when the borrower has given it back: never, if that does not happen.
  void end(const Loan& loan);

  /// Memory that another process lends: where it begins for this GPU.
  Result<Address> borrow(const Ticket& ticket);
  /// By what another process finds a whole block of the driver's, which is never freed: pages(), or other
  /// memory lies beside it that the other process would reach, too.
  Result<Ticket> ticketOf(Address block);
  static size_t pages(size_t bytes);
  /// Such a block of another process, where this GPU finds it from now on for ever.
  Result<Address> reach(const Ticket& ticket);
  /// No kernel of this process uses it any more: tells the lender, and waits for nothing. Whoever cannot be
  /// told keeps the memory lent.
  void giveBack(Address data);

  /// Memory by which another process sees whether it can borrow from this one. It holds a name that no other
  /// has, for as long as the process lives.
  using Name = decltype(Ticket::lender);
  struct Door {
    IpcHandle handle{};
    Name name{};
  };
  /// Made by the first call.
  Result<Door> door();
  static Name newName();
  /// This process's, among all.
  static const Name& process();
  /// Whether this process can borrow from the one whose door that is; without a name: it has none. Error, also
  /// (system): it cannot; why.
  Status tryDoor(const Door& door);

 private:
  /// Under the mutex: opens it, or makes its handle, if that was not done yet.
  Result<Address> open(const Ticket& ticket);
  Result<Ticket> find(Address block);

  Gpu& gpu_;
  std::mutex mutex_;
  std::vector<Loan> ended_;  // perhaps not given back yet
  std::map<Address, IpcHandle> handles_;
  std::map<Ticket, Address> opened_;
  std::optional<Door> door_;
  std::set<Name> tried_;  // by name: those that could be borrowed from
};

}  // namespace eccl::runtime::cuda
