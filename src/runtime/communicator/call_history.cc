// The last calls of each scope, in a ring; calls of others that are early wait beside it.
#include "runtime/communicator/call_history.h"

namespace eccl::runtime {

uint64_t CallHistory::next(uint64_t scope) const {
  std::lock_guard lock(mutex_);
  auto at = scopes_.find(scope);
  return at == scopes_.end() ? 0 : at->second.next;
}

std::optional<CallRecord> CallHistory::last(uint64_t scope) const {
  std::lock_guard lock(mutex_);
  auto at = scopes_.find(scope);
  if (at == scopes_.end() || at->second.next == 0) return std::nullopt;
  return at->second.calls[(at->second.next - 1) % kKept];
}

void CallHistory::Scope::keepFirst(const CallRecord& call) {
  calls.push_back(call);
}

void CallHistory::keepMore(Scope& scope, CallRecord each, uint64_t shape, size_t calls) {
  for (size_t i = 0; i < calls; ++i) {
    each.number(shape, scope.next);
    scope.keep(each);
  }
}

std::optional<Mismatch> CallHistory::compareEarly(Scope& scope, const CallRecord& first, uint64_t shape) {
  std::optional<Mismatch> found;
  std::erase_if(scope.early, [&](const auto& early) {
    const CallRecord& other = early.second;
    if (other.sequence >= scope.next) return false;
    CallRecord mine = first;
    mine.number(shape, other.sequence);
    const bool differs = other.sequence >= first.sequence && other.signature != mine.signature;
    if (differs && (!found || mine.sequence < found->mine.sequence)) found = Mismatch{early.first, mine, other};
    return true;
  });
  return found;
}

std::optional<Mismatch> CallHistory::compare(int otherRank, const CallRecord& other, bool* reached) {
  std::lock_guard lock(mutex_);
  Scope& scope = scopeOf(other.scope);
  *reached = other.sequence < scope.next;
  if (!*reached) {
    for (auto& early : scope.early) {
      if (early.first == otherRank) {
        early.second = other;
        return std::nullopt;
      }
    }
    scope.early.emplace_back(otherRank, other);
    return std::nullopt;
  }
  const CallRecord& mine = scope.calls[other.sequence % kKept];  // a later one if that is forgotten
  if (mine.sequence != other.sequence || mine.signature == other.signature) return std::nullopt;
  return Mismatch{otherRank, mine, other};
}

}  // namespace eccl::runtime
