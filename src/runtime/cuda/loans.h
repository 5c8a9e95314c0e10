// Memory of a GPU that several processes use: who lends it, who borrows it, and when it is free again.
//
// The lender tells the borrower a handle, by whatever way. The borrower's kernels then reach the memory at an
// address of their own. When the borrower is through it says so in the memory itself, as that outlives the
// communicator that it was for; only then does the lender use it again.
#pragma once

#include <array>
#include <mutex>
#include <optional>
#include <set>
#include <vector>

#include "runtime/cuda/gpu.h"

namespace eccl::runtime::cuda {

/// Memory that this process lends to one other.
struct Loan {
  Address memory = 0;  ///< what is lent begins kHeader bytes behind
  size_t bytes = 0;    ///< with those
  IpcHandle handle{};

  static constexpr size_t kHeader = 128;  ///< bytes that are the loan's own
  Address data() const { return memory + kHeader; }
};

/// The loans of one GPU of this process. Owner: the process, for ever. Any thread, with the GPU's context
/// current. Errors (device): a driver's call failed.
class Loans {
 public:
  static Loans& of(Gpu& gpu);

  /// `bytes` of zeroed memory.
  Result<Loan> lend(size_t bytes);
  /// It is lent again when the borrower has given it back: never, if that does not happen.
  void end(const Loan& loan);

  /// Memory that another process lends: where it begins for this GPU.
  Result<Address> borrow(const IpcHandle& handle);
  /// No kernel of this process uses it any more: tells the lender.
  void giveBack(Address data);

  /// Memory by which another process sees whether it can borrow from this one. It holds a name that no other
  /// has, for as long as the process lives.
  using Name = std::array<char, 16>;
  struct Door {
    IpcHandle handle{};
    Name name{};
  };
  /// Made by the first call, with its name.
  Result<Door> door(const Name& name);
  /// Whether this process can borrow from the one whose door that is; without a name: it has none. Error, also
  /// (system): it cannot; why.
  Status tryDoor(const Door& door);

 private:
  explicit Loans(Gpu& gpu) : gpu_(gpu) {}
  Result<Address> open(const IpcHandle& handle);

  Gpu& gpu_;
  std::mutex mutex_;
  std::vector<Loan> ended_;  // perhaps not given back yet
  std::optional<Door> door_;
  std::set<Name> tried_;  // by name: those that could be borrowed from
};

}  // namespace eccl::runtime::cuda
