#include "transport/connect/flow_placing.h"

#include <algorithm>

#include "base/log.h"

namespace eccl::transport {
namespace {

constexpr Duration kTurnRest = std::chrono::milliseconds(5), kDescriptorsRest = std::chrono::seconds(1);
/// Packets are lost all the time on a busy network. Where they were and the ways were the same, the next look
/// is later.
constexpr Duration kFirstRest = std::chrono::milliseconds(250), kLongestRest = std::chrono::seconds(2);
/// So many ports are traced again: if a router is gone, one of them has gone through it, or goes now where that
/// one's flows went.
constexpr size_t kTracedAgain = 4;

/// A router that says nothing now and then proves nothing.
bool differ(const FlowWay& one, const FlowWay& other) {
  for (size_t i = 0; i < std::min(one.hops.size(), other.hops.size()); ++i)
    if (one.hops[i].valid() && other.hops[i].valid() && !(one.hops[i] == other.hops[i])) return true;
  return false;
}

}  // namespace

FlowPlacing::FlowPlacing(LinkContext& context, Connection& connection, const Hello& hello,
                         std::function<void()> wake)
    : context_(context),
      connection_(connection),
      wake_(std::move(wake)),
      socket_(context, connection, hello, [this] { progress(); }) {
  const ConnectorOptions& options = context.options;
  const std::vector<Rail>& mine = options.endpoint(options.rank).rails;
  const std::vector<Rail>& theirs = options.endpoint(connection.peer()).rails;
  for (const RailPair& pair : railPairs(mine, theirs, options.socketsPerRail, options.crossRail)) {
    const Rail& here = mine[static_cast<size_t>(pair.mine)];
    const Rail& there = theirs[static_cast<size_t>(pair.theirs)];
    const bool sameHost = findAt(mine, there.address) != nullptr;
    if (!sameHost && here.address.family() == there.address.family()) flows_.push_back({here, there, {}, 0});
  }
  if (!flows_.empty()) context_.flows.join(*this);
}

FlowPlacing::~FlowPlacing() {
  stopProbing();
  context_.flows.leave(*this);
}

void FlowPlacing::start() {
  state_ = flows_.empty() ? State::resting : State::probing;
  current_ = 0;
  until_ = TimePoint{};
  for (Flow& flow : flows_) {
    flow.ways.clear();
    flow.probedTwice = false;
  }
  wake_();
}

bool FlowPlacing::pending() const {
  return (state_ == State::probing || state_ == State::joining || state_ == State::tracing) &&
         connection_.state() == Connection::State::ready;
}

TimePoint FlowPlacing::nextDeadline() const {
  if (!pending()) return TimePoint::max();
  if (state_ == State::joining) return socket_.nextDeadline();
  return probe_ != nullptr ? probe_->nextDeadline() : until_;
}

void FlowPlacing::progress() {
  if (!pending()) {
    if (connection_.state() != Connection::State::ready) stopProbing(), socket_.stop();
    return;
  }
  if (state_ == State::joining) {
    if (const auto status = socket_.progress()) joined(*status);
    return;
  }
  if (probe_ == nullptr && context_.options.system->now() >= until_) {
    std::vector<uint16_t> ports(kProbedPorts);
    if (state_ == State::tracing) {
      ports.resize(1);
      for (const FlowWay& way : flows_[current_].ways)
        if (way.port != flows_[current_].port && ports.size() <= kTracedAgain) ports.push_back(way.port);
    }
    probe(std::move(ports));
  }
  if (probe_ == nullptr || !probe_->progress()) return;
  state_ == State::tracing ? traced() : probed();
}

void FlowPlacing::probe(std::vector<uint16_t> ports) {
  if (!context_.flows.takeProbe()) {
    until_ = context_.options.system->now() + kTurnRest;
    return;
  }
  if (!descriptorsLeft(ports.size() + 1)) {  // others need them more
    context_.flows.giveProbe();
    until_ = context_.options.system->now() + kDescriptorsRest;
    return;
  }
  const Flow& flow = flows_[current_];
  FlowProbe::Options options{context_.options.system, flow.mine.interface, flow.mine.address,
                             flow.theirs.address, std::move(ports)};
  probe_ = std::make_unique<FlowProbe>(options);
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
  stopProbing();
  flow.ways.insert(flow.ways.end(), found.begin(), found.end());
  // Of eight ports all may go one way by chance, seldom those of a second probe too.
  if (differentWays(flow.ways) == 1 && !std::exchange(flow.probedTwice, true)) return wake_();
  if (++current_ == flows_.size()) ask();
}

void FlowPlacing::ask() {
  state_ = State::asking;
  unanswered_ = 0;
  const auto choice = [](const Flow& flow) {
    return differentWays(flow.ways) > 1 || (isPlaced(flow) && !flow.ways.empty());
  };
  for (Flow& flow : flows_) unanswered_ += choice(flow);
  if (unanswered_ == 0) {
    ECCL_TRACE("%s: nothing says that there are several ways", text().c_str());
    state_ = State::resting;
    return;
  }
  for (size_t i = 0; i < flows_.size(); ++i)
    if (choice(flows_[i])) context_.flows.ask(*this, i, flows_[i].ways);
}

void FlowPlacing::onPlaced(size_t flow, uint16_t port) {
  flows_[flow].port = port;
  if (--unanswered_ > 0) return;
  state_ = State::joining;
  current_ = 0;
  joinNext();
  wake_();
}

// Never in the middle of a call: the peer may have taken the socket already, and would see it break.
void FlowPlacing::onAgain() {
  again_ = state_ == State::joining;
  if (again_ || state_ == State::fresh) return;
  stopProbing();
  start();
}

void FlowPlacing::joinNext() {
  while (current_ < flows_.size() && (flows_[current_].port == 0 || flows_[current_].ways.empty())) ++current_;
  if (current_ == flows_.size()) return useThem();
  const Flow& flow = flows_[current_];
  DialOptions how;
  how.interface = flow.mine.interface;
  how.from = flow.mine.address.withPort(flow.port);
  socket_.call(flow.theirs.address, std::move(how));
}

void FlowPlacing::joined(const Status& status) {
  Flow& flow = flows_[current_];
  if (!status.ok()) {
    ECCL_INFO("%s cannot take its way: %s", text().c_str(), status.message().c_str());
    flow.port = 0;
  }
  for (const FlowWay& way : flow.ways)
    if (status.ok() && way.port == flow.port)
      ECCL_INFO("%s goes from port %u by %s", text().c_str(), way.port, routersOf(way).c_str());
  ++current_;
  joinNext();
}

// Sockets of a pair of rails that has none of its own now stay in use.
void FlowPlacing::useThem() {
  connection_.path()->preferSockets([this](const SocketEnds& ends) {
    bool placed = false, itself = false;
    for (const Flow& flow : flows_) {
      if (flow.port == 0 || !flow.mine.address.sharesHost(ends.local) ||
          !flow.theirs.address.sharesHost(ends.remote))
        continue;
      placed = true;
      itself = itself || ends.local.port() == flow.port;
    }
    return itself || !placed;
  });
  state_ = State::placed;
  if (std::exchange(again_, false)) return start();
  if (std::none_of(flows_.begin(), flows_.end(), isPlaced)) state_ = State::resting;
  losses_ = losses();
  traceRest_ = kFirstRest;
  nextTrace_ = context_.options.system->now() + traceRest_;
}

uint64_t FlowPlacing::losses() const {
  uint64_t packets = 0;
  for (const SocketReport& one : connection_.path()->sockets()) packets += one.retransmitted;
  return packets;
}

void FlowPlacing::look() {
  if (state_ != State::placed || connection_.state() != Connection::State::ready) return;
  const TimePoint now = context_.options.system->now();
  if (now < nextTrace_) return;
  const uint64_t lost = losses();
  if (lost == losses_ || !context_.flows.mayTrace(now)) return;
  losses_ = lost;
  state_ = State::tracing;
  current_ = static_cast<size_t>(std::find_if(flows_.begin(), flows_.end(), isPlaced) - flows_.begin());
  until_ = TimePoint{};
  wake_();
}

void FlowPlacing::traced() {
  const std::vector<FlowWay> now = probe_->ways();
  stopProbing();
  const Flow& flow = flows_[current_];
  const bool changed = std::any_of(now.begin(), now.end(), [&](const FlowWay& way) {
    return std::any_of(flow.ways.begin(), flow.ways.end(),
                       [&](const FlowWay& before) { return way.port == before.port && differ(way, before); });
  });
  if (changed) {
    ECCL_INFO("%s: ways through the network have changed", text().c_str());
    state_ = State::placed;
    nextTrace_ = context_.options.system->now() + traceRest_;
    return context_.flows.changed();
  }
  const auto next = std::find_if(flows_.begin() + static_cast<ptrdiff_t>(current_) + 1, flows_.end(), isPlaced);
  current_ = static_cast<size_t>(next - flows_.begin());
  if (next != flows_.end()) return;
  state_ = State::placed;
  traceRest_ = std::min(2 * traceRest_, kLongestRest);
  nextTrace_ = context_.options.system->now() + traceRest_;
}

std::string FlowPlacing::text() const {
  return context_.transports.context().text(connection_.id());
}

void FlowPlacing::closeAfterFork() {
  if (probe_ != nullptr) probe_->closeAfterFork();
  socket_.closeAfterFork();
}

}  // namespace eccl::transport
