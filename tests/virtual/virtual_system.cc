#include "virtual/virtual_system.h"

#include <arpa/inet.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace eccl::test {
namespace {

constexpr Duration kCall = std::chrono::microseconds(1), kLookAtClock = Duration(100);
constexpr int kFirstDescriptor = 1 << 20;
constexpr Duration kWayToDoor = std::chrono::microseconds(200);

std::string bytesOf(const sockaddr* address, socklen_t size) {
  return std::string(reinterpret_cast<const char*>(address), size);
}

/// What a listener is found by: the port, or the AF_UNIX name.
std::string keyOf(const std::string& bytes) {
  sockaddr_in address{};
  std::memcpy(&address, bytes.data(), std::min(bytes.size(), sizeof address));
  return address.sin_family == AF_INET ? "port " + std::to_string(ntohs(address.sin_port)) : "unix " + bytes;
}

void put(const std::string& bytes, sockaddr* to, socklen_t* size) {
  if (to == nullptr || size == nullptr) return;
  std::memcpy(to, bytes.data(), std::min<size_t>(bytes.size(), *size));
  *size = static_cast<socklen_t>(bytes.size());
}

int refuse(int error) {
  errno = error;
  return -1;
}

class TaskThread final : public Thread::Handle {
 public:
  TaskThread(World& world, std::shared_ptr<World::Task> task) : world_(world), task_(std::move(task)) {}
  void join() override {
    world_.sleep([task = task_] { return task->done(); }, System::kForever);
  }
  void detach() override {}
  bool isCurrent() const override { return &world_.self() == task_.get(); }

 private:
  World& world_;
  const std::shared_ptr<World::Task> task_;
};

}  // namespace

VirtualSystem::VirtualSystem(World& world, std::vector<VirtualSystem*>& network)
    : world_(world), network_(network), index_(static_cast<int>(network.size())) {
  network.push_back(this);
}

std::shared_ptr<World::Task> VirtualSystem::spawn(const std::string& name, std::function<void()> body) {
  return world_.start("node" + std::to_string(index_) + "/" + name, std::move(body));
}

sockaddr_in VirtualSystem::address(uint16_t port) const {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(0x0a000001u + static_cast<uint32_t>(index_));
  return address;
}

// False: this call is the one that is to fail.
bool VirtualSystem::enter(const char* call) {
  world_.pass(kCall);
  const int number = world_.calls[std::to_string(index_) + " " + call]++;
  const CallFailure& failure = world_.failure;
  if (failure.system != index_ || failure.call != call || failure.number != number) return true;
  world_.trace.push_back(format("node%d %s fails: %s", index_, call, std::strerror(failure.error)));
  errno = failure.error;
  return false;
}

template <class Answer>
Answer VirtualSystem::leave(const char* call, int fd, Answer answer) {
  const int error = errno;
  world_.trace.push_back(format("%lld %s %s %d: %lld%s%s",
                                static_cast<long long>(world_.now().time_since_epoch().count()),
                                world_.self().name.c_str(), call, fd, static_cast<long long>(answer),
                                answer < 0 ? " " : "", answer < 0 ? std::strerror(error) : ""));
  errno = error;
  return answer;
}

int VirtualSystem::add(std::shared_ptr<Object> object) {
  int fd = kFirstDescriptor;
  while (table_.count(fd) != 0) ++fd;  // the lowest that is free, as the kernel does
  table_[fd] = std::move(object);
  return fd;
}

template <class Kind>
std::shared_ptr<Kind> VirtualSystem::find(int fd) {
  const auto found = table_.find(fd);
  auto object = found == table_.end() ? nullptr : std::dynamic_pointer_cast<Kind>(found->second);
  if (object == nullptr) errno = found == table_.end() ? EBADF : EINVAL;
  return object;
}

TimePoint VirtualSystem::now() {
  world_.pass(kLookAtClock);
  return world_.now();
}

void VirtualSystem::random(void* to, size_t count) {
  for (size_t i = 0; i < count; ++i) static_cast<uint8_t*>(to)[i] = static_cast<uint8_t>(world_.draw(256));
}

ProcessIdentity VirtualSystem::identity() {
  ProcessIdentity result;
  result.host = "node" + std::to_string(index_);
  result.pid = 1000 + index_;
  const std::string bootId = format("00000000-0000-4000-8000-%012d", index_ + 1);
  std::copy(bootId.begin(), bootId.end(), result.bootId.begin());
  return result;
}

Result<std::vector<InterfaceAddress>> VirtualSystem::interfaces() {
  if (!enter("interfaces")) return Status::fromErrno(errno, "the network interfaces cannot be listed");
  InterfaceAddress one;
  one.name = "eth0";
  const sockaddr_in mine = address(0);
  std::memcpy(&one.address, &mine, sizeof mine);
  return std::vector<InterfaceAddress>{one};
}

Result<Thread> VirtualSystem::start(const char* name, std::function<void()> body) {
  if (!enter("start")) return Status::fromErrno(errno, "cannot start the thread %s", name);
  return Thread(std::make_unique<TaskThread>(world_, spawn(name, std::move(body))));
}

int VirtualSystem::socket(int family) {
  if (!enter("socket")) return -1;
  if (family != AF_INET && family != AF_UNIX) return leave("socket", family, refuse(EAFNOSUPPORT));
  return leave("socket", family, add(std::make_shared<Socket>(family)));
}

// Nobody on virtual hosts sends datagrams.
int VirtualSystem::datagramSocket(int family) {
  if (!enter("datagramSocket")) return -1;
  return leave("datagramSocket", family, refuse(EPROTONOSUPPORT));
}

int VirtualSystem::bind(int fd, const sockaddr* address, socklen_t size) {
  if (!enter("bind")) return -1;
  const auto socket = find<Socket>(fd);
  if (socket == nullptr) return -1;
  socket->bound = bytesOf(address, size);
  if (socket->family == AF_INET) {
    sockaddr_in chosen{};
    std::memcpy(&chosen, address, std::min<size_t>(size, sizeof chosen));
    if (chosen.sin_port == 0) chosen.sin_port = htons(nextPort_++);
    socket->bound = bytesOf(reinterpret_cast<const sockaddr*>(&chosen), sizeof chosen);
  }
  const auto taken = listeners_.find(keyOf(socket->bound));
  return leave("bind", fd, taken != listeners_.end() && !taken->second.expired() ? refuse(EADDRINUSE) : 0);
}

int VirtualSystem::listen(int fd, int) {
  if (!enter("listen")) return -1;
  const auto socket = find<Socket>(fd);
  if (socket == nullptr) return -1;
  auto listener = std::make_shared<Listener>();
  listener->local = socket->bound;
  listeners_[keyOf(socket->bound)] = listener;
  table_[fd] = listener;
  return leave("listen", fd, 0);
}

int VirtualSystem::accept(int fd, sockaddr* from, socklen_t* size) {
  if (!enter("accept")) return -1;
  const auto listener = find<Listener>(fd);
  if (listener == nullptr) return -1;
  if (listener->waiting.empty()) return leave("accept", fd, refuse(EAGAIN));
  const auto stream = listener->waiting.front();
  listener->waiting.pop_front();
  put(stream->remote, from, size);
  return leave("accept", fd, add(stream));
}

std::shared_ptr<Listener> VirtualSystem::listenerAt(const std::string& bytes) {
  sockaddr_in address{};
  std::memcpy(&address, bytes.data(), std::min(bytes.size(), sizeof address));
  VirtualSystem* host = this;
  if (address.sin_family == AF_INET) {
    const uint32_t number = ntohl(address.sin_addr.s_addr) - 0x0a000001u;
    if (number >= network_.size()) return nullptr;
    host = network_[number];
  }
  const auto found = host->listeners_.find(keyOf(bytes));
  return found == host->listeners_.end() ? nullptr : found->second.lock();
}

// Over the network the answer comes two ways later.
int VirtualSystem::connect(int fd, const sockaddr* to, socklen_t size) {
  if (!enter("connect")) return -1;
  const auto socket = find<Socket>(fd);
  if (socket == nullptr) return -1;
  auto client = std::make_shared<Stream>(world_);
  client->isUnix = socket->family == AF_UNIX;
  client->remote = bytesOf(to, size);
  const sockaddr_in mine = address(nextPort_++);
  const sockaddr_un unnamed{AF_UNIX, {}};
  client->local = client->isUnix
                      ? bytesOf(reinterpret_cast<const sockaddr*>(&unnamed), sizeof unnamed.sun_family)
                      : bytesOf(reinterpret_cast<const sockaddr*>(&mine), sizeof mine);
  table_[fd] = client;
  const auto arrive = [this, client] {
    const auto listener = listenerAt(client->remote);
    if (listener == nullptr || client->isClosed()) return false;
    auto server = std::make_shared<Stream>(world_);
    server->isUnix = client->isUnix;
    server->local = client->remote;
    server->remote = client->local;
    Stream::join(client, server);
    server->connected(0);
    listener->waiting.push_back(std::move(server));
    return true;
  };
  if (client->isUnix) {
    const bool met = arrive();
    client->connected(met ? 0 : ECONNREFUSED);
    return leave("connect", fd, met ? 0 : refuse(ECONNREFUSED));
  }
  world_.at(world_.now() + kWayToDoor + Duration(world_.draw(100'000)), [this, client, arrive] {
    const int error = arrive() ? 0 : ECONNREFUSED;
    world_.at(world_.now() + kWayToDoor, [client, error] { client->connected(error); });
  });
  return leave("connect", fd, refuse(EINPROGRESS));
}

int VirtualSystem::getsockname(int fd, sockaddr* address, socklen_t* size) {
  if (!enter("getsockname")) return -1;
  if (const auto stream = find<Stream>(fd)) return put(stream->local, address, size), 0;
  if (const auto listener = find<Listener>(fd)) return put(listener->local, address, size), 0;
  return -1;
}

int VirtualSystem::getpeername(int fd, sockaddr* address, socklen_t* size) {
  if (!enter("getpeername")) return -1;
  const auto stream = find<Stream>(fd);
  return stream == nullptr ? -1 : (put(stream->remote, address, size), 0);
}

int VirtualSystem::getsockopt(int fd, int level, int name, void* value, socklen_t* size) {
  if (!enter("getsockopt")) return -1;
  const auto stream = find<Stream>(fd);
  if (stream == nullptr) return -1;
  if (level == SOL_SOCKET && name == SO_ERROR && *size >= sizeof(int)) {
    const int error = stream->takeError();
    std::memcpy(value, &error, sizeof error);
    return leave("getsockopt", fd, 0);
  }
  if (level == SOL_SOCKET && name == SO_PEERCRED && stream->isUnix && *size >= sizeof(ucred)) {
    const ucred peer{1000 + index_, geteuid(), getegid()};
    std::memcpy(value, &peer, sizeof peer);
    return leave("getsockopt", fd, 0);
  }
  return leave("getsockopt", fd, refuse(ENOPROTOOPT));
}

int VirtualSystem::setsockopt(int fd, int level, int name, const void*, socklen_t) {
  if (!enter("setsockopt")) return -1;
  if (const auto stream = find<Stream>(fd); stream != nullptr && level == SOL_SOCKET && name == SO_LINGER)
    stream->resetOnClose = true;
  return leave("setsockopt", fd, 0);
}

int VirtualSystem::shutdown(int fd, int how) {
  if (!enter("shutdown")) return -1;
  const auto stream = find<Stream>(fd);
  if (stream == nullptr) return -1;
  stream->shutdown(how != SHUT_WR, how != SHUT_RD);
  return leave("shutdown", fd, 0);
}

ssize_t VirtualSystem::sendmsg(int fd, const msghdr* message) {
  if (!enter("sendmsg")) return -1;
  const auto stream = find<Stream>(fd);
  if (stream == nullptr) return -1;
  if (message->msg_controllen > 0) return leave("sendmsg", fd, refuse(EOPNOTSUPP));
  std::string bytes;
  for (size_t i = 0; i < message->msg_iovlen; ++i)
    bytes.append(static_cast<const char*>(message->msg_iov[i].iov_base), message->msg_iov[i].iov_len);
  return leave("sendmsg", fd, stream->send(bytes));
}

ssize_t VirtualSystem::recvmsg(int fd, msghdr* message, int flags) {
  if (!enter("recvmsg")) return -1;
  const auto stream = find<Stream>(fd);
  if (stream == nullptr) return -1;
  message->msg_controllen = 0;
  message->msg_flags = 0;
  ssize_t total = 0;
  for (size_t i = 0; i < message->msg_iovlen; ++i) {
    const iovec& part = message->msg_iov[i];
    const ssize_t got =
        stream->receive(static_cast<char*>(part.iov_base), part.iov_len, (flags & MSG_PEEK) != 0);
    if (got < 0 && total == 0) return leave("recvmsg", fd, got);
    total += std::max<ssize_t>(0, got);
    if (got < static_cast<ssize_t>(part.iov_len)) break;
  }
  return leave("recvmsg", fd, total);
}

int VirtualSystem::poll(int fd, short events, Duration limit) {
  if (!enter("poll")) return -1;
  std::shared_ptr<Object> object;
  if (fd >= 0 && (object = find<Object>(fd)) == nullptr) return -1;
  const uint32_t wanted = static_cast<uint16_t>(events) | EPOLLERR | EPOLLHUP;  // the bits are the same
  const bool ready =
      world_.sleep([object, wanted] { return object != nullptr && (object->ready() & wanted) != 0; }, limit);
  return leave("poll", fd, ready ? 1 : 0);
}

int VirtualSystem::epollCreate() {
  if (!enter("epoll_create")) return -1;
  return leave("epoll_create", 0, add(std::make_shared<EpollSet>()));
}

int VirtualSystem::epollControl(int fd, int operation, int watched, epoll_event* event) {
  // Only adding takes memory; to change and to remove what is there never fails.
  if (!enter(operation == EPOLL_CTL_ADD ? "epoll_add" : "epoll_change")) return -1;
  const auto set = find<EpollSet>(fd);
  const auto object = find<Object>(watched);
  if (set == nullptr || object == nullptr) return -1;
  const auto found = set->watches.find(watched);
  const bool known = found != set->watches.end() && found->second.object.lock() == object;
  if (operation == EPOLL_CTL_ADD ? known : !known)
    return leave("epoll_ctl", watched, refuse(known ? EEXIST : ENOENT));
  if (operation == EPOLL_CTL_DEL)
    set->watches.erase(found);
  else
    set->watches[watched] = {object, *event, false};
  return leave("epoll_ctl", watched, 0);
}

// Not always in the same order.
int VirtualSystem::collect(EpollSet& set, epoll_event* events, int most) {
  std::erase_if(set.watches, [](const auto& watch) { return watch.second.object.expired(); });
  std::vector<EpollSet::Watch*> happened;
  for (auto& [fd, watch] : set.watches) {
    if (watch.happened() != 0) happened.push_back(&watch);
  }
  for (size_t left = happened.size(); left > 1; --left)
    std::swap(happened[left - 1], happened[world_.draw(left)]);
  int count = 0;
  for (EpollSet::Watch* watch : happened) {
    if (count == most) break;
    events[count] = watch->event;
    events[count++].events = watch->happened();
    watch->disarmed = (watch->event.events & EPOLLONESHOT) != 0;
  }
  return count;
}

int VirtualSystem::epollWait(int fd, epoll_event* events, int most, Duration limit) {
  if (!enter("epoll_wait")) return -1;
  const auto set = find<EpollSet>(fd);
  if (set == nullptr) return -1;
  world_.sleep([set] { return set->ready() != 0; }, limit);
  return leave("epoll_wait", fd, collect(*set, events, most));
}

int VirtualSystem::eventFd() {
  if (!enter("eventfd")) return -1;
  return leave("eventfd", 0, add(std::make_shared<Event>()));
}

void VirtualSystem::ringEvent(int fd) {
  enter("ring");
  if (const auto event = find<Event>(fd)) event->rung = true;
}

void VirtualSystem::clearEvent(int fd) {
  enter("clear");
  if (const auto event = find<Event>(fd)) event->rung = false;
}

int VirtualSystem::processFd(int, pid_t* pid) {
  *pid = 0;
  return refuse(ENOSYS);
}

void VirtualSystem::close(int fd) {
  const auto found = table_.find(fd);
  if (found == table_.end()) return;
  const std::shared_ptr<Object> object = std::move(found->second);
  table_.erase(found);
  object->closed();
}

}  // namespace eccl::test
