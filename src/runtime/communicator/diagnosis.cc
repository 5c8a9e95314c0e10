#include "runtime/communicator/diagnosis.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "runtime/communicator/circles.h"
#include "transport/bootstrap/ranks.h"
#include "transport/net/bytes.h"
#include "transport/net/wait.h"

namespace eccl::runtime {
namespace {

/// A broken data connection is a symptom. The control tree usually knows the cause a moment later; it gets this
/// long to say so where a call waits.
constexpr Duration kGrace = std::chrono::milliseconds(300);
/// The peer that ended a connection tells why it did after kGrace, if it knows: that has to get here first.
constexpr Duration kPeersGrace = 2 * kGrace;
/// From here on a stall is worth a line in the log.
constexpr Duration kWorthTelling = std::chrono::seconds(5);
/// From here on it is worth a look whether calls wait for each other in a circle.
constexpr Duration kWorthFollowing = std::chrono::milliseconds(500);
/// A stalled rank tells everybody, not only those it waits for, while they are this few.
constexpr int kFewRanks = 64;

bool contains(const std::vector<int>& sorted, int value) {
  return std::binary_search(sorted.begin(), sorted.end(), value);
}

/// No rank can finish these before every rank has begun. An empty one is over when the calls before it are.
bool needsEverybody(const CallRecord& record) {
  switch (static_cast<Collective>(record.collective)) {
    case Collective::allToAllv:
      return true;
    case Collective::allReduce:
    case Collective::allGather:
    case Collective::allGatherv:
    case Collective::reduceScatter:
    case Collective::reduceScatterv:
    case Collective::allToAll:
    case Collective::barrier:
      return record.count > 0;
    default:
      return false;
  }
}

}  // namespace

void Diagnosis::onComparison(int origin, std::string_view payload) {
  transport::ByteReader reader(payload);
  const auto other = reader.get<Comparison>();
  if (!reader.finished()) return;
  bool reached = false;
  if (auto mismatch = history_.compare(origin, other.record, &reached)) {
    tellMismatch(*mismatch);
  } else if (!reached && handler_.makesNoMoreCalls()) {
    const Status why = needsMoreCalls(origin, other.record);
    if (!why.ok()) handler_.faultOfOthers(why);
  } else if (!reached && other.record.callerBlocked != 0) {
    checkDeadlock(origin, other);
  } else if (reached && other.needsYou != 0) {
    handler_.onAwaited(needsAll(other.record) ? Circles::kAnyRank : origin, other.record);
  }
}

// Not where some may have nothing to say to others.
bool Diagnosis::needsAll(const CallRecord& record) const {
  const auto collective = static_cast<Collective>(record.collective);
  return ranks_ <= kFewRanks && needsEverybody(record) && collective != Collective::allToAllv &&
         collective != Collective::allGatherv && collective != Collective::reduceScatterv;
}

std::vector<int> Diagnosis::neededBy(const Run& run) const {
  std::lock_guard lock(mutex_);
  for (const Stalled& each : stalled_) {
    if (each.run.get() != &run || each.since < kWorthFollowing || run.done.load(std::memory_order_acquire))
      continue;
    if (!needsAll(each.record)) return each.needed;
    std::vector<int> all;
    for (int rank = 0; rank < ranks_; ++rank)
      if (rank != rank_) all.push_back(rank);
    return all;
  }
  return {};
}

void Diagnosis::onLeft(int rank) {
  std::lock_guard lock(mutex_);
  left_.insert(rank);
}

bool Diagnosis::hasLeft(int rank) {
  std::lock_guard lock(mutex_);
  const bool left = mayHaveLeft(rank);
  if (left) left_.insert(rank);
  return left;
}

void Diagnosis::tellMismatch(const Mismatch& mismatch) {
  int a = rank_, b = mismatch.otherRank;
  const CallRecord *callA = &mismatch.mine, *callB = &mismatch.other;
  if (b < a) {
    std::swap(a, b);
    std::swap(callA, callB);
  }
  std::string textA = callA->text(), textB = callB->text();
  std::string hint;
  if (textA == textB) hint = callA->countsHash != callB->countsHash ? " with different counts per rank" : "";
  const char* kind = callA->calls() == 0 ? "collective call" : "Send/Recv of this pair";
  handler_.fault(
      Status::error(Code::invalidUsage,
                    "calls differ: as %s number %llu, %s made %s and %s made %s%s; every rank must make the "
                    "same calls in "
                    "the same order",
                    kind, static_cast<unsigned long long>(callA->sequence), handler_.describe(a).c_str(),
                    textA.c_str(), handler_.describe(b).c_str(), textB.c_str(), hint.c_str()),
      true);
}

void Diagnosis::sendComparison(int peer, const CallRecord& record, bool needsPeer) {
  Comparison mine{record, history_.next(0), history_.next(CallRecord::pairScope(rank_, peer)),
                  history_.next(CallRecord::pairScope(peer, rank_)), needsPeer};
  handler_.sendComparison(peer, transport::bytesOf(mine));
}

void Diagnosis::onMismatch(Run& run, int peer, const LaneState& lane) {
  // The peer knows its own call: let it say what it was. Its answer comes as a fault to all.
  sendComparison(peer, run.record, false);
  suspect(Status::error(
              Code::invalidUsage,
              "calls differ: %s, in %s, got a message of another call from %s (%s %llu, expected %llu)",
              handler_.describe(rank_).c_str(), run.record.text().c_str(), handler_.describe(peer).c_str(),
              lane.fault == LaneFault::length ? "length" : "signature",
              static_cast<unsigned long long>(lane.found), static_cast<unsigned long long>(lane.expected)),
          kGrace);
}

void Diagnosis::onPeerFailed(const Run& run, int peer, const transport::Breakage& why) {
  suspect(Status::error(Code::remote, "%s failed during %s: %s (seen by rank %d)",
                        handler_.describe(peer).c_str(), run.record.text().c_str(), why.reason.c_str(), rank_),
          why.byPeer ? kPeersGrace : kGrace);
}

// A Run may be under way that has a connection with the peer. The peer may have left when it had done its part,
// and its word may be late; a Run that needs it says so by onPeerFailed().
void Diagnosis::onPeerGone(int peer, const std::string& reason) {
  Status why = Status::error(Code::remote, "%s failed: %s (seen by rank %d)", handler_.describe(peer).c_str(),
                             reason.c_str(), rank_);
  std::lock_guard lock(mutex_);
  idle_.emplace(peer, Suspicion{system_.now() + idleGrace_, std::move(why)});
}

// A peer that is to receive them, and does not, may know why.
void Diagnosis::onMessagesLost(const Status& why) {
  suspect(
      Status::error(why.code(), "%s cannot go on: %s", handler_.describe(rank_).c_str(), why.message().c_str()),
      kPeersGrace);
}

void Diagnosis::suspect(Status status, Duration grace) {
  std::lock_guard lock(mutex_);
  const TimePoint due = system_.now() + grace;
  if (!suspicion_.has_value() || due < suspicion_->due) suspicion_ = Suspicion{due, std::move(status)};
}

void Diagnosis::tick() {
  std::optional<Suspicion> due;
  {
    std::lock_guard lock(mutex_);
    const TimePoint now = system_.now();
    std::erase_if(stalled_, [](const Stalled& each) { return each.run->done.load(std::memory_order_acquire); });
    if (suspicion_.has_value() && now >= suspicion_->due) due = std::exchange(suspicion_, std::nullopt);
    std::erase_if(idle_, [&](auto& idle) {
      auto& [peer, suspicion] = idle;
      if (now < suspicion.due) return false;
      if (!due.has_value() && !mayHaveLeft(peer)) due = std::move(suspicion);
      return true;
    });
  }
  if (due.has_value()) handler_.fault(due->status, true);
}

bool Diagnosis::mayHaveLeft(int peer) const {
  for (int hop = rank_; hop != peer;) {
    hop = transport::treeNextHop(hop, peer);
    if (left_.count(hop) != 0) return true;
  }
  return false;
}

void Diagnosis::onStall(Run& run, Duration stalled, const Awaited& awaited) {
  const std::vector<int>& peers = awaited.peers;
  std::vector<int> gone;
  {
    std::lock_guard lock(mutex_);
    std::erase_if(stalled_, [&](const Stalled& each) {
      return each.run.get() == &run || each.run->done.load(std::memory_order_acquire);
    });
    stalled_.push_back({run.shared_from_this(), run.record, awaited.needed, stalled});
    for (int peer : peers) {
      if (left_.count(peer) != 0) gone.push_back(peer);
    }
  }
  if (!gone.empty()) {
    handler_.fault(
        Status::error(Code::remote, "%s waits in %s for %s, which has left the communicator (ecclCommDestroy)",
                      handler_.describe(rank_).c_str(), run.record.text().c_str(),
                      transport::nameRanks(gone).c_str()),
        true);
    return;
  }
  if (stalled >= kWorthTelling) {
    ECCL_WARN("%s has waited %.0f s in %s (number %llu) for %s", handler_.describe(rank_).c_str(),
              transport::seconds(stalled), run.record.text().c_str(),
              static_cast<unsigned long long>(run.record.sequence),
              peers.empty() ? format("its own work in %s memory", run.executor->memory()).c_str()
                            : transport::nameRanks(peers).c_str());
  }
  // A device's call that waits for nobody may be behind another one, or has not said yet for whom it waits.
  // Calls in the way have said by then what they need.
  const bool follow = stalled >= 2 * kWorthFollowing && (!peers.empty() || !handler_.isBehind(run.record));
  const bool all = follow && needsAll(run.record);
  if (ranks_ > kFewRanks || stalled < 3 * kGrace / 2) {
    for (int peer : peers) sendComparison(peer, run.record, all || (follow && contains(awaited.needed, peer)));
    return;
  }
  for (int peer = 0; peer < ranks_; ++peer)
    if (peer != rank_) sendComparison(peer, run.record, all || (follow && contains(awaited.needed, peer)));
}

Status Diagnosis::needsMoreCalls(int origin, const CallRecord& record) const {
  const uint64_t calls = record.calls();
  const bool mine = calls == 0 || calls == CallRecord::pairScope(origin, rank_) ||
                    calls == CallRecord::pairScope(rank_, origin);
  if (!mine) return {};
  return Status::error(
      Code::invalidUsage,
      "calls differ: %s waits in %s (number %llu), which %s has not called and, being finalized, "
      "will not call; every rank must make the same calls in the same order",
      handler_.describe(origin).c_str(), record.text().c_str(),
      static_cast<unsigned long long>(record.sequence), handler_.describe(rank_).c_str());
}

void Diagnosis::checkDeadlock(int origin, const Comparison& other) {
  std::optional<Stalled> mine;
  {
    std::lock_guard lock(mutex_);
    if (!stalled_.empty()) mine = stalled_.back();
  }
  if (!mine.has_value() || mine->record.callerBlocked == 0 || mine->run->done.load(std::memory_order_acquire))
    return;
  const CallRecord& record = mine->record;
  bool needsOther, otherNeedsMe;
  if (record.scope == 0) {
    needsOther = needsEverybody(record) && other.collectives <= record.sequence;
  } else if (record.scope == CallRecord::pairScope(origin, rank_)) {
    needsOther = other.sendsToYou <= record.sequence;
  } else {
    needsOther =
        record.scope == CallRecord::pairScope(rank_, origin) && other.receivesFromYou <= record.sequence;
  }
  if (other.record.scope == 0) {
    otherNeedsMe = needsEverybody(other.record);
  } else {
    otherNeedsMe = other.record.scope == CallRecord::pairScope(origin, rank_) ||
                   other.record.scope == CallRecord::pairScope(rank_, origin);
  }
  if (!needsOther || !otherNeedsMe) return;
  handler_.fault(
      Status::error(Code::invalidUsage,
                    "calls differ: %s waits in %s and %s waits in %s, each for the other; every rank "
                    "must make the same calls in the same order",
                    handler_.describe(rank_).c_str(), record.text().c_str(), handler_.describe(origin).c_str(),
                    other.record.text().c_str()),
      true);
}

Status Diagnosis::lostMessages(const std::vector<transport::Untaken>& lost) const {
  std::string text;
  for (const transport::Untaken& each : lost) {
    const uint64_t calls = each.pointToPoint ? CallRecord::pairScope(rank_, each.peer) : 0;
    const auto last = history_.last(calls | (each.inGraph ? CallRecord::kInGraphs : 0));
    text += format("%s%llu message%s to %s%s%s", text.empty() ? "" : ", ",
                   static_cast<unsigned long long>(each.messages), each.messages == 1 ? "" : "s",
                   handler_.describe(each.peer).c_str(), last ? ", the last of " : "",
                   last ? last->text().c_str() : "");
  }
  return Status::error(
      Code::remote,
      "%s sent what was never received: %s. The receivers have left the communicator or been "
      "finalized; every ecclSend needs an ecclRecv, every rank's collective that of the others",
      handler_.describe(rank_).c_str(), text.c_str());
}

}  // namespace eccl::runtime
