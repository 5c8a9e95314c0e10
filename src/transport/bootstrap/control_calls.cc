// Control, the callers' side: everything that other threads ask of the service thread.
#include <algorithm>
#include <cstring>

#include "base/log.h"
#include "transport/bootstrap/control.h"
#include "transport/net/dialer.h"
#include "transport/net/doorbell.h"

namespace eccl::transport {
namespace {

constexpr Duration kListGrace = std::chrono::seconds(1);  // for rank 0's list of the missing to arrive

// In the Hello of a control connection, for messages only.
struct ControlPayload {
  int32_t pid = 0;
  char host[28] = {};
};

std::string describe(int rank, const Hello& hello) {
  auto payload = hello.payloadAs<ControlPayload>();
  payload.host[sizeof payload.host - 1] = '\0';
  for (char& c : payload.host) c = c != '\0' && (c < 0x21 || c > 0x7e) ? '?' : c;
  return format("rank %d (%s pid %d)", rank, payload.host, payload.pid);
}

}  // namespace

// The mutex orders commands of one thread; the event wakes the service thread out of its sleep.
void Control::post(Command command) {
  {
    std::lock_guard lock(mutex_);
    commands_.push_back(std::move(command));
  }
  ringBell(wake_);
}

void Control::adopt(Incoming incoming) {
  // Authenticated, so from this job; but it may have been meant for another communicator or another rank.
  const int rank = incoming.hello.rank;
  if (incoming.hello.purpose != Purpose::control || incoming.hello.communicator != communicator_ ||
      rank >= nranks_ || rank == 0 || treeParent(rank) != rank_) {
    ECCL_WARN(
        "rank %d dropped a %s connection of rank %d from %s: it is no child in this communicator's control "
        "tree",
        rank_, nameOf(incoming.hello.purpose), rank, incoming.peer.c_str());
    return;
  }
  Command command;
  command.what = Command::What::adopt;
  command.who = describe(rank, incoming.hello);
  command.socket = std::move(incoming.socket);
  command.rank = rank;
  post(std::move(command));
}

// Dials in the caller's thread, which may block, and hands the socket to the service thread.
Status Control::connect(const std::optional<Endpoint>& parent, const Wait& wait) {
  Status status;
  if (rank_ > 0) {
    const int parentRank = treeParent(rank_);
    Hello hello;
    hello.purpose = Purpose::control;
    hello.communicator = communicator_;
    hello.rank = rank_;
    ControlPayload payload;
    const Endpoint self = localEndpoint(*options_.system);
    payload.pid = self.pid;
    self.host.copy(payload.host, sizeof payload.host - 1);
    hello.setPayload(payload);
    DialOptions options;
    options.peer = format("rank %d (%s), the parent in the control tree", parentRank,
                          parent ? parent->who().c_str() : "unknown");
    options.retry = true;  // a busy acceptor may shed load
    Result<Stream> socket = dial(parent ? *parent : Endpoint(), secret_, hello, options, wait);
    if (socket.ok()) {
      Command command;
      command.what = Command::What::adopt;
      command.rank = parentRank;
      command.who = format("rank %d (%s)", parentRank, parent->who().c_str());
      command.socket = socket.take();
      post(std::move(command));
    } else {
      status = Status::error(socket.status().code(), "rank %d: %s", rank_, socket.status().message().c_str());
      if (!wait.aborted()) reportMissing(parentRank, status.message());
    }
  }
  if (status.ok()) status = awaitNeighbours(wait);
  return logged(status);
}

// Sleeps in slices, because an abort flag cannot notify.
Status Control::awaitNeighbours(const Wait& wait) {
  std::vector<int> missing;
  std::unique_lock lock(mutex_);
  while (true) {
    missing.clear();
    for (const Neighbour& n :
         neighbours_) {  // ranks are constant; the rest of a Neighbour is the service thread's
      if (n.rank >= 0 && std::find(connected_.begin(), connected_.end(), n.rank) == connected_.end())
        missing.push_back(n.rank);
    }
    if (missing.empty()) return broken_;
    if (!broken_.ok()) return broken_;
    if (wait.aborted()) return abortedWhile("waiting for the control tree");
    if (wait.expired()) break;
    wait.on(changed_, lock);
  }
  lock.unlock();
  Status status = Status::error(
      Code::timeout,
      "rank %d: %s joined the rendezvous but did not connect to the control tree in time: check that "
      "they still run and can reach this host's ports",
      rank_, nameRanks(missing).c_str());
  for (int child : missing) reportMissing(child, status.message());
  return status;
}

// The rest of the tree learns it too.
void Control::reportMissing(int rank, const std::string& why) {
  Command command;
  command.what = Command::What::report;
  command.frame = {{.type = FrameType::departed, .target = rank}, why};
  post(std::move(command));
}

Status Control::flood(uint16_t kind, std::string_view payload) {
  return submit(FrameType::flood, 0, kind, payload);
}

Status Control::send(int target, uint16_t kind, std::string_view payload) {
  if (target < 0 || target >= nranks_ || target == rank_) {
    return Status::error(Code::internal, "rank %d of %d cannot send a control message to rank %d", rank_,
                         nranks_, target);
  }
  return submit(FrameType::routed, target, kind, payload);
}

Status Control::submit(FrameType type, int target, uint16_t kind, std::string_view payload) {
  if (payload.size() > Frame::kMaxBody) {
    return Status::error(Code::internal, "rank %d: a control message of %zu MiB exceeds the limit of %u MiB",
                         rank_, payload.size() >> 20, Frame::kMaxBody >> 20);
  }
  Command command;
  command.frame = {{.type = type, .kind = kind, .origin = rank_, .target = target}, std::string(payload)};
  post(std::move(command));
  return {};
}

uint64_t Control::reserveGather() {
  std::lock_guard lock(mutex_);
  return gathersBegun_++;
}

void Control::giveBackGather(uint64_t number) {
  std::lock_guard lock(mutex_);
  if (gathersBegun_ == number + 1) gathersBegun_ = number;
}

void Control::cancelGathers(const Status& why) {
  std::lock_guard lock(mutex_);
  breakGathers(why);
}

// Under the mutex.
void Control::breakGathers(const Status& why) {
  if (broken_.ok()) broken_ = why;
  for (auto& [sequence, outcome] : outcomes_) {
    if (!outcome) outcome = broken_;
  }
  changed_.notifyAll();
}

Status Control::checkPart(std::string_view mine) const {
  if (mine.size() <= kMaxPart) return {};
  return Status::error(Code::invalidArgument,
                       "rank %d: a part of %zu bytes for an allGather exceeds the limit of %zu bytes", rank_,
                       mine.size(), kMaxPart);
}

Result<Parts> Control::allGather(std::string_view mine, const Wait& wait) {
  ECCL_TRY(checkPart(mine));
  return allGather(reserveGather(), mine, wait);
}

Result<Parts> Control::allGather(uint64_t number, std::string_view mine, const Wait& wait) {
  ECCL_TRY(checkPart(mine));
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(wait.left()).count();
  const auto limit = static_cast<int32_t>(std::min<int64_t>(left, INT32_MAX));
  Command command;
  command.frame = {{.type = FrameType::part, .origin = rank_, .target = limit}, std::string(mine)};
  std::unique_lock lock(mutex_);
  if (over_) return Status::error(Code::invalidUsage, "rank %d: the communicator is being destroyed", rank_);
  if (!broken_.ok()) return broken_;
  command.frame.header.sequence = number;
  // std::map keeps `outcome` valid while others come and go.
  auto outcome = outcomes_.emplace(number, std::nullopt).first;
  commands_.push_back(std::move(command));
  ringBell(wake_);

  Wait patient = wait;
  if (wait.deadline <= TimePoint::max() - kListGrace) patient.deadline += kListGrace;
  std::optional<Result<Parts>> result;
  while (!outcome->second) {
    if (wait.aborted()) {
      result = abortedWhile("waiting for all ranks in the set-up");
      break;
    }
    if (patient.expired()) {
      result = Status::error(Code::timeout, "rank %d: rank 0 has not answered in time (allGather number %llu)",
                             rank_, static_cast<unsigned long long>(number));
      break;
    }
    patient.on(changed_, lock);
  }
  if (!result) result = std::move(outcome->second);
  outcomes_.erase(outcome);
  return std::move(*result);
}

void Control::disconnect(const Wait& wait) {
  std::unique_lock lock(mutex_);
  if (!std::exchange(over_, true)) {
    Command command;
    command.what = Command::What::leave;
    commands_.push_back(std::move(command));
    ringBell(wake_);
  }
  while (!drained_ && !wait.expired() && !wait.aborted()) wait.on(changed_, lock);
}

}  // namespace eccl::transport
