// A communicator at work: states, faults, finalizing, aborting and operators. The making of communicators and
// that of calls have files of their own.
#include "runtime/communicator/communicator.h"

#include "algorithms/builder/collective.h"
#include "base/log.h"
#include "eccl/eccl.h"
#include "topology/formats/cluster_json.h"
#include "transport/net/bytes.h"

namespace eccl::runtime {
namespace {

Duration secondsOf(double seconds) {
  return Duration(static_cast<int64_t>(seconds * 1e9));
}

EngineOptions engineOptions(const Settings& settings, System& system) {
  EngineOptions options;
  options.system = &system;
  options.stallTime = secondsOf(settings.stallTime);
  options.reportsFailure = !settings.connectionsDump.empty();
  if (settings.spinMicroseconds > 0) options.spin = std::chrono::microseconds(settings.spinMicroseconds);
  return options;
}

}  // namespace

Communicator::Communicator(CommunicatorOptions options)
    : options_(std::move(options)), engine_(engineOptions(options_.settings, system()), *this) {}

Communicator::~Communicator() {
  engine_.close();  // streams of its executors wake the service thread
  service_.stop();
}

Duration Communicator::initLimit() const {
  return secondsOf(options_.settings.initTimeout);
}

Duration Communicator::hostLimit() const {
  return secondsOf(options_.settings.heartbeatTimeout);
}

transport::Wait Communicator::initWait() const {
  return transport::Wait::within(initLimit(), &abort_, system());
}

std::string Communicator::describe(int rank) const {
  size_t at = static_cast<size_t>(rank);
  if (rank == rank_) return format("rank %d (%s)", rank, transport::localEndpoint(system()).who().c_str());
  return introduced_.load(std::memory_order_acquire) && at < met_->endpoints.size()
             ? format("rank %d (%s)", rank, met_->endpoints[at].who().c_str())
             : format("rank %d", rank);
}

Status Communicator::asyncStatus() const {
  switch (state()) {
    case State::initialising:
      return Status::error(Code::inProgress, "the communicator is being made");
    case State::issuing:
      return Status::error(Code::inProgress, "a call waits for those of other ranks");
    case State::finalising:
      return Status::error(Code::inProgress, "the communicator is being finalized");
    case State::failed: {
      std::lock_guard lock(mutex_);
      return failure_;
    }
    case State::finalised: {
      std::lock_guard lock(mutex_);
      return lost_;
    }
    default:
      return {};
  }
}

Status Communicator::made() const {
  return state() == State::suspended ? Status() : usable();
}

Status Communicator::usable() const {
  switch (state()) {
    case State::ready:
      return {};
    case State::suspended:
      return Status::error(Code::invalidUsage,
                           "rank %d has suspended the communicator; call ecclCommResume first", rank_);
    case State::initialising:
      return Status::error(
          Code::invalidUsage,
          "the communicator is still being made; poll ecclCommGetAsyncError until it says ecclSuccess");
    case State::issuing: {
      std::lock_guard lock(mutex_);
      return Status::error(
          Code::invalidUsage,
          "%s of rank %d still waits for those of other ranks; poll ecclCommGetAsyncError until it says "
          "ecclSuccess",
          issuedCall_, rank_);
    }
    case State::failed:
      return asyncStatus();
    default:
      return Status::error(Code::invalidUsage,
                           "the communicator has been finalized; only ecclCommDestroy is left");
  }
}

// Several threads may. One that has failed stays so.
void Communicator::beginIssuing(const char* call) {
  std::lock_guard lock(mutex_);
  ++issuing_;
  issuedCall_ = call;
  State expected = State::ready;
  state_.compare_exchange_strong(expected, State::issuing);
}

void Communicator::endIssuing() {
  std::lock_guard lock(mutex_);
  State expected = State::issuing;
  if (--issuing_ == 0) state_.compare_exchange_strong(expected, State::ready);
}

Result<std::string> Communicator::topology() const {
  ECCL_ASSIGN(const topology::Cluster cluster, hosts_->cluster());
  return topology::toJson(cluster);
}

Status Communicator::suspend() {
  std::lock_guard suspending(suspending_);
  State expected = State::ready;
  // From here on no call is let in, but for those that have looked at the state already.
  if (!state_.compare_exchange_strong(expected, State::suspended, std::memory_order_acq_rel)) return made();
  if (!engine_.rest()) {
    expected = State::suspended;
    state_.compare_exchange_strong(expected, State::ready, std::memory_order_acq_rel);
    ECCL_TRY(usable());
    return Status::error(
        Code::invalidUsage,
        "ecclCommSuspend: calls of rank %d are under way on the communicator; wait for them first", rank_);
  }
  std::lock_guard lock(calls_);
  spare_.reset();
  planner_->forget();
  return made();
}

Status Communicator::resume() {
  std::lock_guard suspending(suspending_);
  State expected = State::suspended;
  state_.compare_exchange_strong(expected, State::ready, std::memory_order_acq_rel);
  return usable();
}

Status Communicator::beginFinalize() {
  if (state() == State::suspended) ECCL_TRY(resume());
  State expected = State::ready;
  if (!state_.compare_exchange_strong(expected, State::finalising, std::memory_order_acq_rel)) return usable();
  return {};
}

Status Communicator::finishFinalize() {
  // Peers take what was sent, or say that they will not, or leave, or die: each of these ends the wait.
  std::vector<transport::Untaken> lost;
  if (!engine_.drain(&lost)) return asyncStatus();
  if (!lost.empty()) {
    Status why = logged(diagnosis_.lostMessages(lost));
    std::lock_guard lock(mutex_);
    lost_ = std::move(why);
  }
  State expected = State::finalising;
  state_.compare_exchange_strong(expected, State::finalised);
  return asyncStatus();
}

Status Communicator::finalize() {
  if (state() == State::finalised) return {};
  ECCL_TRY(beginFinalize());
  return finishFinalize();
}

Status Communicator::destroy() {
  Status status;
  if (state() == State::ready || state() == State::suspended) status = finalize();
  if (ended_) return status;
  ended_ = true;
  if (!options_.settings.connectionsDump.empty() && state() == State::finalised) {
    if (const auto list = connections(); list.ok()) dump(*list);
  }
  // The process may end next. The end of a connection with unread heartbeats destroys what is on its way, and
  // this rank would look dead: so it waits for the neighbours' service threads, which a busy host may keep from
  // its cores as long as it may be silent. After a failure a neighbour may never answer.
  if (control_ != nullptr) {
    const Duration patience = state() == State::finalised ? hostLimit() : std::chrono::milliseconds(250);
    control_->disconnect(transport::Wait::within(patience, nullptr, system()));
  }
  service_.stop();
  root_.reset();
  return status;
}

void Communicator::abort() {
  abort_.store(true, std::memory_order_release);
  {
    std::lock_guard lock(splitting_);
    for (Communicator* const child : children_)
      child->abort();  // ecclCommAbort() waits for those who make them
  }
  const bool running = running_.load();
  if (state() != State::failed) {
    fault(Status::error(Code::remote, "%s aborted the communicator%s%s",
                        running ? describe(rank_).c_str() : transport::localEndpoint(system()).who().c_str(),
                        options_.name.empty() ? "" : " ", options_.name.c_str()),
          true);
  }
  if (running) engine_.quiesce();
}

Result<int> Communicator::createOp(PreMul preMul) {
  ECCL_TRY(usable());
  std::lock_guard lock(mutex_);
  if (opsMade_ == ecclMaxRedOp - ecclNumOps)
    return Status::error(Code::invalidUsage, "no more than %d operators can be created on a communicator",
                         opsMade_);
  ops_[opsMade_] = preMul;
  return opsMade_++;
}

Status Communicator::destroyOp(int index) {
  std::lock_guard lock(mutex_);
  if (ops_.erase(index) > 0) return {};
  return Status::error(Code::invalidArgument,
                       "operator %d was not created on this communicator, or is destroyed", index + ecclNumOps);
}

Result<PreMul> Communicator::op(int index) const {
  std::lock_guard lock(mutex_);
  const auto found = ops_.find(index);
  if (found != ops_.end()) return found->second;
  return Status::error(Code::invalidArgument,
                       "reduction operator %d is neither built in nor created on this communicator",
                       index + ecclNumOps);
}

void Communicator::fault(const Status& why, bool tell) {
  {
    std::lock_guard lock(mutex_);
    if (state() == State::failed || state() == State::finalised) return;
    failure_ = why;
    state_.store(State::failed);  // before the look at running_: establish() does it the other way round
  }
  broken_.store(true, std::memory_order_release);
  if (!running_.load()) return logged(why).ignore();  // whoever makes it finds it failed
  ECCL_WARN("communicator %016llx%s%s, rank %d of %d: %s", static_cast<unsigned long long>(id_),
            options_.name.empty() ? "" : " ", options_.name.c_str(), rank_, ranks_, why.message().c_str());
  if (tell) tellAll(why);
  control_->cancelGathers(why);  // splits under way
  engine_.fail(why);
  if (device() != nullptr) device()->fail();
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
  if (kind == kFault) {
    transport::ByteReader reader(payload);
    auto code = reader.get<uint8_t>();
    std::string text(reader.text(1 << 16));
    if (!reader.finished() || code == 0 || code > static_cast<uint8_t>(Code::timeout)) return;
    fault(Status::error(static_cast<Code>(code), "%s", text.c_str()), false);
  } else if (kind == kCompare) {
    diagnosis_.onComparison(origin, payload);
  } else if (kind == kProbe) {
    circles_.onProbe(payload);
  } else if (kind == kFlows) {
    engine_.hearFlows(origin, payload);
  } else if (kind == kDevice && device() != nullptr) {
    const Status heard = device()->hear(origin, payload);
    if (!heard.ok()) fault(heard, true);
  }
}

void Communicator::onLost(int rank, const std::string& reason) {
  // The tree tells everybody itself.
  fault(Status::error(Code::remote, "%s is lost: %s", describe(rank).c_str(), reason.c_str()), false);
}

void Communicator::onLeft(int rank) {
  diagnosis_.onLeft(rank);
  engine_.expectEnd(rank);
}

void Communicator::faultOfOthers(const Status& why) {
  if (state() != State::finalised) return fault(why, true);
  tellAll(logged(why));  // this rank is through
}

void Communicator::sendComparison(int peer, std::string_view comparison) {
  control_->send(peer, kCompare, comparison).ignore();  // a peer that cannot be reached is lost, which is told
}

void Communicator::sendProbe(int peer, std::string_view probe) {
  control_->send(peer, kProbe, probe).ignore();  // as a comparison
}

bool Communicator::makesNoMoreCalls() const {
  return state() == State::finalising || state() == State::finalised;
}

void Communicator::closeAfterFork() {
  inherited_ = true;
  defaultStream_->closeAfterFork();
  if (acceptor_ != nullptr) acceptor_->closeAfterFork();
  if (control_ != nullptr) control_->closeAfterFork();
  if (root_ != nullptr) root_->closeAfterFork();
  engine_.closeAfterFork();
  service_.closeAfterFork();
}

}  // namespace eccl::runtime
