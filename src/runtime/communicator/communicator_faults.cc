// What a communicator does about trouble: calls that differ, ranks that are late, gone or dead.

#include <cstring>

#include "base/log.h"
#include "runtime/communicator/communicator.h"
#include "transport/net/bytes.h"

namespace eccl::runtime {
namespace {

/// A broken data connection is a symptom. The control tree usually knows the cause a moment later; it gets this
/// long to say so.
constexpr Duration kGrace = std::chrono::milliseconds(300);
/// From here on a stall is worth a line in the log.
constexpr Duration kWorthTelling = std::chrono::seconds(5);
/// A stalled rank tells everybody, not only those it waits for, while they are this few.
constexpr int kFewRanks = 64;

/// No rank can finish these before every rank has begun.
bool needsEverybody(const CallRecord& record) {
  switch (static_cast<Collective>(record.collective)) {
    case Collective::allReduce:
    case Collective::allGather:
    case Collective::allGatherv:
    case Collective::reduceScatter:
    case Collective::reduceScatterv:
    case Collective::allToAll:
    case Collective::allToAllv:
    case Collective::barrier:
      return true;
    default:
      return false;
  }
}

}  // namespace

void Communicator::fault(const Status& why, bool tell) {
  {
    std::lock_guard lock(mutex_);
    if (state() == State::failed || state() == State::finalised) return;
    failure_ = why;
    state_.store(State::failed);  // before the look at running_: establish() does it the other way round
  }
  if (!running_.load()) return logged(why).ignore();  // whoever makes it finds it failed
  ECCL_WARN("communicator %016llx%s%s, rank %d of %d: %s", static_cast<unsigned long long>(id_),
            options_.name.empty() ? "" : " ", options_.name.c_str(), rank_, ranks_, why.message().c_str());
  if (tell) tellAll(why);
  control_->cancelGathers(why);  // splits under way
  engine_.fail(why);
}

void Communicator::tellAll(const Status& why) {
  const Status told = guarded("telling the other ranks", [&] {
    return control_->flood(
        kFault, transport::ByteWriter().put(static_cast<uint8_t>(why.code())).text(why.message()).take());
  });
  if (!told.ok()) ECCL_WARN("rank %d could not tell the others: %s", rank_, told.message().c_str());
}

void Communicator::onDriverFailed(const Status& why) {
  fault(Status::error(why.code(), "%s cannot go on: %s", describe(rank_).c_str(), why.message().c_str()), true);
}

void Communicator::onMessage(int origin, uint16_t kind, std::string_view payload) {
  transport::ByteReader reader(payload);
  if (kind == kFault) {
    auto code = reader.get<uint8_t>();
    std::string text(reader.text(1 << 16));
    if (!reader.finished() || code == 0 || code > static_cast<uint8_t>(Code::timeout)) return;
    fault(Status::error(static_cast<Code>(code), "%s", text.c_str()), false);
  } else if (kind == kCompare) {
    auto other = reader.get<Comparison>();
    if (!reader.finished()) return;
    bool reached = false;
    if (auto mismatch = history_.compare(origin, other.record, &reached)) {
      tellMismatch(*mismatch);
    } else if (!reached && state() != State::ready) {
      const Status why = needsMoreCalls(origin, other.record);
      if (!why.ok() && state() == State::finalised)  // this rank is through; the other is not
        tellAll(logged(why));
      else if (!why.ok())
        fault(why, true);
    } else if (!reached && other.record.callerBlocked != 0) {
      checkDeadlock(origin, other);
    }
  }
}

void Communicator::onLost(int rank, const std::string& reason) {
  // The tree tells everybody itself.
  fault(Status::error(Code::remote, "%s is lost: %s", describe(rank).c_str(), reason.c_str()), false);
}

void Communicator::onLeft(int rank) {
  {
    std::lock_guard lock(mutex_);
    left_[rank] = true;
  }
  engine_.expectEnd(rank);
}

void Communicator::tellMismatch(const Mismatch& mismatch) {
  int a = rank_, b = mismatch.otherRank;
  const CallRecord *callA = &mismatch.mine, *callB = &mismatch.other;
  if (b < a) {
    std::swap(a, b);
    std::swap(callA, callB);
  }
  std::string textA = callA->text(), textB = callB->text();
  std::string hint;
  if (textA == textB) hint = callA->countsHash != callB->countsHash ? " with different counts per rank" : "";
  const char* kind = callA->scope == 0 ? "collective call" : "Send/Recv of this pair";
  fault(Status::error(Code::invalidUsage,
                      "calls differ: as %s number %llu, %s made %s and %s made %s%s; every rank must make the "
                      "same calls in "
                      "the same order",
                      kind, static_cast<unsigned long long>(callA->sequence), describe(a).c_str(),
                      textA.c_str(), describe(b).c_str(), textB.c_str(), hint.c_str()),
        true);
}

void Communicator::sendComparison(int peer, const CallRecord& record) {
  Comparison mine{record, history_.next(0), history_.next(CallRecord::pairScope(rank_, peer)),
                  history_.next(CallRecord::pairScope(peer, rank_))};
  control_->send(peer, kCompare, transport::bytesOf(mine))
      .ignore();  // a peer that cannot be reached is lost, which is told
}

void Communicator::onMismatch(Run& run, int peer, const LaneState& lane) {
  // The peer knows its own call: let it say what it was. Its answer comes as a fault to all.
  sendComparison(peer, run.record);
  suspect(Status::error(
              Code::invalidUsage,
              "calls differ: %s, in %s, got a message of another call from %s (%s %llu, expected %llu)",
              describe(rank_).c_str(), run.record.text().c_str(), describe(peer).c_str(),
              lane.fault == LaneFault::length ? "length" : "signature",
              static_cast<unsigned long long>(lane.found), static_cast<unsigned long long>(lane.expected)),
          -1);
}

void Communicator::onPeerFailed(Run* run, int peer, const std::string& reason) {
  if (run == nullptr) {
    std::lock_guard lock(mutex_);
    if (left_.count(peer) != 0) return;
  }
  suspect(
      Status::error(Code::remote, "%s failed%s%s: %s", describe(peer).c_str(), run != nullptr ? " during " : "",
                    run != nullptr ? run->record.text().c_str() : "", reason.c_str()),
      run == nullptr ? peer : -1);
}

void Communicator::suspect(Status status, int idlePeer) {
  std::lock_guard lock(mutex_);
  // What a Run has met weighs more than what happened beside it.
  if (suspicion_.has_value() && (suspicion_->idlePeer < 0 || idlePeer >= 0)) return;
  suspicion_ = Suspicion{Clock::system().now(), std::move(status), idlePeer};
}

void Communicator::tick() {
  std::optional<Suspicion> due;
  {
    std::lock_guard lock(mutex_);
    if (!suspicion_.has_value() || Clock::system().now() - suspicion_->since < kGrace) return;
    due = std::exchange(suspicion_, std::nullopt);
    if (due->idlePeer >= 0 && left_.count(due->idlePeer) != 0)
      return;  // it had disconnected, and said so later
  }
  fault(due->status, true);
}

void Communicator::onStall(Run& run, Duration stalled, const std::vector<int>& peers) {
  std::vector<int> gone;
  {
    std::lock_guard lock(mutex_);
    stalled_ = Stalled{run.shared_from_this(), run.record, peers};
    for (int peer : peers) {
      if (left_.count(peer) != 0) gone.push_back(peer);
    }
  }
  if (!gone.empty()) {
    fault(
        Status::error(Code::remote, "%s waits in %s for %s, which has left the communicator (ecclCommDestroy)",
                      describe(rank_).c_str(), run.record.text().c_str(), transport::nameRanks(gone).c_str()),
        true);
    return;
  }
  if (stalled >= kWorthTelling) {
    ECCL_WARN("%s has waited %.0f s in %s (number %llu) for %s", describe(rank_).c_str(),
              transport::seconds(stalled), run.record.text().c_str(),
              static_cast<unsigned long long>(run.record.sequence), transport::nameRanks(peers).c_str());
  }
  bool everybody = ranks_ <= kFewRanks && stalled >= 3 * kGrace / 2;
  for (int peer = 0; peer < ranks_ && everybody; ++peer) {
    if (peer != rank_) sendComparison(peer, run.record);
  }
  for (size_t i = 0; i < peers.size() && !everybody; ++i) sendComparison(peers[i], run.record);
}

/// A finalized rank makes no more calls: whoever is stuck in one that it has not made will be for ever.
Status Communicator::needsMoreCalls(int origin, const CallRecord& record) const {
  const bool mine = record.scope == 0 || record.scope == CallRecord::pairScope(origin, rank_) ||
                    record.scope == CallRecord::pairScope(rank_, origin);
  if (!mine || (state() != State::finalising && state() != State::finalised)) return {};
  return Status::error(
      Code::invalidUsage,
      "calls differ: %s waits in %s (number %llu), which %s has not called and, being finalized, "
      "will not call; every rank must make the same calls in the same order",
      describe(origin).c_str(), record.text().c_str(), static_cast<unsigned long long>(record.sequence),
      describe(rank_).c_str());
}

/// The other rank is stuck in a call this rank has not made. If this rank is itself stuck, in a call that needs
/// the other and that the other has not made, neither can ever go on.
void Communicator::checkDeadlock(int origin, const Comparison& other) {
  std::optional<Stalled> mine;
  {
    std::lock_guard lock(mutex_);
    mine = stalled_;
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
  fault(Status::error(Code::invalidUsage,
                      "calls differ: %s waits in %s and %s waits in %s, each for the other; every rank "
                      "must make the same calls in the same order",
                      describe(rank_).c_str(), record.text().c_str(), describe(origin).c_str(),
                      other.record.text().c_str()),
        true);
}

}  // namespace eccl::runtime
