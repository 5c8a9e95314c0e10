#include "transport/outgoing_link.h"

#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "transport/shm/memory_path.h"
#include "transport/tcp/tcp_sender.h"
#include "transport/thread/hand_over.h"

namespace eccl {
namespace {

// The Dialer does not say which candidate it reached.
int familyOf(int socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  return getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) == 0 ? address.ss_family : AF_UNSPEC;
}

bool isThisProcess(int socket) {
  ucred peer{};
  socklen_t size = sizeof peer;
  // The kernel's word: a process id in this namespace, 0 for one that cannot be seen here.
  return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.pid == getpid();
}

}  // namespace

void OutgoingLink::start() {
  const ConnectorOptions& options = context_.options;
  const bool local = options.allowThread || options.allowShm;
  if (!local && !options.allowTcp)
    return fail(Code::invalidUsage, "every path is switched off" + context_.restrictions());
  dial(!local ? Via::tcp : options.allowTcp ? Via::unixThenTcp : Via::unixOnly);
}

void OutgoingLink::dial(Via via) {
  const ConnectorOptions& options = context_.options;
  const ConnectionId& id = connection.id();
  Hello hello;
  hello.communicator = options.communicator;
  hello.rank = options.rank;
  hello.setPayload(DataHello{id.from, id.to, id.channel, id.tag, options.ring.slots, options.ring.slotBytes,
                             options.epoch, 0, options.firstMessage});
  DialOptions how;
  how.peer = context_.describe(id.to);
  how.via = via_ = via;
  // Nobody at the AF_UNIX door means another host or network namespace: trying again will not change that.
  how.retry = via != Via::unixOnly;
  if (via == Via::unixOnly) how.handshakeLimit = options.connectLimit;
  how.clock = options.clock;
  dialer_ = std::make_unique<Dialer>(options.endpoint(id.to), options.secret, hello, how,
                                     options.clock->now() + options.connectLimit);
  if (dialer_->fd() < 0) {  // over before it began
    const Status why = dialer_->result().status();
    dialer_.reset();
    return fail(why.code(), why.message());
  }
  if (Status status = context_.reactor.watch(dialer_->fd(), EPOLLIN, this); !status.ok())
    return fail(status.code(), status.message());
  progress();
}

// The Dialer's descriptor leaves the reactor before it is closed.
void OutgoingLink::stopDialing() {
  if (dialer_ == nullptr) return;
  context_.reactor.forget(dialer_->fd(), this);
  dialer_.reset();
}

TimePoint OutgoingLink::nextDeadline() const {
  if (dialer_ != nullptr) return dialer_->nextDeadline();
  return fault_ != nullptr ? fault_->nextDue() : TimePoint::max();
}

void OutgoingLink::progress() {
  if (fault_ != nullptr) return fault_->kick();
  if (dialer_ == nullptr || !dialer_->progress()) return;
  Result<Fd> socket = dialer_->result();
  stopDialing();
  if (socket.ok()) return dialed(socket.take());
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
    if (Status status = offer(); !status.ok()) return takeTcp(status.message());
  }
  if (Status status = context_.reactor.watch(socket_.fd(), EPOLLIN, this); !status.ok())
    fail(status.code(), status.message());
}

// The offer does not wait for the receiver to ask for the connection: it lies in the socket until then. Its
// pages cost nothing before they are touched, and of a ring that is refused only the headers have been.
Status OutgoingLink::offer() {
  const ConnectorOptions& options = context_.options;
  thread_ = options.allowThread && isThisProcess(socket_.fd());
  if (!thread_ && !options.allowShm)
    return Status::error(Code::invalidUsage, "the peer is another process and shared memory is switched off%s",
                         context_.restrictions().c_str());
  const size_t bytes = ringMemoryBytes(options.ring);
  Fd file;
  if (thread_) {
    ECCL_ASSIGN(memory_, mapPrivate(bytes));
  } else {
    ECCL_ASSIGN(SharedMemory shared, createShared("eccl-ring", bytes));
    file = std::move(shared.fd);
    memory_ = std::move(shared.memory);
    context_.peers.add(connection.peer(), socket_.fd());
  }
  randomBytes(nonce_.data(), nonce_.size());
  formatRing(memory_.get(), options.ring, options.firstMessage);
  proofIn(memory_.get(), options.ring).sender = nonce_;
  SetupMessage message;
  message.kind = thread_ ? SetupKind::thread : SetupKind::shm;
  message.bytes = bytes;
  message.nonce = nonce_;
  std::vector<int> fds = {context_.reactor.doorbell()};
  if (!thread_) {
    fds.push_back(file.get());
    giveHeap(message, fds);
    return socket_.send(message, fds);
  }
  leaveForThread(nonce_, memory_);
  left_ = true;
  return socket_.send(message, fds);
}

void OutgoingLink::withdraw() {
  if (left_) takeFromThread(nonce_);
  left_ = false;
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
  if (answer.kind != SetupKind::accepted) return fail(Code::remote, "the peer's answer makes no sense");
  if (local_) {
    if (Status status = acceptMemory(answer); !status.ok()) takeTcp(status.message());
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
  if (answer.mapped != 0) mine_ = SharedHeap::ofThisProcess().window();
  if (thread_ && context_.options.allowDirect) mine_ = theirs_.window = kOwnAddressSpace;
  ECCL_TRY(socket_.send(go));
  // From here on the receiver counts on this ring, and nothing below fails but for want of memory.
  std::shared_ptr<Fd> doorbell = context_.doorbellOf(connection.peer(), std::move(socket_.fds[0]));
  const char* name = thread_ ? "thread" : "shm";
  ECCL_TRY(establish(name, [&](SendEnd& end) -> Result<std::unique_ptr<Path>> {
    attach(end, memory_.get());
    end.directFrom = context_.options.directFrom;
    return std::unique_ptr<Path>(
        std::make_unique<MemoryPath>(name, memory_, theirs_.memory, &end, nullptr, std::move(doorbell)));
  }));
  // The nonce came back, so the ring was taken out of the hand-over table.
  left_ = false;
  memory_.reset();
  context_.reactor.forget(socket_.fd(), this);
  socket_.fds.clear();
  Fd socket = socket_.take();
  if (!thread_ && !context_.peers.add(connection.peer(), socket.get()))
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
  tried_ = "by AF_UNIX: " + why + "; by TCP: ";
  dial(Via::tcp);
}

void OutgoingLink::abandon(const Status& why) {
  stopDialing();
  withdraw();
  Link::abandon(why);
}

void OutgoingLink::closeAfterFork() {
  if (dialer_ != nullptr) dialer_->closeAfterFork();
  Link::closeAfterFork();
}

}  // namespace eccl
