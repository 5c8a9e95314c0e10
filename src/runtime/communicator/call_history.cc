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

std::optional<Mismatch> CallHistory::add(CallRecord& mine, uint64_t shape, size_t calls) {
  std::lock_guard lock(mutex_);
  Scope& scope = scopeOf(mine.scope);
  const uint64_t first = scope.next;
  CallRecord each = mine;
  for (mine.number(shape, first); scope.next < first + calls;) {
    each.number(shape, scope.next++);
    if (scope.calls.size() < kKept)
      scope.calls.push_back(each);
    else
      scope.calls[each.sequence % kKept] = each;
  }
  if (scope.early.empty()) return std::nullopt;
  std::optional<Mismatch> found;
  std::erase_if(scope.early, [&](const auto& early) {
    if (early.second.sequence >= scope.next) return false;
    each.number(shape, early.second.sequence);
    const bool differs = early.second.sequence >= first && early.second.signature != each.signature;
    if (differs && (!found || each.sequence < found->mine.sequence))
      found = Mismatch{early.first, each, early.second};
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
