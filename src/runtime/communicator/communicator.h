// One rank's membership in a communicator. It owns everything that the rank has there (control tree, engine,
// service thread, plans), and decides what a failure means.
//
// The way of a call: plan() binds it to a Plan, number() gives it its place in the order of calls, a stream
// appends it, and the engine gets it. From its number on the other ranks count on the call: if it cannot be
// made then, the communicator fails. A blocking call with nothing before it goes straight to the engine
// (execute()). If one like it was made before, and nothing is before it in its stream, it may take the fast
// path (repeat()).
//
// Files: communicator_init.cc makes communicators, communicator_calls.cc calls, communicator_report.cc tells of
// their connections, communicator.cc has the rest.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/settings.h"
#include "runtime/communicator/circles.h"
#include "runtime/communicator/connection_list.h"
#include "runtime/communicator/diagnosis.h"
#include "runtime/communicator/estimator.h"
#include "runtime/execution/engine.h"
#include "runtime/execution/plan.h"
#include "runtime/execution/service.h"
#include "runtime/execution/stream.h"
#include "runtime/init/cluster_exchange.h"
#include "runtime/init/init_times.h"
#include "runtime/init/introductions.h"
#include "runtime/init/selection.h"
#include "transport/bootstrap/control.h"
#include "transport/bootstrap/rendezvous.h"
#include "transport/bootstrap/unique_id.h"
#include "transport/flows/flow_way.h"

namespace eccl::runtime {

/// What a communicator is made with, from settings and ecclConfig_t.
struct CommunicatorOptions {
  Settings settings;
  System* system = &System::real();  // not owned; outlives the communicator
  std::string name;                  // in messages
  bool blocking = true;
  int minChannels = 0, maxChannels = 0;  // 0: unlimited
  std::optional<ExecutorKind> device;    // its kind; nothing: host
};

/// What establish() has to know of this rank before it can meet the others.
struct Membership {
  int rank = 0, ranks = 1;
  std::optional<transport::Endpoint> parent;  // in the control tree
};

/// Owner: the API handle, and every Run in a stream.
///
/// Threads: any may make any call, except that join(), split() and destroy() are made by one, and destroy()
/// when no other call is under way. Of calls made at the same time any may be the first.
///
/// Failure: the first one stays, ends all work, and is told to all ranks. From then on calls return it.
class Communicator final : public transport::ControlHandler,
                           public EngineHandler,
                           public DiagnosisHandler,
                           public CirclesHandler,
                           public std::enable_shared_from_this<Communicator> {
 public:
  /// initialising → ready → finalising → finalised, or failed from any but the last; ready → issuing or
  /// suspended, and back. failed and finalised are final.
  enum class State : uint8_t { initialising, ready, issuing, suspended, finalising, finalised, failed };

  explicit Communicator(CommunicatorOptions options);
  ~Communicator() override;

  /// Joins through a unique id. Returns when all ranks have joined, or with an error that names those that
  /// are missing. abort() in another thread ends the wait. After an error only destroy() is left.
  Status join(transport::UniqueId id, int rank, int ranks);
  /// Begins to split this communicator, and returns the number of the split. Numbers rise in the order of the
  /// calls, which is the same on all ranks. split() or abstain() has to follow, as the other ranks wait for
  /// one of them.
  uint64_t beginSplit() { return control_->reserveGather(); }
  /// In their place: the split was refused, and nobody is to wait for it. Of several the last one first.
  void takeBackSplit(uint64_t number) { control_->giveBackGather(number); }
  /// Becomes a child of `parent` by that split: the ranks of one color, in the order of `key`, then of their
  /// ranks. Collective; blocks. Errors as of join().
  Status split(Communicator& parent, uint64_t number, int color, int key);
  /// Takes part in a split of this communicator without a color. Collective; blocks. Errors are logged.
  Status abstain(uint64_t number);

  int rank() const { return rank_; }
  int ranks() const { return ranks_; }
  const CommunicatorOptions& options() const { return options_; }
  /// Where the ranks are. Any thread, once ready.
  const Placement& placement() const { return hosts_->placement(); }
  /// The hosts and ranks as JSON (ecclTopologyExport). Once ready. Errors: RankHosts::cluster()'s, or a build
  /// without JSON.
  Result<std::string> topology() const;
  /// What its connections have carried, and how its sockets fare; empty before the ranks have met. Also when it
  /// has failed or been finalized. Any thread. Error: Engine::reports()'s.
  Result<ConnectionList> connections();
  /// By which routers flows from this rank to another go, over the first rail of each; what it says of `ports`
  /// source ports. Flows of TCP, or of UDP to the port `datagramsTo` if that is not 0. Empty: there are fewer
  /// than two routers, they say nothing, or both ranks are on one host. Blocks, a second perhaps. Any thread,
  /// once ready.
  std::vector<transport::FlowWay> traceFlows(int peer, size_t ports, uint16_t datagramsTo) const;
  /// What calls are expected to take. Any thread, once ready.
  Estimator estimator() const { return {options_.settings, rank_, ranks_, selection_, planner_->selection()}; }
  State state() const { return state_.load(std::memory_order_acquire); }
  /// What ecclCommGetAsyncError reports: ok, inProgress, or what went wrong.
  Status asyncStatus() const;
  /// Calls that were numbered get into their streams in another thread, and wait for other ranks there: until
  /// endIssuing() others cannot be made. `call`: the first of them, for people. Any thread.
  void beginIssuing(const char* call);
  void endIssuing();
  /// ok, or why a call cannot be made now. Cheap.
  Status usable() const;
  /// The same, but a suspended one is as good.
  Status made() const;
  /// Lets no call in until resume(), and gives back what is kept for calls. Error: invalidUsage if calls are
  /// under way, or made()'s. Any thread.
  Status suspend();
  /// After suspend(), or when it is usable. Error: usable()'s. Any thread.
  Status resume();

  /// Makes Runs of validated calls, in order: one for each call, with the streams in which it has its place,
  /// at least one. Without effect on the other ranks or the order of calls. Error: a call that cannot be
  /// planned, or usable()'s.
  using Streams = std::vector<std::shared_ptr<Stream>>;
  Result<std::vector<StreamItem>> plan(std::vector<Call> calls, const std::vector<Streams>& streams);
  /// Keeps other threads from making calls. Of several communicators, in the order of their addresses.
  std::unique_lock<VisibleLock> holdCalls() { return std::unique_lock(calls_); }
  /// Gives planned Runs their places in the order of calls, with holdCalls(). The caller then puts each into
  /// its streams, or fails the communicator, because the other ranks count on them. Calls are held
  /// until the engine has the Runs, since the other ends of Sends and Recvs expect messages in the order of
  /// their numbers; but not if an executor carries some, whose streams may wait for other ranks meanwhile.
  /// Error: another rank has made a different call; the communicator has failed then.
  Status number(const std::vector<StreamItem>& items);
  /// The status of a call that has no number yet. Where a device has failed, the communicator has, too.
  Status orFault(Status why);
  /// Makes a validated call when its turn in `stream` has come: plan() and number() of one call. Returns when
  /// it is queued. If an error comes after it has its number, the communicator has failed.
  Status enqueue(Call call, Stream& stream);
  /// Makes a validated call, waits for its end and returns how it went. Only when no stream has work that
  /// comes before it.
  Status execute(Call call);
  /// As execute(), or as enqueue() into `queue`, for a call like one before, where it can take the fast path:
  /// nothing is checked or planned anew. A queued call may be complete on return, if its peers come in step.
  /// True: *status, which was ok, is how it went. False: the call has to go through those.
  bool repeat(const PlainCall& call, Stream* queue, Status* status);
  /// The same for validated Sends and Recvs with other ranks, which go on together, whatever their number.
  /// Those that are not complete on return have been put into streams by `append`, in their order; null for the
  /// others. Nothing is under way in those streams. `waits`: the caller will wait for all.
  using Append = std::function<Status(std::span<const std::shared_ptr<Run>>)>;
  std::optional<Status> repeat(const PlainCalls& calls, bool waits, const Append& append);
  /// See Engine::catchUp().
  void catchUp() { engine_.catchUp(); }
  StreamItem itemOf(std::shared_ptr<Run> run) { return {shared_from_this(), &engine_, std::move(run)}; }
  const std::shared_ptr<Stream>& defaultStream() const { return defaultStream_; }
  /// Of a device's communicator, whose streams calls take; else null. Once ready.
  const std::shared_ptr<Executor>& device() const { return engine_.executors().device(); }

  /// Waits for outstanding work, and until peers have taken what was sent. Then no call can be made any more.
  /// Error (remote): they never will take some of it, as they have left or been finalized; the communicator
  /// is finalized all the same. Again: ok.
  Status finalize();
  /// Its two halves. After the first no call is let in, and asyncStatus() says inProgress; if that succeeded,
  /// the second is to follow, in any thread.
  Status beginFinalize();
  Status finishFinalize();
  /// Finalizes if it is ready, tells the peers that this rank leaves, and stops. The object is dead
  /// afterwards. Returns finalize()'s error. Again without effect.
  Status destroy();
  /// Ends all work now and tells the other ranks. When it returns, no Run is under way, and peers' access to
  /// this rank's memory is revoked. Any thread, any number of times.
  void abort();
  /// The first failure ends all work with it; later ones are ignored, and so are those after finalize().
  /// `tell`: the other ranks do not know yet. Logged. Any thread.
  void fault(const Status& why, bool tell) override;

  /// Memory that the user registers, and the end of each registration. Transports are not told of a device's.
  /// Once usable. Any thread.
  void registerMemory(const transport::MemoryRange& memory) {
    if (device() == nullptr) engine_.registerMemory(memory);
  }
  void deregisterMemory(const transport::MemoryRange& memory) {
    if (device() == nullptr) engine_.deregisterMemory(memory);
  }

  /// PreMulSum operators, by index. Index 0 is the first created; no index is used twice. Errors:
  /// invalidUsage when there are too many, invalidArgument for an index that names none. Any thread.
  Result<int> createOp(PreMul preMul);
  Status destroyOp(int index);
  Result<PreMul> op(int index) const;

  /// The rank for people: "rank 3 (node7 pid 123)", or "rank 3" before the ranks have met. Any thread.
  std::string describe(int rank) const override;
  /// Closes the descriptors in a forked child. Touches nothing that is shared with other ranks.
  void closeAfterFork();
  /// True in a forked child: the communicator is the parent's.
  bool inherited() const { return inherited_; }

  // ControlHandler, EngineHandler, DiagnosisHandler, CirclesHandler
  void onMessage(int origin, uint16_t kind, std::string_view payload) override;
  void onLost(int rank, const std::string& reason) override;
  void onLeft(int rank) override;
  void onMismatch(Run& run, int peer, const LaneState& lane) override {
    diagnosis_.onMismatch(run, peer, lane);
  }
  void onPeerFailed(Run& run, int peer, const transport::Breakage& why) override {
    diagnosis_.onPeerFailed(run, peer, why);
  }
  void onPeerGone(int peer, const std::string& reason) override { diagnosis_.onPeerGone(peer, reason); }
  void onMessagesLost(const Status& why) override { diagnosis_.onMessagesLost(why); }
  void onStall(Run& run, Duration stalled, const Awaited& awaited) override {
    diagnosis_.onStall(run, stalled, awaited);
  }
  void onInTheWay(const Run& run, std::string_view probe) override { circles_.pass(run, probe); }
  std::shared_ptr<Run> onReplay(Run& captured) override;
  void onDriverFailed(const Status& why) override;
  void onFailed(std::vector<transport::ConnectionReport> connections) override;
  void wakeService() override { service_.wake(); }
  void faultOfOthers(const Status& why) override;
  void sendComparison(int peer, std::string_view comparison) override;
  bool makesNoMoreCalls() const override;
  bool isBehind(const CallRecord& record) const override {
    return Stream::heldUp(engine_, record.scope, record.sequence).run != nullptr;
  }
  void onAwaited(int rank, const CallRecord& record) override { circles_.onAwaited(rank, record); }
  void sendProbe(int peer, std::string_view probe) override;
  void onCircle(const Status& why) override { fault(why, true); }
  std::vector<int> neededBy(const Run& run) const override { return diagnosis_.neededBy(run); }

 private:
  class Making;
  enum Kind : uint16_t { kFault = 1, kCompare = 2, kFlows = 3, kDevice = 4, kProbe = 5 };

  // The color of a rank that abstains from a split.
  static constexpr int kNoColor = -1;
  // What a rank tells the others in a split.
  static std::string splitPart(int color, int key, std::string_view endpoint);
  // Makes this rank a member: opens the listener, finds its place by `findMembership`, then makes control
  // tree, engine and service thread, and exchanges what all ranks have to know.
  template <class FindMembership>
  Status establish(uint64_t id, const transport::Secret& secret, FindMembership&& findMembership);
  // All ranks tell each other their endpoint, wire settings, host and placement; each makes the same tables
  // of it.
  Status exchange(InitTimes& times, const Status& executors);
  // How a device's executors of this communicator meet and talk.
  Meeting meeting(const RankHosts::Gather& gather);
  // How long waits spin before they yield, and how caches are used: by ranks, cores and caches of this machine.
  void shareMachine(const Placement& where, const RingShape& ring);
  // Opens the engine with the transports that the settings allow.
  Status openEngine();
  // A connection that has passed the handshake goes to the control tree or to the engine.
  void onIncoming(transport::Incoming incoming);
  // Binds one call to a Plan and a Run.
  Status plan(Run& run, Call call, bool callerBlocked);
  // What a Run gets of its call, but for the plan.
  void bind(Run& run, Call call, const UsedBuffers& buffers);
  // Gives a planned Run its number in the order of calls, and remembers the call.
  Status number(Run& run);
  // Numbers and remembers calls for the mismatch check; `record`: the first's. An error if another rank has
  // told of a different call.
  Status remember(CallRecord& record, uint64_t shape, const Plan& plan, const char* way, size_t calls = 1);
  void trace(const CallRecord& record, const Plan& plan, const char* way, size_t calls) const;
  void goOn(Run& run, const std::shared_ptr<Plan>& plan, const CallRecord& record, Call call, bool waits);
  // The Run of the last blocking call for use again, or a new one.
  std::shared_ptr<Run> spareRun();
  // With the names that the ranks' endpoints give.
  ConnectionList named(std::vector<transport::ConnectionReport> connections) const;
  // Writes ECCL_CONNECTIONS_DUMP_FILE.
  void dump(const ConnectionList& connections) const;
  // Sends a failure to all ranks over the control tree.
  void tellAll(const Status& why);
  System& system() const { return *options_.system; }
  /// For a wait of a call that makes this communicator, or a child of it.
  transport::Wait initWait() const;
  Duration initLimit() const;
  /// A host that is silent for so long is lost.
  Duration hostLimit() const;

  const CommunicatorOptions options_;
  uint64_t id_ = 0;
  transport::Secret secret_;
  int rank_ = 0, ranks_ = 1;
  std::shared_ptr<const Introductions> met_;  // constant once introduced_
  Selection selection_;                       // constant once ready
  TimePoint readySince_{};                    // likewise
  std::shared_ptr<const RankHosts> hosts_;    // likewise; a child's before it meets its ranks, from its parent

  std::atomic<State> state_{State::initialising};
  std::mutex suspending_;             // one thread suspends or resumes
  std::atomic<bool> running_{false};  // control tree, engine and service thread are there, and rank_ is known
  std::atomic<bool> introduced_{false};  // every rank has: met_ is there
  std::atomic<bool> abort_{false};
  std::atomic<bool> broken_{false};  // failed, as by an abort: ends waits for other ranks' memory
  std::mutex splitting_;
  std::vector<Communicator*> children_;  // that are being made; under splitting_
  mutable std::mutex mutex_;
  Status failure_;
  Status lost_;                        // messages, once finalised
  int issuing_ = 0;                    // threads between beginIssuing() and endIssuing()
  const char* issuedCall_ = "a call";  // the last one's

  std::unique_ptr<transport::Rendezvous> root_;  // rank 0 of a HOST:PORT id
  std::unique_ptr<transport::Acceptor> acceptor_;
  std::unique_ptr<transport::Control> control_;
  Diagnosis diagnosis_{*this, system()};
  Engine engine_;
  Circles circles_{*this, engine_, system()};
  Service service_;
  VisibleLock calls_;  // held while a call is planned, and numbered; see number(). Of what follows
  std::unique_ptr<Planner> planner_;
  std::shared_ptr<Run> spare_;  // of the blocking call before
  std::shared_ptr<Stream> defaultStream_ = std::make_shared<Stream>();
  std::map<int, PreMul> ops_;  // under mutex_
  int opsMade_ = 0;            // likewise; no number is used twice
  bool ended_ = false;
  bool inherited_ = false;
};

}  // namespace eccl::runtime
