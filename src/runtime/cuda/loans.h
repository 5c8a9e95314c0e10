// Memory of a GPU that several processes use: who lends it, who borrows it, and when it is free again.
//
// The lender tells the borrower a ticket, by whatever way. The borrower's kernels then reach the memory at an
// address of their own. There are two ways:
//
//   by descriptor   (mapped_block.h) each side has the memory mapped as long as it uses it, and that is all
//   by handle       (handle_loans.h) CUDA's IPC, where a GPU has no such memory, or processes cannot pass
//                   descriptors: what was opened once stays open, and what was lent is never freed
#pragma once

#include <functional>
#include <set>

#include "runtime/cuda/mapped_block.h"
#include "runtime/executor/executor.h"

namespace eccl::runtime::cuda {

enum class LendBy : uint8_t { descriptor, handle };
/// Those that are preferred first.
inline constexpr LendBy kWaysToLend[] = {LendBy::descriptor, LendBy::handle};
/// For messages.
constexpr const char* nameOf(LendBy by) {
  return by == LendBy::descriptor ? "descriptor" : "handle";
}
/// This process's, among all.
const Name& thisProcess();

/// By what another process finds lent memory. No other memory ever has the same.
struct Ticket {
  Name lender{};
  Name block{};        ///< by descriptor
  IpcHandle handle{};  ///< by handle
  LendBy by() const { return block != Name{} ? LendBy::descriptor : LendBy::handle; }
  auto operator<=>(const Ticket&) const = default;
};

/// By what others find a block of this process's. Error: MappedBlock::share()'s.
Result<Ticket> ticketOf(MappedBlock& block);

/// Memory that this process lends.
struct Loan {
  Address memory = 0;  ///< what is lent begins kHeader bytes behind
  size_t bytes = 0;    ///< with those
  Ticket ticket;
  std::shared_ptr<MappedBlock> mapped;  ///< by descriptor

  static constexpr size_t kHeader = 128;  ///< bytes that are the loan's own
  Address data() const { return memory + kHeader; }
};

/// Another process's memory, where this GPU finds it. By descriptor: as long as anybody has `mapped`.
struct Borrowed {
  Address memory = 0;
  std::shared_ptr<MappedBlock> mapped;
  Address data() const { return memory + Loan::kHeader; }  ///< of a loan
  LendBy by() const { return mapped != nullptr ? LendBy::descriptor : LendBy::handle; }
};

/// Gets the descriptor of that name from the rank that told the ticket (Meeting::fetch).
using Fetch = std::function<Result<transport::Fd>(const Name& block)>;
inline Fetch fetchFrom(int rank, const Meeting& meeting) {
  return [rank, &meeting](const Name& block) { return meeting.fetch(rank, block); };
}

/// The loans of one GPU of this process, by one way. Owner: the process, for ever. Any thread, with the GPU's
/// context current. Errors (device): a driver's call failed.
class Loans {
 public:
  static Loans& of(Gpu& gpu, LendBy by);
  explicit Loans(Gpu& gpu) : gpu_(gpu) {}
  virtual ~Loans() = default;

  /// `bytes` of zeroed memory.
  virtual Result<Loan> lend(size_t bytes) = 0;
  /// No kernel of this process uses it any more.
  virtual void end(Loan loan) = 0;
  /// `bytes` of memory that another process lends, from where it begins. Error also: fetch()'s; (remote) it has
  /// not so many.
  virtual Result<Borrowed> reach(const Ticket& ticket, size_t bytes, const Fetch& fetch) = 0;
  Result<Borrowed> borrow(const Ticket& ticket, size_t bytes, const Fetch& fetch) {
    return reach(ticket, Loan::kHeader + bytes, fetch);
  }
  /// No kernel of this process uses a loan of another's any more: tells the lender, and waits for nothing.
  /// Whoever cannot be told keeps the memory lent.
  virtual void giveBack(Borrowed loan) = 0;

  /// Memory by which another process sees whether it can borrow from this one by this way. It holds a name that
  /// no other has, for as long as the process lives.
  struct Door {
    Ticket ticket;
    Name name{};
  };
  /// Made by the first call.
  Result<Door> door();
  /// Whether this process can borrow from the one whose door that is; without a name: it has none. Error, also
  /// (system): it cannot; why.
  Status tryDoor(const Door& door, const Fetch& fetch);

 protected:
  Gpu& gpu_;

 private:
  std::mutex mutex_;
  std::optional<Door> door_;
  Loan doors_;            // what it is in
  std::set<Name> tried_;  // by name: those that could be borrowed from
};

}  // namespace eccl::runtime::cuda
