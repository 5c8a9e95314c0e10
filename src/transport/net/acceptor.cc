#include "transport/net/acceptor.h"

#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "base/log.h"
#include "transport/net/wait.h"

namespace eccl {
namespace {

constexpr Duration kEvictAfter = std::chrono::milliseconds(500);  // an honest handshake takes a few round trips
constexpr Duration kNoDescriptorsPause = std::chrono::milliseconds(100);
constexpr int kBacklog = 4096;  // the kernel lowers it to net.core.somaxconn
constexpr int kAcceptsPerProgress = 64;

uint16_t boundPort(int fd) {
  sockaddr_storage bound{};
  socklen_t size = sizeof bound;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&bound), &size) != 0) return 0;
  return SocketAddress::from(reinterpret_cast<sockaddr*>(&bound)).port();
}

}  // namespace

Acceptor::Acceptor(const Secret& secret, const Options& options, OnIncoming onIncoming)
    : secret_(secret),
      options_(options),
      onIncoming_(std::move(onIncoming)),
      slots_(std::max<size_t>(1, options.maxHalfOpen)) {}

Result<std::unique_ptr<Acceptor>> Acceptor::open(const Secret& secret, const Options& options,
                                                 OnIncoming onIncoming) {
  std::unique_ptr<Acceptor> acceptor(new Acceptor(secret, options, std::move(onIncoming)));
  ECCL_TRY(logged(acceptor->listen()));
  return acceptor;
}

// Listens on every address, but only advertises the chosen ones: a choice of interfaces says where traffic
// shall go, and the handshake decides who may come in.
Status Acceptor::listen() {
  ECCL_TRY(poller_.open());
  ECCL_ASSIGN(std::vector<Interface> all, listInterfaces());
  ECCL_ASSIGN(std::vector<Interface> chosen, chooseInterfaces(all, options_.interfaces));
  endpoint_ = localEndpoint();
  endpoint_.identity = options_.identity ? *options_.identity : randomIdentity();

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
    ports[family == AF_INET6] = boundPort(listeners_.back().fd.get());
  }
  for (const Interface& one : chosen) {
    if (endpoint_.addresses.size() == Endpoint::kMaxAddresses) break;
    endpoint_.addresses.push_back(one.address.withPort(ports[one.address.family() == AF_INET6]));
  }
  if (options_.unixListener) ECCL_TRY(addUnix());
  for (size_t i = 0; i < listeners_.size(); ++i) {
    ECCL_TRY(poller_.watch(listeners_[i].fd.get(), EPOLLIN, slots_.size() + i));
  }
  return {};
}

Status Acceptor::addTcp(int family, uint16_t port) {
  const SocketAddress address = SocketAddress::any(family, port);
  Fd fd(socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const int on = 1;
  if (fd) {
    setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);  // a port in TIME_WAIT is free
    if (family == AF_INET6) setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
  }
  if (!fd || bind(fd.get(), address.raw(), address.rawSize()) != 0 || ::listen(fd.get(), kBacklog) != 0) {
    return Status::fromErrno(errno, "cannot listen on %s%s", address.text().c_str(),
                             port != 0 ? " (is another job using this port?)" : "");
  }
  listeners_.push_back({std::move(fd), false});
  return {};
}

Status Acceptor::addUnix() {
  const std::string name = endpoint_.unixName();
  // Every process of this network namespace can see the name and connect: it is the handshake that protects.
  sockaddr_un address;
  const socklen_t size = abstractAddress(name, &address);
  Fd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd || bind(fd.get(), reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      ::listen(fd.get(), kBacklog) != 0) {
    return Status::fromErrno(errno, "cannot listen on the abstract AF_UNIX socket @%s", name.c_str());
  }
  listeners_.push_back({std::move(fd), true});
  endpoint_.hasUnix = true;
  return {};
}

TimePoint Acceptor::nextDeadline() const {
  TimePoint next = pausedUntil_;
  if (halfOpen_ == 0) return next;
  for (const Slot& slot : slots_) {
    if (slot.handshake.fd() >= 0) next = std::min(next, slot.since + options_.handshakeLimit);
  }
  return next;
}

void Acceptor::progress() {
  const TimePoint now = options_.clock->now();
  for (Slot& slot : slots_) {
    if (slot.handshake.fd() >= 0 && now - slot.since >= options_.handshakeLimit) {
      drop(slot, format("did not finish the handshake in %.3g s", seconds(options_.handshakeLimit)));
    }
  }
  if (pausedUntil_ <= now) {
    pausedUntil_ = TimePoint::max();
    for (size_t i = 0; i < listeners_.size(); ++i) {
      poller_.watch(listeners_[i].fd.get(), EPOLLIN, slots_.size() + i).ignore();  // was watched before
    }
  }
  epoll_event events[64];
  const int count = poller_.ready(events);
  for (int i = 0; i < count; ++i) {
    const size_t tag = events[i].data.u64;
    // A slot may have been freed or refilled since the event was made; advance() finds out by itself.
    if (tag >= slots_.size())
      acceptFrom(listeners_[tag - slots_.size()]);
    else
      advance(slots_[tag]);
  }
}

// At most kAcceptsPerProgress at a time: established business comes between two bursts of newcomers.
void Acceptor::acceptFrom(const Listener& listener) {
  for (int i = 0; i < kAcceptsPerProgress && pausedUntil_ == TimePoint::max(); ++i) {
    if (!makeRoom()) return;
    sockaddr_storage from{};
    socklen_t size = sizeof from;
    Fd fd(accept4(listener.fd.get(), reinterpret_cast<sockaddr*>(&from), &size, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!fd) {
      if (errno == EAGAIN || errno == EWOULDBLOCK) return;
      if (errno != EMFILE && errno != ENFILE && errno != ENOBUFS && errno != ENOMEM)
        continue;  // that peer is gone
      int suppressed = 0;
      const int failure = errno;
      if (limiter_.allow(options_.clock->now(), &suppressed)) {
        ECCL_WARN("%s; connections wait (raise 'ulimit -n'?)",
                  Status::fromErrno(failure, "accept").message().c_str());
      }
      return pause(options_.clock->now() + kNoDescriptorsPause);
    }
    Slot& slot = *std::find_if(slots_.begin(), slots_.end(), [](Slot& s) { return s.handshake.fd() < 0; });
    slot.since = options_.clock->now();
    slot.viaUnix = listener.isUnix;
    slot.pid = 0;
    if (listener.isUnix) {
      ucred peer{};
      socklen_t length = sizeof peer;
      if (getsockopt(fd.get(), SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0) slot.pid = peer.pid;
      slot.peer = format("unix pid %d", slot.pid);
    } else {
      const int on = 1;
      setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
      slot.peer = SocketAddress::from(reinterpret_cast<sockaddr*>(&from)).text();
    }
    slot.handshake = Handshake::accepting(std::move(fd), secret_, endpoint_.identity);
    ++halfOpen_;
    advance(slot);
  }
}

// True when a slot is free, if need be at the expense of a stranger who has had his time.
bool Acceptor::makeRoom() {
  if (halfOpen_ < slots_.size()) return true;
  Slot& oldest =
      *std::min_element(slots_.begin(), slots_.end(), [](Slot& a, Slot& b) { return a.since < b.since; });
  if (options_.clock->now() - oldest.since >= kEvictAfter) {
    drop(oldest, "was slow to finish the handshake while others were waiting");
    return true;
  }
  pause(oldest.since + kEvictAfter);
  return false;
}

// Stops watching the listeners; connections wait in the kernel's queue instead of making fd() ready all the
// time.
void Acceptor::pause(TimePoint until) {
  pausedUntil_ = until;
  for (const Listener& listener : listeners_) poller_.forget(listener.fd.get());
}

// Called on readiness, and speculatively on a new connection, whose greeting is mostly there already.
void Acceptor::advance(Slot& slot) {
  if (slot.handshake.fd() < 0) return;
  const Handshake::State state = slot.handshake.advance();
  if (state == Handshake::State::failed) return drop(slot, slot.handshake.why());
  if (state == Handshake::State::working) {
    Status status = poller_.watch(slot.handshake.fd(), slot.handshake.awaits(),
                                  static_cast<uint64_t>(&slot - slots_.data()));
    if (!status.ok()) drop(slot, status.message());
    return;
  }
  poller_.forget(slot.handshake.fd());
  --halfOpen_;
  if (pausedUntil_ != TimePoint::max()) pausedUntil_ = options_.clock->now();  // there is room again
  onIncoming_(Incoming{slot.handshake.hello(), slot.handshake.takeSocket(), slot.viaUnix, slot.pid, slot.peer});
}

void Acceptor::drop(Slot& slot, const std::string& why) {
  int suppressed = 0;
  if (limiter_.allow(options_.clock->now(), &suppressed)) {
    ECCL_WARN("dropped a connection from %s, which %s; the job is not affected%s", slot.peer.c_str(),
              why.c_str(),
              suppressed > 0 ? format(" (%d more were dropped silently)", suppressed).c_str() : "");
  }
  poller_.forget(slot.handshake.fd());
  slot.handshake = Handshake();
  --halfOpen_;
  if (pausedUntil_ != TimePoint::max()) pausedUntil_ = options_.clock->now();
}

void Acceptor::closeAfterFork() {
  poller_.close();
  for (Listener& listener : listeners_) listener.fd.reset();
  for (Slot& slot : slots_) slot.handshake.takeSocket().reset();
}

}  // namespace eccl
