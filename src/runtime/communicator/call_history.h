// What this rank has called, and what other ranks say they have called: the memory of the mismatch check.
//
// A rank that waits too long, or gets a message of another call, sends the record of its call to the ranks it
// waits for. A rank that made a different call under the same number says so. A record of a number that this
// rank has not reached yet is kept until it has.
#pragma once

#include <array>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/short_lock.h"
#include "runtime/execution/call.h"

namespace eccl::runtime {

/// Two calls under one number that do not fit together.
struct Mismatch {
  int otherRank;
  CallRecord mine, other;
};

/// The last calls of one communicator, by scope: collectives are one scope, and each pair of ranks is one for
/// Send and Recv. Keeps 256 calls of each scope. Owner: the communicator. Any thread.
class CallHistory {
 public:
  /// The number that the next call of this scope gets, from 0.
  uint64_t next(uint64_t scope) const;
  /// The last call of this scope, if there was one.
  std::optional<CallRecord> last(uint64_t scope) const;
  /// Numbers `calls` calls that are being made, one after the other, and remembers them. All are as `mine`, of
  /// that shape(), which gets the number and the signature of the first. Returns a mismatch if another rank has
  /// already told of another call under one of the numbers.
  std::optional<Mismatch> add(CallRecord& mine, uint64_t shape, size_t calls = 1) {
    std::lock_guard lock(mutex_);
    return addNext(mine, shape, calls);
  }
  /// The same for one call. *numbered is false, and nothing has happened, if `unless()`, which is asked when no
  /// other call can be numbered.
  template <class Unless>
  std::optional<Mismatch> addUnless(const Unless& unless, CallRecord& mine, uint64_t shape, bool* numbered) {
    std::lock_guard lock(mutex_);
    *numbered = !unless();
    if (!*numbered) return std::nullopt;
    return addNext(mine, shape, 1);
  }
  /// Compares another rank's call with this rank's. Returns a mismatch if this rank made another one.
  /// *reached is false if this rank has not got that far; the record is then kept, the latest of each rank in
  /// a scope. A call that is forgotten, as 256 have followed it, fits anything.
  std::optional<Mismatch> compare(int otherRank, const CallRecord& other, bool* reached);

 private:
  // Each short call comes here.
  [[gnu::always_inline]] std::optional<Mismatch> addNext(CallRecord& mine, uint64_t shape, size_t calls) {
    Scope& scope = scopeOf(mine.scope);
    mine.number(shape, scope.next);
    scope.keep(mine);
    if (calls > 1) keepMore(scope, mine, shape, calls - 1);
    return scope.early.empty() ? std::nullopt : compareEarly(scope, mine, shape);
  }
  static constexpr size_t kKept = 256;  // per scope
  struct Scope {
    uint64_t next = 0;
    std::vector<CallRecord> calls;                  // the last ones, number k at k modulo kKept
    std::vector<std::pair<int, CallRecord>> early;  // of others, for numbers not reached
    /// Adds call number `next`.
    void keep(const CallRecord& call) {
      if (next >= kKept) [[likely]]
        calls[next % kKept] = call;
      else
        keepFirst(call);
      ++next;
    }
    void keepFirst(const CallRecord& call);
  };
  // After that of `each`, so many more calls.
  static void keepMore(Scope& scope, CallRecord each, uint64_t shape, size_t calls);
  // What others have told of the calls from `first`, which is of that shape, to the last; and forgets it.
  static std::optional<Mismatch> compareEarly(Scope& scope, const CallRecord& first, uint64_t shape);
  Scope& scopeOf(uint64_t scope) {
    Recent& recent = recent_[(scope ^ scope >> 32) % recent_.size()];
    if (recent.scope == nullptr || recent.number != scope) recent = {scope, &scopes_[scope]};
    return *recent.scope;
  }

  mutable ShortLock mutex_;
  std::unordered_map<uint64_t, Scope> scopes_;
  struct Recent {
    uint64_t number = 0;
    Scope* scope = nullptr;
  };
  std::array<Recent, 8> recent_;  // looked up last: a program talks to the same few ranks again and again
};

}  // namespace eccl::runtime
