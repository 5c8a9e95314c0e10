#include "transport/incoming_link.h"

#include <unistd.h>

#include "base/log.h"
#include "transport/shm/memory_path.h"
#include "transport/tcp/tcp_receiver.h"
#include "transport/thread/hand_over.h"

namespace eccl {
bool IncomingLink::adopt(Incoming& incoming) {
  if (connection.state() != Connection::State::connecting) return false;
  if (socket_.fd() >= 0) lose("the peer calls anew");
  socket_ = SetupSocket(std::move(incoming.socket));
  pid_ = incoming.pid;
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

// An offer, then "go". The ring is used only after "go": until then the sender may change its mind.
void IncomingLink::onReady(uint32_t) {
  Result<std::optional<SetupMessage>> message = socket_.receive();
  if (!message.ok()) return lose(message.status().message());
  if (!*message) return;
  if (memory_ == nullptr)
    takeOffer(**message);
  else if ((*message)->kind == SetupKind::go)
    useMemory((*message)->mapped != 0);
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
    if (!thread_) {
      context_.peers.add(connection.peer(), socket_.fd());
      answer.mapped = takeHeap(offer);
      giveHeap(answer, fds);
    }
    status = socket_.send(answer, fds);
  }
  if (status.ok()) {
    memory_ = memory.take();
    return;
  }
  socket_.send(saying(SetupKind::otherWay, status.message())).ignore();  // the end of the stream says the same
  lose(status.message());
}

// Nothing in the offer is believed: kind, size, number of descriptors and what they are get checked.
Result<RingMemory> IncomingLink::memoryOf(const SetupMessage& offer) {
  const ConnectorOptions& options = context_.options;
  const size_t bytes = ringMemoryBytes(options.ring);
  thread_ = offer.kind == SetupKind::thread;
  if (!thread_ && offer.kind != SetupKind::shm)
    return Status::error(Code::remote, "the sender's offer makes no sense");
  if (!(thread_ ? options.allowThread : options.allowShm))
    return Status::error(Code::invalidUsage, "the receiver's settings forbid it%s",
                         context_.restrictions().c_str());
  if (socket_.fds.size() != (thread_ ? 1u : offer.heapBytes > 0 ? 3u : 2u))
    return Status::error(Code::system, "descriptors got lost on the way (raise 'ulimit -n' of the receiver?)");
  if (offer.bytes != bytes)
    return Status::error(Code::remote, "%llu bytes offered, %zu expected",
                         static_cast<unsigned long long>(offer.bytes), bytes);
  if (!thread_) return mapShared(socket_.fds[1].get(), bytes);
  // The kernel has told who called; a stranger's "thread" must not reach into the table.
  RingMemory memory = pid_ == getpid() ? takeFromThread(offer.nonce) : nullptr;
  if (memory == nullptr) return Status::error(Code::remote, "the receiver finds no such ring in its process");
  return memory;
}

void IncomingLink::useMemory(bool heapIsMapped) {
  ReceiveEnd& end = connection.receiveEnd;
  if (heapIsMapped) mine_ = SharedHeap::ofThisProcess().window();
  if (thread_ && context_.options.allowDirect) mine_ = theirs_.window = kOwnAddressSpace;
  attach(end, memory_.get());
  end.directFrom = context_.options.directFrom;
  std::shared_ptr<Fd> doorbell = context_.doorbellOf(connection.peer(), std::move(socket_.fds[0]));
  context_.reactor.forget(socket_.fd(), this);
  socket_.fds.clear();
  Fd socket = socket_.take();
  if (!thread_ && !context_.peers.add(connection.peer(), socket.get()))
    context_.peers.addSocket(connection.peer(), std::move(socket));
  connection.becomeReady(std::make_unique<MemoryPath>(thread_ ? "thread" : "shm", std::move(memory_),
                                                      theirs_.memory, nullptr, &end, std::move(doorbell)));
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
  ECCL_TRY(socket_.send(saying(SetupKind::accepted, "")));
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

}  // namespace eccl
