#include "transport/connect/link.h"

#include <map>
#include <mutex>
#include <utility>

#include "base/log.h"
#include "transport/fault/fault_path.h"

namespace eccl::transport {

std::shared_ptr<Fd> LinkContext::doorbellOf(int rank, Fd offered) {
  static std::mutex* const mutex = new std::mutex;
  static auto* const ofProcess = new std::map<Identity, std::weak_ptr<Fd>>;
  std::shared_ptr<Fd>& known = doorbells[rank];
  if (known != nullptr) return known;
  const Identity identity = options.endpoint(rank).identity;
  std::lock_guard lock(*mutex);
  std::erase_if(*ofProcess, [](const auto& item) { return item.second.expired(); });
  known = (*ofProcess)[identity].lock();
  if (known == nullptr) (*ofProcess)[identity] = known = std::make_shared<Fd>(std::move(offered));
  return known;
}

std::string LinkContext::restrictions() const {
  return options.restrictions.empty() ? "" : " (" + options.restrictions + ")";
}

std::string Link::text() const {
  const ConnectionId& id = connection.id();
  return format("%s to %s, channel %d, tag %d", context_.describe(id.from).c_str(),
                context_.describe(id.to).c_str(), id.channel, id.tag);
}

TcpPath::Wiring Link::tcpWiring(Fd socket, RingMemory memory) {
  TcpPath::Wiring wiring;
  wiring.socket = std::move(socket);
  wiring.reactor = &context_.reactor;
  wiring.memory = std::move(memory);
  wiring.onBroken = [this](const std::string& reason) { context_.onBroken(*this, reason); };
  if (context_.options.faults != nullptr) wiring.bytesPerCall = context_.options.faults->bytesPerCall;
  return wiring;
}

void Link::giveHeap(SetupMessage& message, std::vector<int>& fds) const {
  if (!context_.options.allowDirect) return;
  message.heapBytes = SharedHeap::ofThisProcess().window().size;
  message.heapUsed = SharedHeap::used();
  if (message.heapBytes > 0) fds.push_back(SharedHeap::ofThisProcess().fd());
}

uint64_t Link::takeHeap(const SetupMessage& message) {
  theirs_ = {};
  if (message.heapBytes == 0 || !context_.options.allowDirect || socket_.fds.empty()) return 0;
  Result<PeerHeap> heap = mapPeerHeap(socket_.fds.back().get(), message.heapBytes, message.heapUsed);
  if (heap.ok())
    theirs_ = heap.take();
  else
    ECCL_INFO("%s: the peer's memory is not used in place: %s", text().c_str(),
              heap.status().message().c_str());
  return theirs_.window.size;
}

void Link::showHeap(uint64_t mapped) {
  mine_ = SharedHeap::ofThisProcess().window();
  mine_.size = std::min(mine_.size, mapped);
}

void Link::hangUp() {
  if (socket_.fd() < 0) return;
  context_.reactor.forget(socket_.fd(), this);
  socket_ = SetupSocket();
}

void Link::fail(Code code, const std::string& why) {
  Status status = Status::error(code, "no connection from %s: %s", text().c_str(), why.c_str());
  if (std::exchange(context_.failed, true))
    ECCL_INFO("%s", status.message().c_str());
  else
    status = logged(std::move(status));
  abandon(status);
}

void Link::abandon(const Status& why) {
  hangUp();
  connection.fail(why);
}

void Link::closeAfterFork() {
  socket_ = SetupSocket();  // the reactor's set is the parent's: nothing is taken out of it
  if (connection.path() != nullptr) connection.path()->closeAfterFork();
}

}  // namespace eccl::transport
