// The table of links, the callers whose connection is not asked for yet, and what is done when a peer is
// gone.
#include "transport/connect/connector.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <set>

#include "base/log.h"
#include "transport/connect/incoming_link.h"
#include "transport/connect/outgoing_link.h"
#include "transport/connect/transport_context.h"
#include "transport/net/descriptors.h"
#include "transport/net/log_limiter.h"

namespace eccl::transport {

struct Connector::Implementation {
  Implementation(ConnectorOptions given, Reactor& reactor)
      : options(std::move(given)),
        context{options,
                reactor,
                RankTransports(options.transports, contextOf(options, reactor)),
                PeerWatch(reactor, [this](int rank, const std::string& reason) { died(rank, reason); }),
                false,
                {},
                {},
                FlowDesk(options),
                [this](Link& link) {
                  if (std::find(pending.begin(), pending.end(), &link) == pending.end())
                    pending.push_back(&link);
                },
                [this](Link& link, const Breakage& why) { broke(link, why); }},
        threads(options.identity, reactor.sharedDoorbell()) {}

  Link* make(const ConnectionId& id);
  std::string misfit(const Hello& caller) const;
  void adopt(const std::shared_ptr<ThreadCall>& call);
  void sayTurnedAway(const Hello& caller, const std::string& peer, const std::string& why);
  void turnAway(Incoming& incoming, const std::string& why);
  void turnAway(ThreadCall& call, const std::string& why);
  void postpone(Incoming& incoming);
  void addSocket(const ConnectionId& id, Incoming& incoming);
  bool busy() const;
  void checkRails();
  void broke(Link& link, const Breakage& why);
  void died(int rank, const std::string& reason);
  void report(int rank, const std::string& what, const std::string& reason);

  ConnectorOptions options;
  LinkContext context;
  ThreadListener threads;
  std::map<ConnectionId, Incoming> unasked;
  std::map<ConnectionId, std::shared_ptr<ThreadCall>> unaskedCalls;  // of threads: they hold no descriptor
  std::set<ConnectionId> postponed;                                  // told to come later, and not back yet
  std::map<ConnectionId, std::unique_ptr<Link>> links;
  std::map<ConnectionId, IncomingLink*> receivers;
  std::vector<Link*> pending;  // to be looked at by progress()
  std::set<int> ended;         // ranks that disconnected in order
  std::set<int> reported;      // ranks found broken
  LogLimiter limiter;
  bool poisoned = false;
};

namespace {

const char* kAborted = "this rank has failed, or its communicator was aborted";

}  // namespace

Connector::Connector(ConnectorOptions options, Reactor& reactor)
    : implementation_(std::make_unique<Implementation>(std::move(options), reactor)) {}

Connector::~Connector() {
  for (auto& [id, call] : implementation_->unaskedCalls) call->reply(ThreadCall::State::gone);
}

void Connector::setRings(const RingShape& ring, uint32_t directFrom, uint64_t slotSpread) {
  Implementation& self = *implementation_;
  TransportContext& context = self.context.transports.context();
  self.options.ring = context.ring = ring;
  context.directFrom = directFrom, context.slotSpread = slotSpread;
  // Those who called before this was known.
  for (auto at = self.unasked.begin(); at != self.unasked.end();) {
    const std::string why = self.misfit(at->second.hello);
    if (!why.empty()) self.turnAway(at->second, why);
    at = why.empty() ? std::next(at) : self.unasked.erase(at);
  }
  std::erase_if(self.unaskedCalls, [&](const auto& waiting) {
    const std::string why = self.misfit(waiting.second->hello);
    if (!why.empty()) self.turnAway(*waiting.second, why);
    return !why.empty();
  });
}

Connection* Connector::get(const ConnectionId& id) {
  auto found = implementation_->links.find(id);
  return &(found != implementation_->links.end() ? found->second.get() : implementation_->make(id))->connection;
}

Link* Connector::Implementation::make(const ConnectionId& id) {
  if ((id.from == options.rank) == (id.to == options.rank)) {
    auto made = std::make_unique<IncomingLink>(context, id);
    made->abandon(logged(Status::error(Code::internal,
                                       "%s is no connection of rank %d with another rank; this is a defect "
                                       "of the plan, please report it",
                                       made->text().c_str(), options.rank)));
    return links.emplace(id, std::move(made)).first->second.get();
  }
  if (id.from != options.rank) {
    auto made = std::make_unique<IncomingLink>(context, id);
    IncomingLink* link = made.get();
    links.emplace(id, std::move(made));
    receivers.emplace(id, link);
    if (poisoned) {
      link->abandon(Status::error(Code::invalidUsage, "%s", kAborted));
    } else if (auto caller = unasked.extract(id)) {
      link->adopt(caller.mapped());
    } else if (auto call = unaskedCalls.extract(id)) {
      link->adopt(*call.mapped());
    }
    return link;
  }
  auto made = std::make_unique<OutgoingLink>(context, id);
  OutgoingLink* link = made.get();
  links.emplace(id, std::move(made));
  if (poisoned) {
    link->abandon(Status::error(Code::invalidUsage, "%s", kAborted));
    return link;
  }
  link->start();
  pending.push_back(link);
  return link;
}

void Connector::adopt(Incoming incoming) {
  Implementation& self = *implementation_;
  if (std::string why = self.misfit(incoming.hello); !why.empty()) return self.turnAway(incoming, why);
  const ConnectionId id = incoming.hello.payloadAs<DataHello>().id();
  if (incoming.hello.payloadAs<DataHello>().transport == kFurtherSocket) return self.addSocket(id, incoming);
  if (auto found = self.receivers.find(id); found != self.receivers.end()) {
    if (incoming.viaUnix && self.busy()) return self.postpone(incoming);
    self.postponed.erase(id);
    if (!found->second->adopt(incoming)) self.turnAway(incoming, "there is such a connection already");
    return;
  }
  if (auto waiting = self.unasked.find(id); waiting != self.unasked.end()) {
    const Fd& socket = waiting->second.socket.fd();
    const bool hungUp = socket.system().poll(socket.get(), POLLRDHUP, Duration::zero()) == 1;
    if (!hungUp) return self.turnAway(incoming, "the same call waits already");
    self.unasked.erase(waiting);
  }
  const size_t most = self.options.mostUnasked > 0 ? self.options.mostUnasked : descriptorShare();
  if (self.unasked.size() >= most) return self.postpone(incoming);
  self.postponed.erase(id);
  self.unasked.emplace(id, std::move(incoming));
}

void Connector::Implementation::adopt(const std::shared_ptr<ThreadCall>& call) {
  std::string why = misfit(call->hello);
  if (why.empty() && call->secret.bytes != options.secret.bytes) why = "it belongs to another communicator";
  if (!why.empty()) return turnAway(*call, why);
  const ConnectionId id = call->hello.payloadAs<DataHello>().id();
  if (auto found = receivers.find(id); found == receivers.end())
    unaskedCalls[id] = call;
  else if (!found->second->adopt(*call))
    turnAway(*call, "there is such a connection already");
}

/// As many incoming connections are being set up as this rank should have at a time.
bool Connector::Implementation::busy() const {
  const size_t most = descriptorShare();
  if (receivers.size() < most) return false;
  size_t settingUp = 0;
  for (const auto& [id, link] : receivers) settingUp += link->settingUp();
  return settingUp >= most;
}

// The more there are, the later: so that all together do not call more than a thousand times in a second.
void Connector::Implementation::postpone(Incoming& incoming) {
  constexpr size_t kMin = 10, kMax = 5000;  // ms
  postponed.insert(incoming.hello.payloadAs<DataHello>().id());
  SetupMessage later = saying(SetupKind::later, "others wait already");
  later.milliseconds = static_cast<uint32_t>(std::clamp(postponed.size(), kMin, kMax));
  SetupSocket socket(std::move(incoming.socket));
  socket.send(std::move(later)).ignore();  // it may be gone already
}

// The sender learns of a refusal by the end of the stream.
void Connector::Implementation::addSocket(const ConnectionId& id, Incoming& incoming) {
  const auto found = receivers.find(id);
  Status status = Status::error(Code::remote, "there is no such connection");
  if (found != receivers.end() && found->second->connection.state() == Connection::State::ready)
    status = found->second->connection.path()->addSocket(std::move(incoming.socket));
  if (!status.ok()) return sayTurnedAway(incoming.hello, incoming.peer, status.message());
  context.rails.start(options.endpoint(options.rank).rails);
}

/// Why a caller cannot be one of this communicator's connections as this rank knows them; empty if it can.
std::string Connector::Implementation::misfit(const Hello& caller) const {
  const DataHello hello = caller.payloadAs<DataHello>();
  if (poisoned) return kAborted;
  if (caller.purpose != Purpose::data || caller.communicator != options.communicator)
    return "it belongs to another communicator";
  if (hello.to != options.rank || hello.from == options.rank || hello.from != caller.rank || hello.from < 0) {
    return format("no connection from rank %d to rank %d ends here (rank %d)", hello.from, hello.to,
                  options.rank);
  }
  if (options.ring.slots > 0 &&
      (hello.slots != options.ring.slots || hello.slotBytes != options.ring.slotBytes)) {
    return format("its ring has %u slots of %u bytes, ours %u of %u: set the same on all ranks", hello.slots,
                  hello.slotBytes, options.ring.slots, options.ring.slotBytes);
  }
  if (hello.epoch != options.epoch || hello.firstMessage != options.firstMessage)
    return format("it is of epoch %u, this communicator of epoch %u", hello.epoch, options.epoch);
  return "";
}

void Connector::Implementation::sayTurnedAway(const Hello& caller, const std::string& peer,
                                              const std::string& why) {
  int suppressed = 0;
  if (poisoned) {
    ECCL_INFO("turned away %s: %s", peer.c_str(), why.c_str());
  } else if (limiter.allow(options.system->now(), &suppressed)) {
    const DataHello hello = caller.payloadAs<DataHello>();
    ECCL_WARN("%s turned away %s (rank %d, for channel %d, tag %d): %s%s",
              context.describe(options.rank).c_str(), peer.c_str(), caller.rank, hello.channel, hello.tag,
              why.c_str(), suppressed > 0 ? format(" (and %d more like it)", suppressed).c_str() : "");
  }
}

// Says why to the caller, which fails with these words, and to the log.
void Connector::Implementation::turnAway(Incoming& incoming, const std::string& why) {
  sayTurnedAway(incoming.hello, incoming.peer, why);
  SetupSocket socket(std::move(incoming.socket));
  socket.send(saying(SetupKind::refused, why)).ignore();  // it may be gone already
}

void Connector::Implementation::turnAway(ThreadCall& call, const std::string& why) {
  sayTurnedAway(call.hello, "a thread of this process", why);
  call.why = why;
  call.reply(ThreadCall::State::refused);
}

void Connector::hearFlows(int origin, std::string_view message) {
  implementation_->context.flows.hear(origin, message);
}

void Connector::progress() {
  if (implementation_->threads.hasCalls()) {
    for (const auto& call : implementation_->threads.take()) implementation_->adopt(call);
  }
  implementation_->context.transports.progress();
  implementation_->context.flows.progress();
  implementation_->checkRails();
  std::vector<Link*>& pending = implementation_->pending;
  if (pending.empty()) return;
  for (size_t i = 0; i < pending.size(); ++i) pending[i]->progress();
  std::erase_if(pending, [](Link* link) {
    return !link->pending() && link->connection.state() != Connection::State::connecting;
  });
}

void Connector::Implementation::checkRails() {
  const auto downAt = context.rails.look(*options.system);
  for (auto link = links.begin(); downAt && link != links.end(); ++link) {
    link->second->look();
    Path* const path = link->second->connection.path();
    const std::string why = path != nullptr ? path->checkSockets(downAt) : "";
    if (why.empty() || poisoned || !options.onRailLost) continue;
    context.rails.stop();
    return options.onRailLost("the connection from " + link->second->text() + ": " + why);
  }
}

TimePoint Connector::nextDeadline() const {
  const LinkContext& context = implementation_->context;
  TimePoint next = std::min(context.rails.nextDeadline(), context.flows.nextDeadline());
  for (Link* link : implementation_->pending) next = std::min(next, link->nextDeadline());
  return next;
}

// A path's socket broke, or a peer went away in the middle of setting up.
void Connector::Implementation::broke(Link& link, const Breakage& why) {
  link.connection.markPeerGone();
  if (why.byPeer) link.connection.markEndedByPeer();
  const char* path = link.connection.path() != nullptr ? link.connection.path()->name() : "unfinished";
  const std::string what =
      format("the %s connection from %s broke: %s", path, link.text().c_str(), why.reason.c_str());
  link.abandon(Status::error(Code::remote, "%s", what.c_str()));
  report(link.connection.peer(), what, why.reason);
}

// The process is gone: all its connections are, also those that never had a word to say.
void Connector::Implementation::died(int rank, const std::string& reason) {
  const std::string what = format("%s lost %s: %s", context.describe(options.rank).c_str(),
                                  context.describe(rank).c_str(), reason.c_str());
  for (auto& [id, link] : links) {
    if (link->connection.peer() != rank) continue;
    link->connection.markPeerGone();
    link->abandon(Status::error(Code::remote, "%s", what.c_str()));
  }
  report(rank, what, reason);
}

// The first break of a rank is news; the rest follow from it. Those after an end or an abort are expected.
void Connector::Implementation::report(int rank, const std::string& what, const std::string& reason) {
  ECCL_INFO("%s", what.c_str());
  const bool news = ended.count(rank) == 0 && !poisoned && reported.insert(rank).second;
  if (news && options.onBroken) options.onBroken(rank, reason);
}

void Connector::poison() {
  Implementation& self = *implementation_;
  // First, so that whatever breaks from here on is no news and nobody new is let in.
  if (std::exchange(self.poisoned, true)) return;
  self.context.rails.stop();
  for (auto& [id, link] : self.links) {
    if (link->connection.path() != nullptr)
      link->connection.path()->poison();
    else
      link->abandon(Status::error(Code::invalidUsage, "%s", kAborted));
  }
  for (auto& [id, incoming] : self.unasked) self.turnAway(incoming, kAborted);
  for (auto& [id, call] : self.unaskedCalls) self.turnAway(*call, kAborted);
  self.unasked.clear();
  self.unaskedCalls.clear();
}

void Connector::endReceiving() {
  for (auto& [id, link] : implementation_->links) {
    const Connection& connection = link->connection;
    if (connection.state() == Connection::State::ready && !connection.sends())
      connection.path()->endReceiving();
  }
}

void Connector::askForReleases() {
  for (auto& [id, link] : implementation_->links) {
    const Connection& connection = link->connection;
    if (connection.state() == Connection::State::ready && connection.sends())
      connection.path()->askForReleases();
  }
}

bool Connector::drained() const {
  for (auto& [id, link] : implementation_->links) {
    const Connection& connection = link->connection;
    if (connection.state() != Connection::State::ready || connection.path()->drained()) continue;
    bool final = false;
    if (connection.sends()) connection.sendEnd.untaken(&final);
    if (!final) return false;
  }
  return true;
}

// Of connections that have broken as well: peers that leave hang up.
std::vector<Untaken> Connector::untaken() const {
  std::map<std::tuple<int, bool, bool>, uint64_t> messages;
  for (auto& [id, link] : implementation_->links) {
    const Connection& connection = link->connection;
    if (!connection.sends() || connection.path() == nullptr || isRelays(id.tag)) continue;
    bool final = false;
    const uint64_t left = connection.sendEnd.untaken(&final);
    if (left > 0) messages[{connection.peer(), isPointToPoint(id.tag), isInGraphs(id.tag)}] += left;
  }
  std::vector<Untaken> all;
  for (auto& [whose, left] : messages)
    all.push_back({std::get<0>(whose), std::get<1>(whose), std::get<2>(whose), left});
  return all;
}

void Connector::expectEnd(int rank) {
  implementation_->ended.insert(rank);
}

bool Connector::hasLeft(int rank) const {
  return implementation_->ended.count(rank) != 0;
}

void Connector::forEach(const std::function<void(Connection&)>& visit) {
  for (auto& [id, link] : implementation_->links) visit(link->connection);
}

RankTransports& Connector::transports() {
  return implementation_->context.transports;
}

void Connector::closeAfterFork() {
  Implementation& self = *implementation_;
  for (auto& [id, link] : self.links) link->closeAfterFork();
  for (auto& [id, incoming] : self.unasked) incoming.socket.reset();
  self.context.transports.closeAfterFork();
  self.threads.closeAfterFork();
  self.context.peers.closeAfterFork();
}

}  // namespace eccl::transport
