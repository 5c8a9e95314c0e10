#include "transport/net/acceptor.h"

#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "base/log.h"
#include "transport/net/socket_ends.h"
#include "transport/net/wait.h"

namespace eccl::transport {
namespace {

constexpr Duration kNoDescriptorsPause = std::chrono::milliseconds(100);
constexpr int kBacklog = 4096;  // the kernel lowers it to net.core.somaxconn
constexpr int kAcceptsPerProgress = 64;
constexpr uint64_t kListenerTag = uint64_t{1} << 63;

}  // namespace

Acceptor::Listener::Listener(Fd socket, bool isUnix, size_t most)
    : fd(std::move(socket)), isUnix(isUnix), callers(std::max<size_t>(1, most)) {}

Acceptor::Acceptor(const Secret& secret, const Options& options, OnIncoming onIncoming)
    : secret_(secret), options_(options), onIncoming_(std::move(onIncoming)) {}

Result<std::unique_ptr<Acceptor>> Acceptor::open(const Secret& secret, const Options& options,
                                                 OnIncoming onIncoming) {
  std::unique_ptr<Acceptor> acceptor(new Acceptor(secret, options, std::move(onIncoming)));
  ECCL_TRY(logged(acceptor->listen()));
  return acceptor;
}

// Listens on every address, but only advertises the chosen ones: a choice of interfaces says where traffic
// shall go, and the handshake decides who may come in.
Status Acceptor::listen() {
  if (secret_.encrypts) ECCL_TRY(tlsLibrary().status());
  ECCL_TRY(poller_.open(*options_.system));
  ECCL_ASSIGN(std::vector<Interface> all, listInterfaces(*options_.system));
  ECCL_ASSIGN(std::vector<Interface> chosen, chooseInterfaces(all, options_.interfaces));
  endpoint_ = localEndpoint(*options_.system);
  endpoint_.identity = options_.identity ? *options_.identity : randomIdentity(*options_.system);

  uint16_t ports[2] = {0, 0};
  for (int family : {AF_INET, AF_INET6}) {
    const bool wanted =
        std::any_of(chosen.begin(), chosen.end(), [&](auto& i) { return i.address.family() == family; });
    if (!wanted) continue;
    // Where the same port is free in both families, use it: one hole in a firewall then serves both.
    const uint16_t preferred = options_.port != 0 ? options_.port : ports[0];
    Status status = addTcp(family, preferred);
    if (!status.ok() && options_.port == 0 && preferred != 0) status = addTcp(family, 0);
    ECCL_TRY(status);
    ports[family == AF_INET6] = localAddress(listeners_.back()->fd).port();
  }
  for (const Interface& one : chosen) {
    if (endpoint_.addresses.size() == Endpoint::kMaxAddresses) break;
    endpoint_.addresses.push_back(one.address.withPort(ports[one.address.family() == AF_INET6]));
  }
  endpoint_.rails = railsOf(chosen, options_.interfaces, [&](int family) { return ports[family == AF_INET6]; });
  if (options_.unixListener) ECCL_TRY(addUnix());
  for (size_t i = 0; i < listeners_.size(); ++i) {
    ECCL_TRY(poller_.watch(listeners_[i]->fd.get(), EPOLLIN, kListenerTag | i));
  }
  return {};
}

Status Acceptor::addTcp(int family, uint16_t port) {
  const SocketAddress address = SocketAddress::any(family, port);
  System& system = *options_.system;
  Fd fd(system.socket(family), system);
  const int on = 1;
  if (fd) {
    system.setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);  // a port in TIME_WAIT is free
    if (family == AF_INET6) system.setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
  }
  if (!fd || system.bind(fd.get(), address.raw(), address.rawSize()) != 0 ||
      system.listen(fd.get(), kBacklog) != 0) {
    return Status::fromErrno(errno, "cannot listen on %s%s", address.text().c_str(),
                             port != 0 ? " (is another job using this port?)" : "");
  }
  listeners_.push_back(std::make_unique<Listener>(std::move(fd), false, options_.maxHalfOpen));
  return {};
}

Status Acceptor::addUnix() {
  const std::string name = endpoint_.unixName();
  // Every process of this network namespace can see the name and connect: it is the handshake that protects.
  sockaddr_un address;
  const socklen_t size = abstractAddress(name, &address);
  System& system = *options_.system;
  Fd fd(system.socket(AF_UNIX), system);
  if (!fd || system.bind(fd.get(), reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      system.listen(fd.get(), kBacklog) != 0) {
    return Status::fromErrno(errno, "cannot listen on the abstract AF_UNIX socket @%s", name.c_str());
  }
  listeners_.push_back(std::make_unique<Listener>(std::move(fd), true, options_.maxHalfOpen));
  endpoint_.hasUnix = true;
  return {};
}

size_t Acceptor::halfOpen() const {
  size_t count = 0;
  for (const auto& listener : listeners_) count += listener->callers.count();
  return count;
}

TimePoint Acceptor::nextDeadline() const {
  TimePoint next = TimePoint::max();
  for (const auto& listener : listeners_) {
    next = std::min(next, listener->pausedUntil);
    for (const Slot& slot : listener->callers.slots()) {
      if (slot.taken()) next = std::min(next, slot.since + options_.handshakeLimit);
    }
  }
  return next;
}

void Acceptor::attend() {
  ready_ = false;
  serve();
}

void Acceptor::progress() {
  ready_ = true;
  for (Incoming& incoming : std::exchange(early_, {})) onIncoming_(std::move(incoming));
  serve();
}

void Acceptor::serve() {
  const TimePoint now = options_.system->now();
  for (size_t i = 0; i < listeners_.size(); ++i) {
    Listener& listener = *listeners_[i];
    for (Slot& slot : listener.callers.slots()) {
      if (slot.taken() && now - slot.since >= options_.handshakeLimit) {
        drop(listener, slot,
             format("did not finish the handshake in %.3g s", seconds(options_.handshakeLimit)));
      }
    }
    if (listener.pausedUntil > now) continue;
    listener.pausedUntil = TimePoint::max();
    poller_.watch(listener.fd.get(), EPOLLIN, kListenerTag | i).ignore();  // was watched before
  }
  epoll_event events[64];
  const int count = poller_.ready(events);
  // Callers first: who has gone on makes room, or is at least not among those who have said nothing.
  for (int i = 0; i < count; ++i) {
    const uint64_t tag = events[i].data.u64;
    if ((tag & kListenerTag) != 0) continue;
    Listener& listener = *listeners_[tag >> 32];
    // A slot may have been freed or refilled since the event was made; advance() finds out by itself.
    advance(listener, listener.callers.slots()[static_cast<uint32_t>(tag)]);
  }
  for (int i = 0; i < count; ++i) {
    const uint64_t tag = events[i].data.u64;
    if ((tag & kListenerTag) != 0) acceptFrom(*listeners_[tag & ~kListenerTag]);
  }
}

uint64_t Acceptor::tagOf(const Listener& listener, const Slot& slot) const {
  uint64_t which = 0;
  while (listeners_[which].get() != &listener) ++which;
  return which << 32 | static_cast<uint64_t>(&slot - listener.callers.slots().data());
}

// At most kAcceptsPerProgress at a time: established business comes between two bursts of newcomers.
void Acceptor::acceptFrom(Listener& listener) {
  for (int i = 0; i < kAcceptsPerProgress && listener.pausedUntil == TimePoint::max(); ++i) {
    if (!makeRoom(listener)) return;
    sockaddr_storage from{};
    socklen_t size = sizeof from;
    System& system = *options_.system;
    Fd fd(system.accept(listener.fd.get(), reinterpret_cast<sockaddr*>(&from), &size), system);
    if (fd) {
      fill(listener, std::move(fd), from);
      continue;
    }
    if (errno == EAGAIN || errno == EWOULDBLOCK) return;
    if (errno != EMFILE && errno != ENFILE && errno != ENOBUFS && errno != ENOMEM)
      continue;  // that peer is gone
    int suppressed = 0;
    const int failure = errno;
    if (limiter_.allow(options_.system->now(), &suppressed)) {
      ECCL_WARN("%s; connections wait (raise 'ulimit -n'?)",
                Status::fromErrno(failure, "accept").message().c_str());
    }
    return pause(listener, options_.system->now() + kNoDescriptorsPause);
  }
}

void Acceptor::fill(Listener& listener, Fd fd, const sockaddr_storage& from) {
  ucred peer{};
  if (listener.isUnix) {
    socklen_t length = sizeof peer;
    fd.system().getsockopt(fd.get(), SOL_SOCKET, SO_PEERCRED, &peer, &length);
  } else {
    const int on = 1;
    fd.system().setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  }
  const auto* address = reinterpret_cast<const sockaddr*>(&from);
  const bool outsider = listener.isUnix && peer.uid != 0 && peer.uid != geteuid();
  if (outsider) {
    if (Slot* other = listener.callers.nextOutsider(room(listener))) evict(listener, *other);
  }
  Slot& slot = listener.callers.take(listener.isUnix ? sourceOf(peer) : sourceOf(address));
  slot.since = options_.system->now();
  slot.outsider = outsider;
  slot.viaUnix = listener.isUnix;
  slot.pid = peer.pid;
  slot.peer = listener.isUnix ? format("unix pid %d", peer.pid) : SocketAddress::from(address).text();
  slot.handshake =
      Handshake::accepting(std::move(fd), listener.isUnix ? secret_.withinHost() : secret_, endpoint_.identity);
  advance(listener, slot);
}

// How many slots this listener may use: the unfinished handshakes of all listeners together leave the process
// most of its descriptors.
size_t Acceptor::room(const Listener& listener) const {
  rlimit limit{};
  if (listener.callers.count() < kMinHalfOpen || getrlimit(RLIMIT_NOFILE, &limit) != 0)
    return listener.callers.most();
  const size_t share = static_cast<size_t>(limit.rlim_cur) / 8;
  const size_t others = HalfOpen::ofProcess() - listener.callers.count();
  return std::min(listener.callers.most(), std::max(kMinHalfOpen, share - std::min(share, others)));
}

// True when a slot is free, if need be because a handshake that has had its time is dropped.
bool Acceptor::makeRoom(Listener& listener) {
  const size_t most = room(listener);
  Slot* const other = listener.callers.next(most);
  if (other == nullptr) return true;
  if (options_.system->poll(listener.fd.get(), POLLIN, Duration::zero()) != 1)
    return false;  // nobody gives way to nobody
  if (const TimePoint when = listener.callers.mayGo(*other); options_.system->now() < when) {
    pause(listener, when);
    return false;
  }
  listener.callers.shortenPatience(most);
  evict(listener, *other);
  return true;
}

// Stops watching the listener; connections wait in the kernel's queue instead of making fd() ready all the
// time.
void Acceptor::pause(Listener& listener, TimePoint until) {
  listener.pausedUntil = until;
  poller_.forget(listener.fd.get());
}

// Called on readiness, and speculatively on a new connection, whose greeting is mostly there already.
void Acceptor::advance(Listener& listener, Slot& slot) {
  if (!slot.taken()) return;
  const Handshake::State state = slot.handshake.advance();
  if (state == Handshake::State::failed) {
    const bool told = slot.handshake.disagrees() && options_.onDisagreement;
    if (told) options_.onDisagreement(slot.handshake.hello(), slot.peer, slot.handshake.why());
    const bool silent = slot.handshake.unsaid();  // as a FlowProbe, or a port scanner
    if (silent) ECCL_TRACE("%s called and hung up", slot.peer.c_str());
    return drop(listener, slot, told || silent ? "" : slot.handshake.why());
  }
  if (state == Handshake::State::working) {
    Status status = poller_.watch(slot.handshake.fd(), slot.handshake.awaits(), tagOf(listener, slot));
    if (!status.ok()) drop(listener, slot, status.message());
    return;
  }
  poller_.forget(slot.handshake.fd());
  Incoming incoming{slot.handshake.hello(), slot.handshake.takeSocket(), slot.viaUnix, slot.pid, slot.peer};
  listener.callers.release(slot);
  if (listener.pausedUntil != TimePoint::max())
    listener.pausedUntil = options_.system->now();  // there is room again
  if (ready_)
    onIncoming_(std::move(incoming));
  else
    early_.push_back(std::move(incoming));
}

// `why` empty: somebody has said it.
void Acceptor::drop(Listener& listener, Slot& slot, const std::string& why) {
  int suppressed = 0;
  if (!why.empty() && limiter_.allow(options_.system->now(), &suppressed)) {
    ECCL_WARN("dropped a connection from %s, which %s; the job is not affected%s", slot.peer.c_str(),
              why.c_str(),
              suppressed > 0 ? format(" (%d more were dropped silently)", suppressed).c_str() : "");
  }
  poller_.forget(slot.handshake.fd());
  listener.callers.release(slot);
  if (listener.pausedUntil != TimePoint::max()) listener.pausedUntil = options_.system->now();
}

// For a newcomer. By a reset, so that a flood leaves no thousands of sockets in TIME_WAIT on this host.
void Acceptor::evict(Listener& listener, Slot& slot) {
  const linger reset{1, 0};
  options_.system->setsockopt(slot.handshake.fd(), SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
  drop(listener, slot, "was slow to finish the handshake while others were waiting");
}

void Acceptor::closeAfterFork() {
  poller_.close();
  for (auto& listener : listeners_) {
    listener->fd.reset();
    for (Slot& slot : listener->callers.slots()) slot.handshake.takeSocket().reset();
  }
}

}  // namespace eccl::transport
