#include "transport/connect/flow_placing.h"

#include <algorithm>

#include "base/log.h"
#include "transport/connect/flow_queues.h"
#include "transport/connect/flow_sockets.h"
#include "transport/net/descriptors.h"

namespace eccl::transport {
namespace {

constexpr Duration kTurnRest = std::chrono::milliseconds(5), kDescriptorsRest = std::chrono::seconds(1);
/// Packets are lost all the time on a busy network. Where they were and the ways were the same, the next look
/// is later.
constexpr Duration kFirstRest = std::chrono::milliseconds(250), kLongestRest = std::chrono::seconds(2);
/// Where something is sent and nothing is lost, the next look is later by this: a router may have gone while
/// nothing was in its queues, or come back.
constexpr Duration kLosslessRest = std::chrono::seconds(5);
/// So many ports are traced again: if a router is gone, one of them has gone through it, or goes now where that
/// one's flows went.
constexpr size_t kTracedAgain = 4;

/// A router that says nothing now and then proves nothing.
bool differ(const FlowWay& one, const FlowWay& other) {
  for (size_t i = 0; i < std::min(one.hops.size(), other.hops.size()); ++i)
    if (one.hops[i].valid() && other.hops[i].valid() && !(one.hops[i] == other.hops[i])) return true;
  return false;
}

std::unique_ptr<PlacedFlows> flowsOf(LinkContext& context, Connection& connection, const Hello& hello,
                                     std::function<void()> onReady) {
  if (!connection.path()->deviceFlows().empty()) return std::make_unique<FlowQueues>(context, connection);
  return std::make_unique<FlowSockets>(context, connection, hello, std::move(onReady));
}

}  // namespace

FlowPlacing::FlowPlacing(LinkContext& context, Connection& connection, const Hello& hello,
                         std::function<void()> wake)
    : context_(context),
      connection_(connection),
      wake_(std::move(wake)),
      movable_(flowsOf(context, connection, hello, [this] { progress(); })),
      flows_(movable_->flows().size()),
      name_(flows_.empty() ? 0 : context.flows.join(*this, flows_.size())),
      trial_(context, *movable_, name_, text()),
      traceRest_(kFirstRest) {}

FlowPlacing::~FlowPlacing() {
  stopProbing();
  context_.flows.leave(*this);
}

void FlowPlacing::startOnce() {
  if (state_ != State::fresh) return;
  movable_->find();
  next();
}

bool FlowPlacing::pending() const {
  return state_ > State::resting && connection_.state() == Connection::State::ready;
}

TimePoint FlowPlacing::nextDeadline() const {
  if (!pending()) return TimePoint::max();
  if (state_ == State::joining) return movable_->nextDeadline();
  if (state_ == State::trying) return trial_.nextDeadline();
  return probe_ != nullptr ? probe_->nextDeadline() : until_;
}

void FlowPlacing::progress() {
  if (!pending()) {
    if (connection_.state() != Connection::State::ready) stopProbing(), movable_->stop();
    return;
  }
  if (state_ == State::joining) {
    if (const auto status = movable_->progress()) joined(*status);
    return;
  }
  if (state_ == State::trying) {
    if (trial_.progress()) next();
    return;
  }
  if (probe_ == nullptr && context_.options.system->now() >= until_) probe();
  if (probe_ == nullptr || !probe_->progress()) return;
  state_ == State::tracing ? traced() : probed();
}

/// What is to be done now, if anything.
void FlowPlacing::next() {
  state_ = State::resting;
  if (std::exchange(again_, false)) {
    for (Flow& flow : flows_) {
      const bool several = flow.several;
      flow = Flow();
      flow.several = several;
    }
  }
  const auto find = [this](auto&& wants) {
    size_t flow = 0;
    while (flow < flows_.size() && !wants(flow)) ++flow;
    return flow;
  };
  const size_t toProbe = find([this](size_t flow) { return flows_[flow].toProbe; });
  if (toProbe < flows_.size()) return begin(State::probing, toProbe);
  const size_t toMove =
      find([this](size_t flow) { return placed(flow) && flows_[flow].wanted != movable_->flows()[flow].port; });
  if (toMove == flows_.size()) return;
  begin(State::joining, toMove);
  if (!movable_->move(toMove, flows_[toMove].wanted)) joined({});
}

void FlowPlacing::begin(State state, size_t flow) {
  state_ = state;
  current_ = flow;
  until_ = TimePoint{};
  wake_();
}

void FlowPlacing::probe() {
  const Flow& flow = flows_[current_];
  std::vector<uint16_t> ports(kProbedPorts);
  if (state_ == State::tracing) {
    ports.resize(1);
    for (const FlowWay& way : flow.ways)
      if (way.port != flow.wanted && ports.size() <= kTracedAgain) ports.push_back(way.port);
  }
  if (!context_.flows.takeProbe()) {
    until_ = context_.options.system->now() + kTurnRest;
    return;
  }
  if (!descriptorsLeft(ports.size() + 1)) {  // others need them more
    context_.flows.giveProbe();
    until_ = context_.options.system->now() + kDescriptorsRest;
    return;
  }
  probe_ = std::make_unique<FlowProbe>(movable_->probeOf(current_, std::move(ports)));
  if (probe_->fd() >= 0) context_.reactor.watch(probe_->fd(), EPOLLIN, this).ignore();  // its deadlines stay
}

void FlowPlacing::stopProbing() {
  if (probe_ == nullptr) return;
  context_.reactor.forget(probe_->fd(), this);
  probe_.reset();
  context_.flows.giveProbe();
}

void FlowPlacing::probed() {
  Flow& flow = flows_[current_];
  const std::vector<FlowWay> found = probe_->ways();
  const bool silent = probe_->isSilent() || context_.options.placeUnseen;
  stopProbing();
  const size_t room = kMaxWays - flow.ways.size();
  flow.ways.insert(flow.ways.end(), found.begin(),
                   found.begin() + static_cast<ptrdiff_t>(std::min(found.size(), room)));
  // Of eight ports all may go one way by chance, seldom those of a second probe too.
  const size_t different = differentWays(flow.ways);
  flow.toProbe = ++flow.probes == 1 && different == 1;
  flow.several = flow.several || different > 1;
  if (flow.several && !flow.ways.empty()) {
    context_.flows.ask(name_ + current_, flow.ways);
  } else if (silent && !flow.toProbe && !movable_->reports().empty()) {
    trial_.add(current_);
    context_.flows.wantLooks();
    ECCL_INFO("%s: routers do not say by which ways it can go; it tries others where it is slow",
              text().c_str());
  }
  next();
}

void FlowPlacing::onPlaced(size_t flow, uint16_t port) {
  Flow& placed = flows_[flow];
  const bool known = std::any_of(placed.ways.begin(), placed.ways.end(),
                                 [port](const FlowWay& way) { return way.port == port; });
  if (!known) return;  // of an earlier question
  placed.wanted = port;
  if (state_ == State::resting) next();
}

void FlowPlacing::onMore(size_t flow) {
  if (flows_[flow].ways.size() >= kMaxWays) return;
  flows_[flow].toProbe = true;
  if (state_ == State::resting) next();
}

void FlowPlacing::onMove(size_t flow) {
  if (state_ != State::resting) return trial_.refuse(flow);
  if (!trial_.has(flow)) return;
  trial_.begin(flow);
  begin(State::trying, flow);
}

bool FlowPlacing::onLook() {
  return state_ == State::resting && connection_.state() == Connection::State::ready && trial_.look();
}

// Never in the middle of a call: the peer may have taken the socket already, and would see it break.
void FlowPlacing::onAgain() {
  again_ = true;
  trial_.clear();
  if (state_ == State::fresh || state_ == State::joining || state_ == State::trying) return;
  stopProbing();
  next();
}

// A port that cannot be had is none of its ways.
void FlowPlacing::joined(const Status& status) {
  Flow& flow = flows_[current_];
  if (!status.ok()) {
    ECCL_INFO("%s cannot take its way: %s", text().c_str(), status.message().c_str());
    std::erase_if(flow.ways, [&](const FlowWay& way) { return way.port == flow.wanted; });
    flow.wanted = 0;
    if (!flow.ways.empty()) context_.flows.ask(name_ + current_, flow.ways);
  }
  for (const FlowWay& way : flow.ways)
    if (status.ok() && way.port == flow.wanted)
      ECCL_INFO("%s goes from port %u by %s", text().c_str(), way.port, routersOf(way).c_str());
  carried_ = movable_->carried();
  traceRest_ = kFirstRest;
  nextTrace_ = context_.options.system->now() + traceRest_;
  next();
}

void FlowPlacing::look() {
  if (state_ != State::resting || connection_.state() != Connection::State::ready) return;
  const Connection& connection = connection_;
  movable_->tidy();
  if (connection.state() != Connection::State::ready) return;  // and this is gone
  size_t traceable = flows_.size();
  for (size_t flow = flows_.size(); flow-- > 0;) {
    if (placed(flow)) traceable = flow;
  }
  const TimePoint now = context_.options.system->now();
  if (traceable == flows_.size() || now < nextTrace_) return;
  const SocketReport carried = movable_->carried();
  const bool lost = carried.retransmitted != carried_.retransmitted;
  const bool sent = carried.sentBytes != carried_.sentBytes && now >= nextTrace_ + kLosslessRest;
  if ((!lost && !sent) || !context_.flows.mayTrace(now)) return;
  carried_ = carried;
  begin(State::tracing, traceable);
}

void FlowPlacing::traced() {
  const std::vector<FlowWay> now = probe_->ways();
  stopProbing();
  const Flow& flow = flows_[current_];
  const bool changed = std::any_of(now.begin(), now.end(), [&](const FlowWay& way) {
    return std::any_of(flow.ways.begin(), flow.ways.end(),
                       [&](const FlowWay& before) { return way.port == before.port && differ(way, before); });
  });
  if (!changed) {
    for (size_t other = current_ + 1; other < flows_.size(); ++other)
      if (placed(other)) return begin(State::tracing, other);
    traceRest_ = std::min(2 * traceRest_, kLongestRest);
  } else {
    ECCL_INFO("%s: ways through the network have changed", text().c_str());
    context_.flows.changed();
  }
  nextTrace_ = context_.options.system->now() + traceRest_;
  next();
}

std::string FlowPlacing::text() const {
  return context_.transports.context().text(connection_.id());
}

void FlowPlacing::closeAfterFork() {
  if (probe_ != nullptr) probe_->closeAfterFork();
  movable_->closeAfterFork();
}

}  // namespace eccl::transport
