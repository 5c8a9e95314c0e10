#include "transport/connect/incoming_link.h"

#include "base/log.h"
#include "transport/net/descriptors.h"
#include "transport/shm/memory_path.h"
#include "transport/tcp/tcp_receiver.h"

namespace eccl::transport {
namespace {

constexpr size_t kDescriptorsOfSetup = 4;  // what comes with an offer, and one to watch the peer
constexpr uint64_t kDescriptorsRestMs = 20;

}  // namespace

bool IncomingLink::adopt(Incoming& incoming) {
  if (connection.state() != Connection::State::connecting) return false;
  if (socket_.fd() >= 0) lose("the peer calls anew");
  socket_ = SetupSocket(std::move(incoming.socket));
  if (!incoming.viaUnix) {
    if (Status status = useTcp(); !status.ok()) fail(status.code(), status.message());
    return true;
  }
  if (Status status = context_.reactor.watch(socket_.fd(), EPOLLIN, this); !status.ok())
    lose(status.message());
  else
    onReady(EPOLLIN);  // the offer follows the handshake closely
  return true;
}

bool IncomingLink::adopt(ThreadOffer& offer) {
  if (connection.state() != Connection::State::connecting) return false;
  const ConnectorOptions& options = context_.options;
  if (socket_.fd() >= 0) lose("the peer calls anew");
  if (!options.allowThread) {
    offer.why = "the receiver's settings forbid it" + context_.restrictions();
    offer.answer(ThreadOffer::State::otherWay);
    return true;
  }
  offer.receiverBell = context_.reactor.sharedDoorbell();
  offer.receiverDirect = options.allowDirect;
  if (!offer.answer(ThreadOffer::State::accepted)) return true;  // withdrawn; perhaps it comes again
  ReceiveEnd& end = connection.receiveEnd;
  if (offer.direct && options.allowDirect) mine_ = theirs_.window = kOwnAddressSpace;
  attach(end, offer.memory.get());
  end.directFrom = options.directFrom;
  connection.becomeReady(
      std::make_unique<MemoryPath>("thread", offer.memory, PeerHeap(), nullptr, &end, offer.senderBell));
  return true;
}

// An offer, then "go". The ring is used only after "go": until then the sender may change its mind.
void IncomingLink::onReady(uint32_t) {
  Result<std::optional<SetupMessage>> message = socket_.receive();
  if (!message.ok()) return lose(message.status().message());
  if (!*message) return;
  if (memory_ == nullptr)
    takeOffer(**message);
  else if ((*message)->kind == SetupKind::go)
    useMemory((*message)->mapped);
  else
    lose("the peer's answer makes no sense");
}

// Reads the sender's nonce in the memory and writes one for it to read.
void IncomingLink::takeOffer(const SetupMessage& offer) {
  const RingShape& shape = context_.options.ring;
  Result<RingMemory> memory = memoryOf(offer);
  Status status = memory.status();
  if (memory.ok() && proofIn(memory->get(), shape).sender != offer.nonce)
    status = Status::error(Code::remote, "what the sender wrote does not show in the shared memory");
  SetupMessage answer = saying(SetupKind::accepted, "");
  if (status.ok()) {
    randomBytes(answer.nonce.data(), answer.nonce.size());
    proofIn(memory->get(), shape).receiver = answer.nonce;
    std::vector<int> fds = {context_.reactor.doorbell()};
    context_.peers.add(connection.peer(), socket_.fd());
    answer.mapped = takeHeap(offer);
    giveHeap(answer, fds);
    status = socket_.send(answer, fds);
  }
  if (status.ok()) {
    memory_ = memory.take();
    socket_.fds.resize(1);  // the doorbell; what is mapped needs no descriptor
    return;
  }
  if (socket_.lostDescriptors || !descriptorsLeft(kDescriptorsOfSetup)) {
    sayThatDescriptorsAreShort(text().c_str());
    SetupMessage later = saying(SetupKind::later, status.message());
    later.bytes = kDescriptorsRestMs;
    socket_.send(later).ignore();
    return lose(status.message());
  }
  socket_.send(saying(SetupKind::otherWay, status.message())).ignore();  // the end of the stream says the same
  lose(status.message());
}

// Nothing in the offer is believed: kind, size, number of descriptors and what they are get checked.
Result<RingMemory> IncomingLink::memoryOf(const SetupMessage& offer) {
  const ConnectorOptions& options = context_.options;
  const size_t bytes = ringMemoryBytes(options.ring);
  if (offer.kind != SetupKind::shm) return Status::error(Code::remote, "the sender's offer makes no sense");
  if (!options.allowShm)
    return Status::error(Code::invalidUsage, "the receiver's settings forbid it%s",
                         context_.restrictions().c_str());
  if (socket_.fds.size() != (offer.heapBytes > 0 ? 3u : 2u))
    return Status::error(Code::system, "descriptors got lost on the way (raise 'ulimit -n' of the receiver?)");
  if (offer.bytes != bytes)
    return Status::error(Code::remote, "%llu bytes offered, %zu expected",
                         static_cast<unsigned long long>(offer.bytes), bytes);
  return mapShared(socket_.fds[1].get(), bytes);
}

void IncomingLink::useMemory(uint64_t heapMapped) {
  ReceiveEnd& end = connection.receiveEnd;
  showHeap(heapMapped);
  attach(end, memory_.get());
  end.directFrom = context_.options.directFrom;
  std::shared_ptr<Fd> doorbell = context_.doorbellOf(connection.peer(), std::move(socket_.fds[0]));
  context_.reactor.forget(socket_.fd(), this);
  socket_.fds.clear();
  Fd socket = socket_.take();
  if (!context_.peers.add(connection.peer(), socket.get()))
    context_.peers.addSocket(connection.peer(), std::move(socket));
  connection.becomeReady(
      std::make_unique<MemoryPath>("shm", std::move(memory_), theirs_, nullptr, &end, std::move(doorbell)));
}

Status IncomingLink::useTcp() {
  const ConnectorOptions& options = context_.options;
  if (!options.allowTcp) {
    const std::string why = "the receiver's settings forbid TCP" + context_.restrictions();
    socket_.send(saying(SetupKind::refused, why)).ignore();
    return Status::error(Code::invalidUsage, "the sender came by TCP, but %s", why.c_str());
  }
  ECCL_ASSIGN(RingMemory memory, mapPrivate(ringMemoryBytes(options.ring)));
  formatRing(memory.get(), options.ring, options.firstMessage);
  if (Status status = socket_.send(saying(SetupKind::accepted, "")); !status.ok()) {
    lose(status.message());  // it has hung up, and comes again if it lives
    return {};
  }
  ReceiveEnd& end = connection.receiveEnd;
  mine_ = kOwnAddressSpace;  // the path writes there for the peer
  attach(end, memory.get());
  end.directFrom = options.zeroCopyFrom;
  auto path = std::make_unique<TcpReceiver>(tcpWiring(socket_.take(), std::move(memory)), end);
  ECCL_TRY(path->open());
  connection.becomeReady(std::move(path));
  return {};
}

// Not the end of the connection: the dialer hangs up too and comes by TCP, or its death is noticed.
void IncomingLink::lose(const std::string& why) {
  ECCL_INFO("%s: a first attempt failed (%s), waiting for the peer to try another way", text().c_str(),
            why.c_str());
  hangUp();
  memory_.reset();
  theirs_ = {};
}

}  // namespace eccl::transport
