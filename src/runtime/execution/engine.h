// Executes Runs, and has the rule that whoever waits drives.
//
// One thread at a time is the driver: it alone touches connections, lanes and the reactor. A thread that
// waits for a Run becomes the driver if nobody is; otherwise it sleeps until the Run is done or the role is
// free. When nobody waits, the communicator's service thread drives (serve()). docs/threading.md says more.
//
// Runs start in the order in which they were submitted, which is the order of the calls and so the same on
// all ranks. Each takes a ticket at every connection it uses; a lane runs while its tickets are served. So
// Runs that share no connection go on side by side, and Runs that do follow one another lane by lane.
//
// The life of a Run: submit() queues it. The driver takes its tickets, in the order of submission. When no
// stream holds it any more, it gets scratch and lane states, and its lanes go on as their tickets are served.
// When all lanes are complete, its status is set, onDone is called, and threads that wait for it wake up. A Run
// that was captured into a graph is complete at once, and kept: the engine looks after what the graph does.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/visible_lock.h"
#include "runtime/execution/driver_role.h"
#include "runtime/execution/fast_group.h"
#include "runtime/execution/run.h"
#include "runtime/execution/stall_watch.h"
#include "runtime/executor/executors.h"
#include "transport/connect/connector.h"
#include "transport/core/connection_report.h"
#include "transport/core/reactor.h"

namespace eccl::runtime {

/// Told by the driver, no lock held, except where said.
class EngineHandler {
 public:
  virtual ~EngineHandler() = default;
  /// A lane got a message that does not fit its call, from `peer`.
  virtual void onMismatch(Run& run, int peer, const LaneState& lane) = 0;
  /// A lane found its peer failed or unreachable. The Run does not go on, and may be told of again until it is
  /// ended by Engine::fail().
  virtual void onPeerFailed(Run& run, int peer, const transport::Breakage& why) = 0;
  /// A connection did, for which no lane waited.
  virtual void onPeerGone(int peer, const std::string& reason) = 0;
  /// What was sent to a rank, by Runs that may be over, will not be received. It may be the consequence of
  /// another failure. An engine that has drained tells of it by onDriverFailed(), too.
  virtual void onMessagesLost(const Status& why) = 0;
  /// Nothing has moved in `run` for `stalled`.
  virtual void onStall(Run& run, Duration stalled, const Awaited& awaited) = 0;
  /// A call that others perhaps wait for is behind `run` in a stream: see Circles::pass(). Any thread.
  virtual void onInTheWay(const Run& /*run*/, std::string_view /*probe*/) {}
  /// The driver could not go on, for want of memory or by a defect, or a device has failed, or a rail. To be
  /// answered by Engine::fail().
  virtual void onDriverFailed(const Status& why) = 0;
  /// The engine has failed, and its peers have been told. Once, if EngineOptions::reportsFailure, before the
  /// Runs end: who waits for one finds what is done here.
  virtual void onFailed(std::vector<transport::ConnectionReport> /*connections*/) {}
  /// A graph makes the call of `captured` again: a Run of it, numbered, to be begun now. Null: another rank's
  /// graph has made another call, and the communicator has failed.
  virtual std::shared_ptr<Run> onReplay(Run& /*captured*/) { return nullptr; }
  /// There is work that nobody waits for: have serve() called. Any thread, with a lock held: must not call
  /// back.
  virtual void wakeService() = 0;
};

/// stallTime: how long nothing moves in a Run before that is told, and the longest that a driver sleeps.
/// spin: how long a wait looks before it yields. reportsFailure: onFailed() is to be called.
struct EngineOptions {
  Duration stallTime = std::chrono::milliseconds(100);
  Duration spin{};  // until setSpin()
  bool reportsFailure = false;
  System* system = &System::real();
};

/// The connections and Runs of one rank. Owner: the communicator. Threads: as each call says. Failure: fail()
/// ends all Runs, now and to come, with one reason; each Run has its own Status.
class Engine : DriverRole::Bells {
 public:
  /// `handler` is there until close().
  Engine(EngineOptions options, EngineHandler& handler);
  ~Engine();
  /// Makes reactor and Connector; needed before anything else. ConnectorOptions::onBroken is set here. Error:
  /// system.
  Status open(transport::ConnectorOptions connectorOptions);
  /// Makes the executors; needed before Runs. `device`: the communicator is of that kind. Error: an executor's;
  /// logged.
  Status openExecutors(const std::optional<ExecutorKind>& device);

  /// From here on what executors ring comes to nothing: their streams may outlive the handler. Idempotent; by
  /// the owner, when nothing is under way.
  void close();

  /// How long a wait looks before it yields. Any thread.
  void setSpin(Duration spin) { spin_.store(spin, std::memory_order_relaxed); }
  /// The rings of connections to come, and how they use memory on this host; see transport::TransportContext.
  /// Before the first Run. Any thread.
  void setRings(const RingShape& ring, uint32_t directFrom, uint64_t slotSpread);
  /// See TransportContext::nearPorts. Before the first call.
  void setNearPorts(std::vector<std::string> names);
  /// Bytes of the largest cache that are this rank's. Before the first Run.
  void setCacheShare(size_t bytes) { cacheShare_ = bytes; }
  /// What runs the calls' work. Any thread, once open.
  const Executors& executors() const { return executors_; }
  /// Queues Runs that are planned and numbered, in the order of the calls. Each begins when nothing holds it,
  /// which may be at once. If it throws (bad_alloc), none is queued. Any thread.
  void submit(std::span<const std::shared_ptr<Run>> runs);
  /// Takes one hold from each: its turn has come in one stream more. May come before submit() of the Run. Any
  /// thread.
  void release(std::span<const std::shared_ptr<Run>> runs);
  /// EngineHandler::onInTheWay(), said by a communicator of this process. Any thread.
  void pass(const Run& run, std::string_view probe) { handler_.onInTheWay(run, probe); }
  /// Ends a Run that was never submitted, and never will be. Any thread.
  void reject(Run& run, const Status& why) { complete(run, why); }
  /// Submits a Run without holds and waits for its end, which is in run->status. `others`, if it is held, keeps
  /// other calls from being submitted: given up before the wait. Nobody else need be woken. Any thread.
  void execute(const std::shared_ptr<Run>& run, std::unique_lock<VisibleLock> others = {});
  /// If nothing else is under way and calls with this key have a FastPath, makes the caller the driver: the
  /// plan, valid while it drives. Else null. Until leave(), drive(), execute() or submit() has given the role
  /// up nothing may be thrown.
  const std::shared_ptr<Plan>* claim(const CallKey& key) {
    if (!role_.claim()) return nullptr;
    const std::shared_ptr<Plan>* const found = repeatable(key);
    if (found == nullptr) leave();
    return found;
  }
  /// After claim(): whether somebody has submitted something since.
  bool news() const { return role_.news(); }
  /// After claim(): nothing was begun, or it cannot go on.
  void leave() { role_.leave(left()); }
  /// After claim(), and FastPath::begin(). True: the call is complete and the role given up. False: it takes
  /// long or is unusual, and the caller still has the role. `queued`: see FastLooks.
  template <class Prepared>  // FastPath, or FastGroup: then it is all its members
  bool drive(Prepared& calls, bool queued) {
    disarm();
    bool complete = false;
    const auto stop = [this] { return failing() || role_.news(); };
    const Status status = guarded("moving data", [&] {
      complete = calls.run(manner(queued), *options_.system, stop);
      return Status();
    });
    if (!status.ok()) handler_.onDriverFailed(status);  // so the Run that goes on ends
    if (!complete) return false;
    const FastPath::Wakes wakes = calls.wakes();  // the plan may go with the role
    role_.leave(left());
    fenceAfterStore();
    wakes.now();
    return true;
  }
  /// After drive() said false: goes on with the call as `run` until it is done, and gives up the role.
  void execute(const std::shared_ptr<Run>& run, const FastPath& call);
  /// The same, but leaves `run` to whoever waits for it or drives next.
  void submit(const std::shared_ptr<Run>& run, const FastPath& call);
  /// As claim(), of Sends and Recvs with other ranks that are made together. Null: one of them has no FastPath,
  /// they are too many, or there is no memory.
  FastGroup* claim(const PlainCalls& calls);
  /// After drive() said false: goes on with each call that is not complete as the Run of that index. `waits`:
  /// until they are done, as execute(); else as submit().
  void goOn(std::span<const std::shared_ptr<Run>> runs, FastGroup& group, bool waits);
  /// Goes on with what is queued, if that is short calls only, as far as that goes within some microseconds,
  /// unless somebody drives. Any thread.
  void catchUp();
  /// Returns when the Run is done; drives meanwhile if nobody else does. Any thread.
  void wait(Run& run);
  /// Drives until all Runs have ended and everything sent has been taken by its receivers, or cannot be any
  /// more: *lost says what. False: the engine has failed. No Run may be submitted any more. Any thread.
  bool drain(std::vector<transport::Untaken>* lost);

  /// Gives back what is kept for calls to come: their plans, and the pages of rings that this rank owns, or
  /// writes to and whose messages have been taken. False: a Run is under way, or the engine has failed, and
  /// nothing was given back. Asked of whoever drives, as reports(). Any thread but the driver.
  bool rest();

  /// An authenticated data connection. Any thread.
  void adopt(transport::Incoming incoming);
  /// See Connector::hearFlows(). Any thread.
  void hearFlows(int origin, std::string_view message);
  /// The rank has left in order: that its connections break is no news. Any thread.
  void expectEnd(int rank);
  /// Has every Run end with `why`, now and in future: soon, by whoever drives. The first reason stays. Any
  /// thread, the driver included.
  void fail(const Status& why);
  /// After fail(): returns when every Run has ended, no executor touches memory any more, and peers' access
  /// to it is revoked (Path::poison()). Any thread but the driver.
  void quiesce();

  /// What the connections have carried so far, and how their sockets fare. Asked of whoever drives, who is
  /// woken for it; also after fail(). Error (system): no memory. Any thread but the driver.
  Result<std::vector<transport::ConnectionReport>> reports();

  /// By the service thread: drives for a moment if nobody waits. True: it did; it is to be called again when
  /// fd() becomes readable, and at serveDeadline(). False: somebody else drives, or is about to; to be called
  /// again at serveDeadline(), or when woken.
  bool serve();
  /// By the service thread: when serve() is due although fd() is silent.
  TimePoint serveDeadline() const { return serveDeadline_; }
  int fd() const { return reactor_.fd(); }
  /// Memory that the user registers, and the end of each registration: see RankTransports. Any thread, after
  /// open().
  void registerMemory(const transport::MemoryRange& memory);
  void deregisterMemory(const transport::MemoryRange& memory);
  /// In a forked child: closes descriptors. Nothing else is to be called.
  void closeAfterFork();

 private:
  struct Recent {
    CallKey key;
    const std::shared_ptr<Plan>* plan = nullptr;  // in repeatable_
  };
  /// By the driver. A program makes the same few calls again and again.
  const std::shared_ptr<Plan>* repeatable(const CallKey& key) {
    const auto what = static_cast<uint64_t>(key.collective) ^ static_cast<uint64_t>(key.root) ^ key.count;
    Recent& recent = recent_[what % recent_.size()];
    return recent.plan != nullptr && recent.key == key ? recent.plan : findRepeatable(key, recent);
  }
  const std::shared_ptr<Plan>* findRepeatable(const CallKey& key, Recent& recent);
  void forgetRepeatable();
  bool drive();  // one pass; true if anything moved
  /// Whatever goes wrong in `body`, the driver's role can be given up afterwards.
  template <class Body>
  void asDriver(Body&& body) {
    const Status status = guarded("moving data", [&] { return body(), Status(); });
    if (!status.ok()) handler_.onDriverFailed(status);
    if (failing()) failActive();
  }
  void takeQueued();
  void keepCaptured(const std::shared_ptr<Run>& run);
  void takeReplays();
  void admit(Run& run);
  Status begin(Run& run);
  template <class HandOver>
  void start(const std::shared_ptr<Run>& run, HandOver&& handOver);
  void prepare(Run& run);
  void count(Run& run);
  void useMemory(Run& run);
  void startLane(Run& run, int lane);
  bool advanceLane(Run& run, int lane);
  bool advanceCarried(Run& run);
  void limitAhead(Run& run, int lane, uint32_t messages);
  void finishMoves(Run& run, int lane);
  void laneFailed(Run& run, int lane);
  void complete(Run& run, Status status);
  void checkStalls();
  void lookAtCaptured();
  void tellStalls(std::span<const std::shared_ptr<Run>> runs);
  /// Of a driver, since something last moved.
  struct Looks {
    unsigned made = 0;
    bool yielding = false;
    bool shared = false;  // the processor, with a peer
    TimePoint since{};
  };
  void idle(Looks& looks);
  bool peersWaitHere() const;
  void lookAtSockets();
  void driveFor(Run& run);
  void sleep();
  Duration longestSleep() const;
  void failActive();
  std::vector<transport::ConnectionReport> lookAtConnections();
  struct Question;
  Status ask(std::function<void()> look);
  void answer(std::vector<std::shared_ptr<Question>>& questions) noexcept;
  void stopExecutors();
  bool failing() const { return failing_.load(); }  // pairs with fail()
  DriverRole::Left left() const {
    if (!active_.empty()) return DriverRole::Left::running;
    return pending_.empty() ? DriverRole::Left::nothing : DriverRole::Left::held;
  }
  void ringDriver() override { reactor_.ring(); }
  void wakeService() override { handler_.wakeService(); }
  bool relayMessages();
  void tellOfRelays(Run& run, const Awaited& awaited);
  bool relayed(TimePoint since);
  bool relays() const { return executors_.device() != nullptr && executors_.device()->relays(); }
  void losePatience();
  void leaveToCaller();
  FastLooks::Manner manner(bool queued) const {
    return {spin_.load(std::memory_order_relaxed) > Duration::zero(), queued};
  }
  void arm();
  void disarm() {
    if (armed_) stopRings();
  }
  void stopRings();

  const EngineOptions options_;
  EngineHandler& handler_;
  transport::Reactor reactor_;
  /// By which executors reach the engine until it is closed. Their streams and threads may outlive it.
  struct Bell {
    std::mutex mutex;
    Engine* engine;
  };
  std::shared_ptr<Bell> bell_;
  Executors executors_;
  std::unique_ptr<transport::Connector> connector_;

  /// What other threads have brought, for the driver. Under the role's mutex.
  struct Inbox {
    std::vector<std::shared_ptr<Run>> queued, released;
    std::vector<transport::Incoming> incoming;
    std::vector<int> leaving;
    std::vector<std::pair<int, std::string>> flows;  // messages, by their origins
    std::vector<std::shared_ptr<Question>> questions;
  };
  DriverRole role_;
  Inbox inbox_;
  Status failure_;  // under the role's mutex too
  std::atomic<bool> failing_{false};
  std::atomic<int> longRuns_{0};  // submitted and not complete, of plans without a FastPath

  std::atomic<Duration> spin_;
  size_t cacheShare_ = SIZE_MAX / 8;

  // The driver's.
  std::unordered_map<CallKey, std::shared_ptr<Plan>, CallKeyHash> repeatable_;  // plans that have a FastPath
  std::array<Recent, 8> recent_;                                                // of them, looked up last
  FastGroup group_;
  bool peersCame_ = true;  // when calls that are queued were last looked at
  StallWatch stalls_;
  std::unordered_map<const Run*, std::shared_ptr<Run>> pending_;  // not released yet
  std::vector<std::shared_ptr<Run>> active_;
  std::vector<std::shared_ptr<Run>> captured_;  // done, but their graphs make the calls again
  size_t replayed_ = 0;                         // of these, those that become Runs each time
  TimePoint capturedLookAt_{};                  // when they were looked at last
  bool poisoned_ = false;
  bool draining_ = false;  // no Run will come
  Status messagesLost_;    // as onMessagesLost() was told; ok: none
  bool toldOfReceivers_ = false;
  std::vector<std::unique_ptr<transport::MemoryUse>> relaysUse_;  // while there are connections
  bool armed_ = false;                                            // peers have been asked to ring
  TimePoint serveDeadline_ = TimePoint::max();                    // the service thread's
};

}  // namespace eccl::runtime
