#include "transport/connect/outgoing_link.h"

#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "transport/shm/memory_path.h"
#include "transport/tcp/tcp_sender.h"

namespace eccl::transport {
namespace {

// The Dialer does not say which candidate it reached.
int familyOf(int socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  return getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) == 0 ? address.ss_family : AF_UNSPEC;
}

/// What a set-up takes here and for a moment: socket, epoll, ring, and what the peer sends.
constexpr size_t kDescriptorsOfSetup = 6;
constexpr Duration kTurnRest = std::chrono::milliseconds(2), kDescriptorsRest = std::chrono::milliseconds(20),
                   kRecallRest = std::chrono::milliseconds(20), kMaxHold = std::chrono::seconds(1);

}  // namespace

void OutgoingLink::start() {
  const ConnectorOptions& options = context_.options;
  if (!options.allowThread && !options.allowShm && !options.allowTcp)
    return fail(Code::invalidUsage, "every path is switched off" + context_.restrictions());
  if (!options.allowThread || !offerToThread()) takeNext();
}

// The peer is another process, or does not take part in what threads have of their own.
void OutgoingLink::takeNext() {
  const ConnectorOptions& options = context_.options;
  if (options.allowShm) return dial(options.allowTcp ? Via::unixThenTcp : Via::unixOnly);
  if (!options.allowThread) return dial(Via::tcp);
  takeTcp("the peer is another process and shared memory is switched off" + context_.restrictions());
}

Hello OutgoingLink::hello() const {
  const ConnectorOptions& options = context_.options;
  const ConnectionId& id = connection.id();
  Hello hello;
  hello.communicator = options.communicator;
  hello.rank = options.rank;
  hello.setPayload(DataHello{id.from, id.to, id.channel, id.tag, options.ring.slots, options.ring.slotBytes,
                             options.epoch, 0, options.firstMessage});
  return hello;
}

bool OutgoingLink::offerToThread() {
  const ConnectorOptions& options = context_.options;
  auto offer = std::make_shared<ThreadOffer>();
  Result<RingMemory> memory = mapPrivate(ringMemoryBytes(options.ring));
  if (!memory.ok()) return false;
  offer->secret = options.secret;
  offer->hello = hello();
  offer->memory = memory_ = memory.take();
  offer->direct = options.allowDirect;
  offer->senderBell = context_.reactor.sharedDoorbell();
  formatRing(memory_.get(), options.ring, options.firstMessage);
  if (!ThreadDoor::knock(options.endpoint(connection.peer()).identity, offer)) {
    memory_.reset();
    return false;
  }
  offer_ = std::move(offer);
  return true;
}

void OutgoingLink::lookAtOffer() {
  switch (offer_->state()) {
    case ThreadOffer::State::open:
    case ThreadOffer::State::withdrawn:
      return;
    case ThreadOffer::State::accepted:
      if (Status status = useThread(); !status.ok()) fail(status.code(), status.message());
      return;
    case ThreadOffer::State::otherWay:
      tried_ = "as a thread: " + offer_->why + "; ";
      withdraw();
      return takeNext();
    case ThreadOffer::State::refused:
      return fail(Code::remote, "the peer refused: " + offer_->why);
    case ThreadOffer::State::gone:
      return context_.onBroken(*this, "the peer left while the connection was being set up");
  }
}

Status OutgoingLink::useThread() {
  if (offer_->direct && offer_->receiverDirect) mine_ = theirs_.window = kOwnAddressSpace;
  ECCL_TRY(establish("thread", [&](SendEnd& end) -> Result<std::unique_ptr<Path>> {
    attach(end, memory_.get());
    end.directFrom = context_.options.directFrom;
    return std::unique_ptr<Path>(
        std::make_unique<MemoryPath>("thread", memory_, PeerHeap(), &end, nullptr, offer_->receiverBell));
  }));
  offer_.reset();
  memory_.reset();
  return {};
}

void OutgoingLink::dial(Via via) {
  via_ = via;
  wanted_ = true;
  until_ = context_.options.clock->now();
  progress();
}

void OutgoingLink::beginDialing() {
  const ConnectorOptions& options = context_.options;
  const TimePoint now = options.clock->now();
  if (now < until_) return;
  if (!turn_.take()) {
    until_ = now + kTurnRest;
    return;
  }
  if (!descriptorsLeft(kDescriptorsOfSetup)) return waitForDescriptors();
  wanted_ = false;
  DialOptions how;
  how.peer = context_.describe(connection.peer());
  how.via = via_;
  // Nobody at the AF_UNIX door means another host or network namespace: trying again will not change that.
  how.retry = via_ != Via::unixOnly;
  if (via_ == Via::unixOnly) how.handshakeLimit = options.connectLimit;
  how.clock = options.clock;
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

// Others' set-ups end and leave theirs, unless the limit is too low for what stays.
void OutgoingLink::waitForDescriptors() {
  const TimePoint now = context_.options.clock->now();
  sayThatDescriptorsAreShort(text().c_str());
  shortSince_ = std::min(shortSince_, now);
  if (now - shortSince_ >= context_.options.connectLimit) {
    return fail(Code::system, format("no descriptors have been left for %.3g s (raise 'ulimit -n')",
                                     seconds(now - shortSince_)));
  }
  comeLater(kDescriptorsRest);
}

// Holding nothing meanwhile. Ranks that were told the same do not come at the same moment.
void OutgoingLink::comeLater(Duration wait) {
  hangUp();
  withdraw();
  turn_.give();
  wanted_ = true;
  until_ = context_.options.clock->now() + wait * (48 + connection.id().from * 37 % 33) / 64;
}

// The peer may ask for the connection in an hour, while the next in the queue is asked for now.
void OutgoingLink::recall() {
  const TimePoint now = context_.options.clock->now();
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
  if (dialer_ != nullptr) return dialer_->nextDeadline();
  if (wanted_) return until_;
  if (turn_.held()) return recall_;
  return fault_ != nullptr ? fault_->nextDue() : TimePoint::max();
}

void OutgoingLink::progress() {
  if (fault_ != nullptr) return fault_->kick();
  if (offer_ != nullptr) return lookAtOffer();
  if (wanted_) beginDialing();
  if (dialer_ == nullptr) return recall();
  if (!dialer_->progress()) return;
  Result<Fd> socket = dialer_->result();
  stopDialing();
  if (socket.ok()) return dialed(socket.take());
  if (!descriptorsLeft(kDescriptorsOfSetup)) return waitForDescriptors();
  const std::string switchedOff =
      via_ == Via::unixOnly ? "; TCP would be the only way, and is switched off" + context_.restrictions() : "";
  fail(socket.status().code(), tried_ + socket.status().message() + switchedOff);
}

void OutgoingLink::dialed(Fd socket) {
  socket_ = SetupSocket(std::move(socket));
  local_ = familyOf(socket_.fd()) == AF_UNIX;
  if (!local_ && via_ == Via::unixThenTcp) {
    ECCL_INFO(
        "%s takes TCP: the peer's AF_UNIX socket cannot be reached (another host, or another network "
        "namespace)",
        text().c_str());
  }
  if (local_) {
    if (Status status = offer(); !status.ok()) {
      // The peer may have answered the call alone, and hung up before the offer came.
      Result<std::optional<SetupMessage>> answer = socket_.receive();
      if (answer.ok() && *answer) return onAnswer(**answer);
      return descriptorsLeft(kDescriptorsOfSetup) ? takeTcp(status.message()) : waitForDescriptors();
    }
    recall_ = context_.options.clock->now() + hold_;
  } else {
    turn_.give();  // the socket stays, whenever the peer asks for it
  }
  if (Status status = context_.reactor.watch(socket_.fd(), EPOLLIN, this); !status.ok())
    fail(status.code(), status.message());
}

// The offer does not wait for the receiver to ask for the connection: it lies in the socket until then. Its
// pages cost nothing before they are touched, and of a ring that is refused only the headers have been.
Status OutgoingLink::offer() {
  const ConnectorOptions& options = context_.options;
  const size_t bytes = ringMemoryBytes(options.ring);
  ECCL_ASSIGN(SharedMemory shared, createShared("eccl-ring", bytes));
  memory_ = std::move(shared.memory);
  context_.peers.add(connection.peer(), socket_.fd());
  randomBytes(nonce_.data(), nonce_.size());
  formatRing(memory_.get(), options.ring, options.firstMessage);
  proofIn(memory_.get(), options.ring).sender = nonce_;
  SetupMessage message;
  message.kind = SetupKind::shm;
  message.bytes = bytes;
  message.nonce = nonce_;
  std::vector<int> fds = {context_.reactor.doorbell(), shared.fd.get()};
  giveHeap(message, fds);
  return socket_.send(message, fds);
}

// What was offered and is not used.
void OutgoingLink::withdraw() {
  if (offer_ != nullptr && !offer_->withdraw() && offer_->state() == ThreadOffer::State::accepted) {
    storeFenced(&static_cast<RingControl*>(memory_.get())->senderPoison, 1u);  // as a path would
    ringBell(*offer_->receiverBell);
  }
  offer_.reset();
  memory_.reset();
  theirs_ = {};
}

void OutgoingLink::onReady(uint32_t) {
  if (dialer_ != nullptr) return progress();
  Result<std::optional<SetupMessage>> answer = socket_.receive();
  if (!answer.ok()) {
    // The acceptor answers before it hangs up, so it is gone.
    hangUp();
    return context_.onBroken(*this, answer.status().message());
  }
  if (*answer) onAnswer(**answer);
}

// What the acceptor says may come long after the offer; see Connector::get().
void OutgoingLink::onAnswer(const SetupMessage& answer) {
  if (answer.kind == SetupKind::refused)
    return fail(Code::remote, "the peer refused: " + std::string(answer.why));
  if (answer.kind == SetupKind::otherWay && local_) return takeTcp(answer.why);
  if (answer.kind == SetupKind::later)
    return comeLater(std::chrono::milliseconds(std::min<uint64_t>(answer.bytes, 60'000)));
  if (answer.kind != SetupKind::accepted) return fail(Code::remote, "the peer's answer makes no sense");
  if (local_) {
    if (Status status = acceptMemory(answer); !status.ok())
      !socket_.lostDescriptors&& descriptorsLeft(kDescriptorsOfSetup) ? takeTcp(status.message())
                                                                      : waitForDescriptors();
    return;
  }
  context_.reactor.forget(socket_.fd(), this);
  Result<RingMemory> memory = mapPrivate(ringMemoryBytes(context_.options.ring));
  if (!memory.ok()) return fail(memory.status().code(), memory.status().message());
  formatRing(memory->get(), context_.options.ring, context_.options.firstMessage);
  Status status = establish("tcp", [&](SendEnd& end) -> Result<std::unique_ptr<Path>> {
    mine_ = kOwnAddressSpace;  // the path reads it for the peer
    attach(end, memory->get());
    end.directFrom = context_.options.zeroCopyFrom;
    auto path = std::make_unique<TcpSender>(tcpWiring(socket_.take(), *memory), end);
    ECCL_TRY(path->open());
    return std::unique_ptr<Path>(std::move(path));
  });
  if (!status.ok()) fail(status.code(), status.message());
}

Status OutgoingLink::acceptMemory(const SetupMessage& answer) {
  if (socket_.fds.size() != (answer.heapBytes > 0 ? 2u : 1u))
    return Status::error(Code::remote, "the peer's descriptors did not come through");
  if (proofIn(memory_.get(), context_.options.ring).receiver != answer.nonce)
    return Status::error(Code::remote, "what the peer wrote does not show in the shared memory");
  SetupMessage go;
  go.kind = SetupKind::go;
  go.mapped = takeHeap(answer);
  showHeap(answer.mapped);
  ECCL_TRY(socket_.send(go));
  // From here on the receiver counts on this ring, and nothing below fails but for want of memory.
  std::shared_ptr<Fd> doorbell = context_.doorbellOf(connection.peer(), std::move(socket_.fds[0]));
  ECCL_TRY(establish("shm", [&](SendEnd& end) -> Result<std::unique_ptr<Path>> {
    attach(end, memory_.get());
    end.directFrom = context_.options.directFrom;
    return std::unique_ptr<Path>(
        std::make_unique<MemoryPath>("shm", memory_, theirs_, &end, nullptr, std::move(doorbell)));
  }));
  memory_.reset();
  turn_.give();
  context_.reactor.forget(socket_.fd(), this);
  socket_.fds.clear();
  Fd socket = socket_.take();
  if (!context_.peers.add(connection.peer(), socket.get()))
    context_.peers.addSocket(connection.peer(), std::move(socket));
  return {};
}

// Under the decorator the lane gets a ring of its own, and the real path serves the decorator's end.
template <class Make>
Status OutgoingLink::establish(const char* name, const Make& make) {
  const FaultPlan* faults = context_.options.faults;
  std::unique_ptr<FaultPath> decorator;
  SendEnd* end = &connection.sendEnd;
  if (faults != nullptr) {
    ECCL_ASSIGN(RingMemory memory, mapPrivate(ringMemoryBytes(context_.options.ring)));
    formatRing(memory.get(), context_.options.ring, context_.options.firstMessage);
    attach(*end, memory.get());
    decorator = std::make_unique<FaultPath>(*faults, *context_.options.clock, memory, *end,
                                            [this](const std::string& why) { context_.onBroken(*this, why); });
    end = &decorator->inner();
  }
  ECCL_ASSIGN(std::unique_ptr<Path> path, make(*end));
  if (decorator != nullptr) {
    connection.sendEnd.directFrom = end->directFrom;
    connection.sendEnd.mine = end->mine;
    fault_ = decorator.get();
    decorator->wrap(std::move(path));
    path = std::move(decorator);
  }
  connection.becomeReady(std::move(path));
  ECCL_TRACE("%s goes by %s", text().c_str(), name);
  return {};
}

void OutgoingLink::takeTcp(const std::string& why) {
  hangUp();
  withdraw();
  if (!context_.options.allowTcp)
    return fail(Code::remote,
                why + "; TCP would be the only way, and is switched off" + context_.restrictions());
  ECCL_INFO("%s takes TCP: %s", text().c_str(), why.c_str());
  tried_ += "in memory: " + why + "; by TCP: ";
  dial(Via::tcp);
}

void OutgoingLink::abandon(const Status& why) {
  stopDialing();
  withdraw();
  wanted_ = false;
  turn_.give();
  Link::abandon(why);
}

void OutgoingLink::closeAfterFork() {
  if (dialer_ != nullptr) dialer_->closeAfterFork();
  Link::closeAfterFork();
}

}  // namespace eccl::transport
