#include "runtime/communicator.h"

#include "base/log.h"
#include "topology/cluster_json.h"

namespace eccl {
namespace {

Duration secondsOf(double seconds) {
  return Duration(static_cast<int64_t>(seconds * 1e9));
}

EngineOptions engineOptions(const Settings& settings) {
  EngineOptions options;
  options.stallTime = secondsOf(settings.stallTime);
  if (settings.spinMicroseconds > 0) options.spin = std::chrono::microseconds(settings.spinMicroseconds);
  return options;
}

}  // namespace

Communicator::Communicator(CommunicatorOptions options)
    : options_(std::move(options)), engine_(engineOptions(options_.settings), *this) {}

Communicator::~Communicator() {
  service_.stop();
}

Duration Communicator::initLimit() const {
  return secondsOf(options_.settings.initTimeout);
}

std::string Communicator::describe(int rank) const {
  size_t at = static_cast<size_t>(rank);
  if (rank == rank_) return format("rank %d (%s)", rank, localEndpoint().who().c_str());
  return at < endpoints_.size() ? format("rank %d (%s)", rank, endpoints_[at].who().c_str())
                                : format("rank %d", rank);
}

Status Communicator::asyncStatus() const {
  switch (state()) {
    case State::initialising:
      return Status::error(Code::inProgress, "the communicator is being made");
    case State::finalising:
      return Status::error(Code::inProgress, "the communicator is being finalized");
    case State::failed: {
      std::lock_guard lock(mutex_);
      return failure_;
    }
    default:
      return {};
  }
}

Status Communicator::usable() const {
  switch (state()) {
    case State::ready:
      return {};
    case State::initialising:
      return Status::error(
          Code::invalidUsage,
          "the communicator is still being made; poll ecclCommGetAsyncError until it says ecclSuccess");
    case State::failed:
      return asyncStatus();
    default:
      return Status::error(Code::invalidUsage,
                           "the communicator has been finalized; only ecclCommDestroy is left");
  }
}

Result<std::string> Communicator::topology() const {
  ECCL_ASSIGN(const Cluster cluster, hosts_.cluster());
  return toJson(cluster);
}

Status Communicator::prepare(const std::shared_ptr<Run>& run, Call call, bool callerBlocked) {
  ECCL_ASSIGN(run->plan, planner_->plan(call));
  run->record = recordOf(call, rank_);
  run->record.callerBlocked = callerBlocked;
  run->call = std::move(call);
  // A copy to oneself has no other end that could disagree.
  const bool local = run->call.pointToPoint() && run->call.root == rank_;
  return local ? Status() : remember(run->record, *run->plan, "");
}

Status Communicator::remember(CallRecord& record, const Plan& plan, const char* way) {
  if (auto mismatch = history_.add(record)) {
    tellMismatch(*mismatch);
    return asyncStatus();
  }
  ECCL_TRACE("%s: %s number %llu by %s%s", options_.name.c_str(), record.text().c_str(),
             static_cast<unsigned long long>(record.sequence), plan.algorithm, way);
  return {};
}

Result<std::vector<StreamItem>> Communicator::prepare(std::vector<Call> calls, bool callerBlocked) {
  ECCL_TRY(usable());
  std::vector<StreamItem> items;
  for (Call& call : calls) {
    auto run = std::make_shared<Run>();
    ECCL_TRY(prepare(run, std::move(call), callerBlocked));
    items.push_back({shared_from_this(), &engine_, std::move(run)});
  }
  return items;
}

// Nothing is allocated for a call like the one before. Others may still look at a Run that stalled.
const std::shared_ptr<Run>& Communicator::spareRun() {
  if (spare_ == nullptr || spare_.use_count() > 1) spare_ = std::make_shared<Run>();
  spare_->reset();
  return spare_;
}

Status Communicator::execute(Call call) {
  ECCL_TRY(usable());
  const std::shared_ptr<Run>& run = spareRun();
  ECCL_TRY(prepare(run, std::move(call), true));
  engine_.execute(run);
  return run->status;
}

std::optional<Status> Communicator::repeat(const CallKey& key, const void* send, void* receive) {
  if (state() != State::ready || !options_.blocking) return std::nullopt;
  const std::shared_ptr<Plan>* plan = planner_->known(key);
  if (plan == nullptr || (*plan)->shortCall == nullptr) return std::nullopt;
  ShortCall& shortCall = *(*plan)->shortCall;
  if (!shortCall.accepts(send, receive) || !defaultStream_->idle() || !engine_.claim()) return std::nullopt;
  CallRecord record = shortCall.record();
  const Status remembered = remember(record, **plan, ", short");  // if not ok, the engine has been told to fail
  shortCall.begin(send, receive, record.signature);
  if (engine_.drive(shortCall)) return remembered;
  const std::shared_ptr<Run>& run = spareRun();
  run->plan = *plan;
  run->record = record;
  run->call = Call();
  run->call.collective = key.collective;
  run->call.send = send;
  run->call.receive = receive;
  run->call.count = key.count;
  run->call.type = key.type;
  run->call.op = key.op;
  run->call.root = key.root;
  engine_.execute(run, shortCall);
  return run->status;
}

Status Communicator::finalize() {
  if (state() == State::finalised) return {};
  ECCL_TRY(usable());
  state_.store(State::finalising, std::memory_order_release);
  // Peers take what was sent, or leave, or die: each of these ends the wait.
  bool drained = engine_.drain(TimePoint::max());
  if (!drained) return asyncStatus();
  State expected = State::finalising;
  state_.compare_exchange_strong(expected, State::finalised);
  return asyncStatus();
}

Status Communicator::destroy() {
  Status status;
  if (state() == State::ready) status = finalize();
  if (ended_) return status;
  ended_ = true;
  // Long enough for the neighbours' service threads to answer, short enough for one thread that destroys many.
  if (control_ != nullptr) control_->goodbye(Wait::within(std::chrono::milliseconds(250)));
  service_.stop();
  root_.reset();
  return status;
}

void Communicator::abort() {
  abort_.store(true, std::memory_order_release);
  if (state() != State::failed) {
    fault(Status::error(Code::remote, "%s aborted the communicator%s%s", describe(rank_).c_str(),
                        options_.name.empty() ? "" : " ", options_.name.c_str()),
          true);
  }
  if (planner_ != nullptr) engine_.quiesce();
}

Result<int> Communicator::createOp(PreMul preMul) {
  for (size_t i = 0; i < ops_.size(); ++i) {
    if (ops_[i].has_value()) continue;
    ops_[i] = preMul;
    return static_cast<int>(i);
  }
  ops_.push_back(preMul);
  return static_cast<int>(ops_.size()) - 1;
}

Status Communicator::destroyOp(int index) {
  if (index < 0 || static_cast<size_t>(index) >= ops_.size() || !ops_[static_cast<size_t>(index)].has_value()) {
    return Status::error(Code::invalidArgument,
                         "operator %d was not created on this communicator, or is destroyed", index + 5);
  }
  ops_[static_cast<size_t>(index)].reset();
  return {};
}

Result<PreMul> Communicator::op(int index) const {
  if (index < 0 || static_cast<size_t>(index) >= ops_.size() || !ops_[static_cast<size_t>(index)].has_value()) {
    return Status::error(Code::invalidArgument,
                         "reduction operator %d is neither built in nor created on this communicator",
                         index + 5);
  }
  return *ops_[static_cast<size_t>(index)];
}

Result<void*> Communicator::registerMemory(void* base, size_t bytes) {
  ECCL_TRY(usable());
  auto window = std::make_unique<Window>(Window{static_cast<std::byte*>(base), bytes});
  void* handle = window.get();
  registered_[handle] = std::move(window);
  return handle;
}

Status Communicator::deregisterMemory(void* handle) {
  if (registered_.erase(handle) > 0) return {};
  return Status::error(Code::invalidArgument,
                       "ecclCommDeregister: %p is no handle of this communicator, or was deregistered", handle);
}

void Communicator::closeAfterFork() {
  inherited_ = true;
  if (acceptor_ != nullptr) acceptor_->closeAfterFork();
  if (control_ != nullptr) control_->closeAfterFork();
  if (root_ != nullptr) root_->closeAfterFork();
  engine_.closeAfterFork();
  service_.closeAfterFork();
}

}  // namespace eccl
