// The way of a dialer through the transports: tryFrom() begins with one, tryNext() goes on after it, giveUp()
// fails the connection with what was tried.
#include "transport/connect/outgoing_link.h"

#include <algorithm>

#include "base/log.h"
#include "transport/core/ring_memory.h"

namespace eccl::transport {
namespace {

/// What a set-up takes here and for a moment: socket, epoll, ring, and what the peer sends.
constexpr size_t kDescriptorsOfSetup = 6;
constexpr Duration kSetupDescriptorsRest = std::chrono::milliseconds(20),
                   kRecallRest = std::chrono::milliseconds(20), kMaxHold = std::chrono::seconds(1),
                   kUnreadRest = std::chrono::milliseconds(100);

}  // namespace

void OutgoingLink::tryFrom(size_t index) {
  const Endpoint& endpoint = context_.options.endpoint(connection.peer());
  for (current_ = index; current_ < context_.transports.count(); ++current_) {
    Result<Transport*> transport = context_.transports.get(current_);
    if (!transport.ok()) {
      note(transport.status());
      continue;
    }
    if (!(*transport)->reachable(connection.peer(), endpoint)) {
      note(Status::error(Code::remote, "it does not reach the peer"));
      continue;
    }
    if (entry().reach != Reach::process) return dial();
    turn_.give();
    if (callThread()) return;
  }
  giveUp();
}

// Who was `unreached` over this kind of socket is not called over the same again.
void OutgoingLink::tryNext(const Status& why, bool unreached) {
  const Reach reach = entry().reach;
  note(why);
  hangUp();
  withdraw();
  size_t next = current_ + 1;
  while (unreached && next < context_.transports.count() && context_.transports.entry(next).reach == reach)
    ++next;
  if (next < context_.transports.count())
    ECCL_INFO("%s does not go by %s: %s", text().c_str(), entry().name, why.message().c_str());
  tryFrom(next);
}

void OutgoingLink::note(const Status& why) {
  tried_ += format("%s%s: %s", tried_.empty() ? "" : "; ", entry().name, why.message().c_str());
  failure_ = why.code();
}

void OutgoingLink::giveUp() {
  const std::string forbidden = context_.transports.forbidden();
  if (context_.transports.count() == 0)
    return fail(Code::invalidUsage, "every transport is switched off: " + forbidden);
  fail(failure_, tried_ + (forbidden.empty() ? "" : "; switched off: " + forbidden));
}

bool OutgoingLink::last() const {
  return current_ + 1 == context_.transports.count();
}

Hello OutgoingLink::hello() const {
  const ConnectorOptions& options = context_.options;
  const ConnectionId& id = connection.id();
  uint16_t transport = 0;
  if (offer_ != nullptr && content_.empty())
    transport = static_cast<uint16_t>(transportId(entry().name) | (last() ? kLastTransport : 0));
  Hello hello;
  hello.communicator = options.communicator;
  hello.rank = options.rank;
  hello.setPayload(DataHello{id.from, id.to, id.channel, id.tag, options.ring.slots, options.ring.slotBytes,
                             options.epoch, transport, options.firstMessage});
  return hello;
}

Status OutgoingLink::makeOffer() {
  ECCL_ASSIGN(Transport * transport, context_.transports.get(current_));
  content_ = {};
  ECCL_ASSIGN(offer_, transport->offer(connection.id(), &content_));
  return {};
}

bool OutgoingLink::callThread() {
  const ConnectorOptions& options = context_.options;
  const Identity& peer = options.endpoint(connection.peer()).identity;
  Status status;
  if (!ThreadListener::hears(peer))
    status = Status::error(Code::remote, "the peer is another process");
  else
    status = makeOffer();
  if (!status.ok()) return note(status), false;
  auto call = std::make_shared<ThreadCall>();
  call->secret = options.secret;
  call->hello = hello();
  call->transport = entry().name;
  call->last = last();
  call->offer = std::move(content_);
  call->senderBell = context_.reactor.sharedDoorbell();
  if (!ThreadListener::call(peer, call)) {
    withdraw();
    return note(Status::error(Code::remote, "the peer has left this process")), false;
  }
  call_ = std::move(call);
  return true;
}

void OutgoingLink::lookAtCall() {
  switch (call_->state()) {
    case ThreadCall::State::open:
    case ThreadCall::State::withdrawn:
      return;
    case ThreadCall::State::accepted: {
      SetupData none;
      if (Status status = offer_->onAnswer(call_->answer, &none); !status.ok())
        return fail(status.code(), status.message());
      return open();
    }
    case ThreadCall::State::otherWay:
      return tryNext(Status::error(Code::remote, "%s", call_->why.c_str()));
    case ThreadCall::State::refused:
      return fail(Code::remote, {"the peer refused: " + call_->why, true});
    case ThreadCall::State::gone:
      return context_.onBroken(*this, {"the peer left while the connection was being set up", true});
  }
}

void OutgoingLink::dial() {
  wanted_ = true;
  until_ = context_.options.system->now();
  progress();
}

void OutgoingLink::beginDialing() {
  const ConnectorOptions& options = context_.options;
  const TimePoint now = options.system->now();
  if (now < until_) return;
  if (!turn_.take()) {
    until_ = now + SetupTurn::kRest;
    return;
  }
  if (!descriptorsLeft(kDescriptorsOfSetup)) return waitForDescriptors();
  wanted_ = false;
  const bool local = entry().reach == Reach::host;
  // Over the network the call may make the offer; on this host few calls are in vain, but an offer costs more.
  if (!local) {
    if (Status status = makeOffer(); !status.ok()) return tryNext(status);
  }
  DialOptions how;
  how.peer = context_.describe(connection.peer());
  how.via = local ? Via::unixOnly : Via::tcp;
  // Nobody at the AF_UNIX socket means another host or network namespace: trying again will not change that.
  how.retry = !local;
  if (local && last()) how.handshakeLimit = options.connectLimit;
  how.system = options.system;
  dialer_ = std::make_unique<Dialer>(options.endpoint(connection.peer()), options.secret, hello(), how,
                                     now + options.connectLimit);
  if (dialer_->fd() < 0) {  // over before it began
    const Status why = dialer_->result().status();
    dialer_.reset();
    if (!descriptorsLeft(kDescriptorsOfSetup)) return waitForDescriptors();
    return fail(why.code(), why.message());
  }
  if (Status status = context_.reactor.watch(dialer_->fd(), EPOLLIN, this); !status.ok())
    fail(status.code(), status.message());
}

bool OutgoingLink::isShortForLong() {
  shortSince_ = std::min(shortSince_, context_.options.system->now());
  return context_.options.system->now() - shortSince_ >= context_.options.connectLimit;
}

// Others' set-ups end and leave theirs, unless the limit is too low for what stays.
void OutgoingLink::waitForDescriptors() {
  sayThatDescriptorsAreShort(text().c_str());
  if (isShortForLong())
    return fail(Code::system, format("no descriptors have been left for %.3g s (raise 'ulimit -n')",
                                     seconds(context_.options.connectLimit)));
  comeLater(kSetupDescriptorsRest);
}

// Holding nothing meanwhile. Ranks that were told the same do not come at the same moment.
void OutgoingLink::comeLater(Duration wait) {
  hangUp();
  withdraw();
  turn_.give();
  wanted_ = true;
  until_ = context_.options.system->now() + wait * (48 + connection.id().from * 37 % 33) / 64;
}

// The peer may ask for the connection in an hour, while the next in the queue is asked for now.
void OutgoingLink::recall() {
  const TimePoint now = context_.options.system->now();
  if (!turn_.held() || now < recall_) return;
  hold_ = std::min<Duration>(2 * hold_, kMaxHold);
  recall_ = now + hold_;
  if (SetupTurn::somebodyWaits()) comeLater(kRecallRest);
}

// The Dialer's descriptor leaves the reactor before it is closed.
void OutgoingLink::stopDialing() {
  if (dialer_ == nullptr) return;
  context_.reactor.forget(dialer_->fd(), this);
  dialer_.reset();
}

TimePoint OutgoingLink::nextDeadline() const {
  const TimePoint widening = widening_ != nullptr ? widening_->nextDeadline() : TimePoint::max();
  const TimePoint placing = placing_ != nullptr ? placing_->nextDeadline() : TimePoint::max();
  const TimePoint sockets = std::min(widening, placing);
  if (fault_ != nullptr) return std::min(fault_->nextDue(), sockets);
  if (dialer_ != nullptr) return dialer_->nextDeadline();
  if (wanted_) return until_;
  return turn_.held() ? recall_ : sockets;
}

void OutgoingLink::progress() {
  growFlows();
  if (fault_ != nullptr) return fault_->kick();
  if (call_ != nullptr) return lookAtCall();
  if (wanted_) beginDialing();
  if (dialer_ == nullptr) return recall();
  if (!dialer_->progress()) return;
  Result<Stream> socket = dialer_->result();
  stopDialing();
  if (socket.ok()) return dialed(socket.take());
  if (!descriptorsLeft(kDescriptorsOfSetup)) return waitForDescriptors();
  tryNext(socket.status(), true);
}

void OutgoingLink::dialed(Stream socket) {
  socket_ = SetupSocket(std::move(socket));
  if (Status status = sendOffer(); !status.ok()) {
    // The peer may have answered the call alone, and hung up before the offer came.
    Result<std::optional<SetupMessage>> answer = socket_.receive();
    if (answer.ok() && *answer) return onAnswer(**answer);
    if (socket_.lostDescriptors() && !isShortForLong()) {  // until peers have taken theirs
      sayThatDescriptorsAreShort(text().c_str(), "as many descriptors of this user are on their way as may be");
      return comeLater(kUnreadRest);
    }
    return descriptorsLeft(kDescriptorsOfSetup) ? tryNext(status) : waitForDescriptors();
  }
  if (entry().reach == Reach::host)
    recall_ = context_.options.system->now() + hold_;
  else
    turn_.give();  // the socket stays, whenever the peer asks for it
  if (Status status = context_.reactor.watch(socket_.fd(), EPOLLIN, this); !status.ok())
    fail(status.code(), status.message());
}

// An offer does not wait for the receiver to ask for the connection: it lies in the socket until then.
Status OutgoingLink::sendOffer() {
  if (offer_ == nullptr) ECCL_TRY(makeOffer());
  if (entry().reach == Reach::host) context_.peers.add(connection.peer(), socket_.socket());
  if (entry().reach == Reach::network && content_.empty()) return {};  // the call has made it
  SetupMessage message = saying(SetupKind::offer, "");
  message.transport = entry().name;
  message.last = last();
  message.data = std::exchange(content_, {});
  return socket_.send(std::move(message));
}

// What was offered and is not used.
void OutgoingLink::withdraw() {
  if (call_ != nullptr && !call_->withdraw() && call_->state() == ThreadCall::State::accepted) {
    SetupData none;
    offer_->onAnswer(call_->answer, &none).ignore();  // it is dropped all the same, and knows whom to tell
  }
  call_.reset();
  offer_.reset();
  content_ = {};
}

void OutgoingLink::onReady(uint32_t) {
  if (dialer_ != nullptr) return progress();
  Result<std::optional<SetupMessage>> answer = socket_.receive();
  if (!answer.ok()) {
    // The acceptor answers before it hangs up, so it is gone.
    hangUp();
    return context_.onBroken(*this, {answer.status().message(), true});
  }
  if (*answer) onAnswer(**answer);
}

// What the acceptor says may come long after the offer; see Connector::get().
void OutgoingLink::onAnswer(SetupMessage& answer) {
  switch (answer.kind) {
    case SetupKind::refused:
      return fail(Code::remote, {"the peer refused: " + answer.why, true});
    case SetupKind::otherWay:
      return tryNext(Status::error(Code::remote, "%s", answer.why.c_str()));
    case SetupKind::later:
      return comeLater(std::chrono::milliseconds(std::min(answer.milliseconds, 60'000u)));
    case SetupKind::accepted:
      break;
    default:
      return fail(Code::remote, {"the peer's answer makes no sense"});
  }
  if (Status status = takeAnswer(answer.data); !status.ok()) {
    return !socket_.lostDescriptors() && descriptorsLeft(kDescriptorsOfSetup) ? tryNext(status)
                                                                              : waitForDescriptors();
  }
  open();
}

Status OutgoingLink::takeAnswer(SetupData& answer) {
  if (offer_ == nullptr) return Status::error(Code::remote, "the peer accepts what was not offered");
  const bool final = answer.empty();
  SetupMessage confirmation = saying(SetupKind::confirmed, "");
  ECCL_TRY(offer_->onAnswer(answer, &confirmation.data));
  return final ? Status() : socket_.send(std::move(confirmation));
}

// From here on the receiver counts on the connection, and nothing below fails but for want of memory.
void OutgoingLink::open() {
  if (socket_.fd() >= 0) context_.reactor.forget(socket_.fd(), this);
  Result<std::unique_ptr<Path>> path = makePath();
  if (!path.ok()) return fail(path.status().code(), path.status().message());
  offer_.reset();
  call_.reset();
  turn_.give();
  connection.becomeReady(path.take());
  ECCL_TRACE("%s goes by %s", text().c_str(), entry().name);
}

// Under the decorator the lane gets a ring of its own, and the real path serves the decorator's end.
Result<std::unique_ptr<Path>> OutgoingLink::makePath() {
  const TransportContext& transport = context_.transports.context();
  const FaultPlan* faults = context_.options.faults;
  std::unique_ptr<FaultPath> decorator;
  SendEnd& outer = connection.sendEnd;
  if (faults != nullptr) {
    ECCL_ASSIGN(RingMemory memory, mapPrivate(ringMemoryBytes(transport.ring)));
    formatRing(memory.get(), transport.ring, transport.firstMessage);
    transport.attach(outer, memory.get());
    decorator = std::make_unique<FaultPath>(*faults, *context_.options.system, memory, outer,
                                            [this](const Breakage& why) { context_.onBroken(*this, why); });
  }
  Stream socket = socket_.take();
  const bool local = entry().reach == Reach::host;
  const bool watched = !local || context_.peers.add(connection.peer(), socket.fd());
  ECCL_ASSIGN(std::unique_ptr<Path> path,
              offer_->open(decorator != nullptr ? decorator->inner() : outer, opening(socket)));
  if (!watched && socket) context_.peers.addSocket(connection.peer(), socket.takeFd());
  if (decorator == nullptr) return path;
  SendEnd& inner = decorator->inner();
  inner.most = outer.most = std::min({inner.most, outer.most, inner.shape.mostHeavy()});  // what fits inside
  outer.directFrom = inner.directFrom;
  outer.mine = inner.mine;
  decorator->wrap(std::move(path));
  fault_ = decorator.get();
  return std::unique_ptr<Path>(std::move(decorator));
}

// A device has its queue pairs from the start.
void OutgoingLink::widen() {
  const bool known = pending();
  if (connection.path()->deviceFlows().empty())
    widening_ = std::make_unique<Widening>(context_, connection, hello());
  if (context_.flows.takes()) {
    placing_ =
        std::make_unique<FlowPlacing>(context_, connection, hello(), [this] { context_.onPending(*this); });
    if (!widens()) placing_->startOnce();
  }
  if (!known && widens()) context_.onPending(*this);
}

// Flows are placed when there is one for each pair of rails.
void OutgoingLink::growFlows() {
  if (widening_ != nullptr) widening_->progress();
  if (placing_ == nullptr) return;
  if (!widens()) placing_->startOnce();
  placing_->progress();
}

void OutgoingLink::abandon(const Status& why) {
  placing_.reset();
  widening_.reset();
  stopDialing();
  withdraw();
  wanted_ = false;
  turn_.give();
  Link::abandon(why);
}

void OutgoingLink::closeAfterFork() {
  if (dialer_ != nullptr) dialer_->closeAfterFork();
  if (widening_ != nullptr) widening_->closeAfterFork();
  if (placing_ != nullptr) placing_->closeAfterFork();
  Link::closeAfterFork();
}

}  // namespace eccl::transport
