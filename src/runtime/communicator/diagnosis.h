// What a rank concludes from trouble: calls that differ, ranks that are late, gone or unreachable.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/system.h"
#include "runtime/communicator/call_history.h"
#include "runtime/execution/run.h"
#include "runtime/execution/stall_watch.h"
#include "transport/connect/connector.h"

namespace eccl::runtime {

/// Told by a Diagnosis, in the thread that called it, no lock held.
class DiagnosisHandler {
 public:
  virtual ~DiagnosisHandler() = default;
  /// The verdict. `tell`: the other ranks do not know yet.
  virtual void fault(const Status& why, bool tell) = 0;
  /// Another rank cannot go on because this one makes no more calls. That is a failure of the others if this
  /// rank is finalized already.
  virtual void faultOfOthers(const Status& why) = 0;
  /// `comparison` is for onComparison() of that rank's Diagnosis.
  virtual void sendComparison(int peer, std::string_view comparison) = 0;
  /// A rank waits long in the call of that record, which this rank has made; see Circles::onAwaited().
  virtual void onAwaited(int rank, const CallRecord& record) = 0;
  /// Whether this rank's call of that record is behind another one in a stream.
  virtual bool isBehind(const CallRecord& record) const = 0;
  /// Whether this rank is being finalized, or has been.
  virtual bool makesNoMoreCalls() const = 0;
  /// "rank 3 (node7 pid 123)".
  virtual std::string describe(int rank) const = 0;
};

/// Finds the cause behind symptoms. A rank that waits long, or gets a message of another call, tells the
/// ranks concerned which call it is in. A rank that made a different one knows both, and says so. What may be
/// the consequence of something that is not known yet, such as a broken connection, waits a moment for the
/// cause.
///
/// Owner: the communicator. Any thread, after begin(). Failure: what it finds goes to the handler.
class Diagnosis {
 public:
  /// Both outlive this.
  Diagnosis(DiagnosisHandler& handler, System& system) : handler_(handler), system_(system) {}
  /// Once, when the rank is known. A connection that breaks while no call uses the peer becomes the fault after
  /// `idleGrace`, if the peer has not left by then: on a busy host the word of it may take as long.
  void begin(int rank, int ranks, Duration idleGrace) {
    rank_ = rank;
    ranks_ = ranks;
    idleGrace_ = idleGrace;
  }

  /// Numbers calls of that shape that are being made; `record` is the first's. False: another rank has made a
  /// different one; fault() has been called.
  bool remember(CallRecord& record, uint64_t shape, size_t calls = 1) {
    const auto mismatch = history_.add(record, shape, calls);
    if (mismatch) tellMismatch(*mismatch);
    return !mismatch;
  }
  /// The same for one call. *numbered is false, and nothing has happened, if `unless()`.
  template <class Unless>
  bool rememberUnless(const Unless& unless, CallRecord& record, uint64_t shape, bool* numbered) {
    const auto mismatch = history_.addUnless(unless, record, shape, numbered);
    if (mismatch) tellMismatch(*mismatch);
    return !mismatch;
  }
  /// What a peer's sendComparison() says. A payload that makes no sense is ignored.
  void onComparison(int origin, std::string_view payload);
  /// The rank has left in order: that its connections break is no news, but a call that waits for it fails.
  void onLeft(int rank);
  /// Whether a rank where nobody listens any more has left, as far as this one can know: where another has left
  /// that words of it come by, it may have, and from now on it is said to. Any thread.
  bool hasLeft(int rank);
  /// The ranks without whose part of the call it cannot end, if it has stalled for long and is not over.
  std::vector<int> neededBy(const Run& run) const;
  /// See EngineHandler. By the driver.
  void onMismatch(Run& run, int peer, const LaneState& lane);
  void onPeerFailed(const Run& run, int peer, const transport::Breakage& why);
  void onPeerGone(int peer, const std::string& reason);
  void onMessagesLost(const Status& why);
  void onStall(Run& run, Duration stalled, const Awaited& awaited);
  /// To be called at least every 100 ms, by one thread: a symptom that has waited long enough without a cause
  /// becomes the fault.
  void tick();
  /// The error of finalize() for messages that were never received.
  Status lostMessages(const std::vector<transport::Untaken>& lost) const;

 private:
  struct Stalled {
    std::shared_ptr<const Run> run;
    CallRecord record;
    std::vector<int> needed;
    Duration since;
  };
  struct Suspicion {
    TimePoint due;
    Status status;
  };
  /// What a stalled rank tells the ranks it waits for.
  struct Comparison {
    CallRecord record;
    uint64_t collectives;  // made so far
    uint64_t sendsToYou, receivesFromYou;
    uint64_t needsYou;  // 1: it has stalled for long, and cannot go on before you are in that call
  };
  // Fails with the sentence that names both calls.
  void tellMismatch(const Mismatch& mismatch);
  // Sends the record of a stalled call, and how many calls this rank has made, to a rank it waits for.
  void sendComparison(int peer, const CallRecord& record, bool needsPeer);
  // The call of a rank needs a part of all others.
  bool needsAll(const CallRecord& record) const;
  // A broken connection is a symptom; the control tree usually knows the cause a moment later. tick() makes a
  // fault of the suspicion if no cause has come by then, after `grace`.
  void suspect(Status status, Duration grace);
  // The peer has, or a rank between it and this one has, so that its word of leaving cannot arrive.
  bool mayHaveLeft(int peer) const;
  // A finalized rank makes no more calls: the error for a rank that is stuck in a call that this one never
  // made.
  Status needsMoreCalls(int origin, const CallRecord& record) const;
  // The other rank is stuck in a call that this rank has not made. If this rank is stuck too, in a call that
  // needs the other, neither can ever go on: fails.
  void checkDeadlock(int origin, const Comparison& other);

  DiagnosisHandler& handler_;
  System& system_;
  int rank_ = 0, ranks_ = 1;
  Duration idleGrace_{};
  CallHistory history_;
  mutable std::mutex mutex_;            // of what follows
  std::optional<Suspicion> suspicion_;  // of a peer that a Run needs, or has needed
  std::map<int, Suspicion> idle_;       // of peers that no Run needs
  std::vector<Stalled> stalled_;        // the last one last
  std::set<int> left_;
};

}  // namespace eccl::runtime
