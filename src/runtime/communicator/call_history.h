// What this rank has called, and what others say they have: the memory of the mismatch check.
//
// A rank that waits too long (or gets a message of another call) sends the record of its call to those it waits
// for. Whoever made another call under the same number says so. A record of a number not yet reached is kept
// until it is.
#pragma once

#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runtime/execution/call.h"

namespace eccl::runtime {

/// Two calls under one number that do not fit together.
struct Mismatch {
  int otherRank;
  CallRecord mine, other;
};

/// Owner: the communicator. Any thread.
class CallHistory {
 public:
  /// The number the next call of this scope gets.
  uint64_t next(uint64_t scope) const;
  /// The last call of this scope, if there was one.
  std::optional<CallRecord> last(uint64_t scope) const;
  /// Numbers a call being made, and remembers it. Answers with a mismatch if another rank has already told of
  /// another call.
  std::optional<Mismatch> add(CallRecord& mine);
  /// Another rank's call. Answers with a mismatch if this rank made another one; `reached` is false if this
  /// rank has not got that far.
  std::optional<Mismatch> compare(int otherRank, const CallRecord& other, bool* reached);

 private:
  static constexpr size_t kKept = 256;  // per scope
  struct Scope {
    uint64_t next = 0;
    std::vector<CallRecord> calls;                  // the last ones, number k at k modulo kKept
    std::vector<std::pair<int, CallRecord>> early;  // of others, for numbers not reached
  };
  mutable std::mutex mutex_;
  std::unordered_map<uint64_t, Scope> scopes_;
};

}  // namespace eccl::runtime
