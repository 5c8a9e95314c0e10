#include "transport/connect/flow_trial.h"

#include <algorithm>

#include "base/log.h"

namespace eccl::transport {
namespace {

using namespace std::chrono_literals;

constexpr Duration kBetweenLooks = 30ms;  // of the flow that tries
/// After so many round trips, the queues of the way before are empty, and the new socket has found its speed.
constexpr int kSettling = 10;
constexpr Duration kTrialLimit = 10s, kIdleLimit = 3s;
/// One flow less on a link of four makes a third; what is less may be chance.
constexpr double kFaster = 1.3;
/// A smaller change is not worth a message.
constexpr double kChange = 1.0 / 8;

double megabytes(const FlowPace& pace) {
  return static_cast<double>(pace.bytesPerSecond) / 1e6;
}

bool differs(const FlowPace& one, const FlowPace& told) {
  return one.lost != told.lost || megabytes(one) > megabytes(told) * (1 + kChange) ||
         megabytes(one) < megabytes(told) * (1 - kChange);
}

}  // namespace

FlowTrial::FlowTrial(LinkContext& context, PlacedFlows& flows, uint64_t name, std::string who)
    : context_(context), flows_(flows), name_(name), who_(std::move(who)), watched_(flows.flows().size()) {}

void FlowTrial::add(size_t flow) {
  watched_[flow].unseen = true;
  watched_[flow].gauge = FlowGauge(flows_.flows()[flow].megabits());
}

void FlowTrial::clear() {
  std::fill(watched_.begin(), watched_.end(), Watched());
}

void FlowTrial::tell(size_t flow, FlowMessage::Kind kind) {
  Watched& watched = watched_[flow];
  if (!watched.unseen) return;  // rank 0 has begun anew meanwhile
  watched.told = watched.pace;
  context_.flows.tellPace(name_ + flow, watched.pace, kind);
}

bool FlowTrial::look() {
  bool active = false;
  const std::vector<SocketReport> reports = flows_.reports();
  for (size_t flow = 0; flow < watched_.size(); ++flow) {
    Watched& watched = watched_[flow];
    if (!watched.unseen) continue;
    const std::optional<FlowPace> pace = watched.gauge.look(reports[flow]);
    active |= watched.gauge.active();
    if (!pace) continue;
    watched.pace = *pace;
    if (differs(watched.pace, watched.told)) tell(flow, FlowMessage::Kind::pace);
  }
  return active;
}

void FlowTrial::begin(size_t flow) {
  flow_ = flow;
  limit_ = context_.options.system->now() + kTrialLimit;
  idle_ = TimePoint::max();
  until_ = TimePoint{};
  flows_.move(flow, 0);
}

bool FlowTrial::progress() {
  const TimePoint now = context_.options.system->now();
  Watched& watched = watched_[flow_];
  if (flows_.moving()) {
    const std::optional<Status> status = flows_.progress();
    if (!status) return false;
    if (!status->ok()) {
      ECCL_INFO("%s: no socket to try another way by: %s", who_.c_str(), status->message().c_str());
      refuse(flow_);
      return true;
    }
    until_ = now + roundTrips(kSettling, flows_.reports()[flow_]);
    idle_ = until_ + kIdleLimit;
    return false;
  }
  if (now < until_) return false;
  until_ = now + kBetweenLooks;
  const std::optional<FlowPace> pace = watched.gauge.look(flows_.reports()[flow_]);
  if (watched.gauge.active()) idle_ = now + kIdleLimit;
  if (!pace && now < limit_ && now < idle_) return false;
  const PlacedFlows::Flow& flow = flows_.flows()[flow_];
  const bool faster = pace && megabytes(*pace) >= kFaster * megabytes(watched.pace);
  ECCL_INFO("%s %s port %u, %.4g MB/s, instead of %u, %.4g", who_.c_str(), faster ? "goes from" : "stays off",
            flow.port, pace ? megabytes(*pace) : 0, flow.before, megabytes(watched.pace));
  if (!faster) {
    flows_.takeBack(flow_);
    refuse(flow_);
  } else {
    watched.pace = *pace;
    tell(flow_, FlowMessage::Kind::moved);
  }
  return true;
}

}  // namespace eccl::transport
