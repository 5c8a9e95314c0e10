#include "transport/flows/flow_probe.h"

#include <linux/errqueue.h>
#include <netinet/icmp6.h>
#include <netinet/in.h>
#include <netinet/ip_icmp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "transport/net/socket_ends.h"

namespace eccl::transport {
namespace {

/// Routers answer only some hundred probes in a second. So what is not answered is asked again, later and
/// later.
constexpr Duration kEchoLimit = std::chrono::milliseconds(100), kBetween = std::chrono::milliseconds(7);
constexpr int kCallsOfProbe = 4;
/// After so many silent routers in a row, the rest is silent too.
constexpr size_t kMostSilent = 2;

struct Option {
  int level, hops, errors;
};
Option optionsOf(int family) {
  if (family == AF_INET6) return {IPPROTO_IPV6, IPV6_UNICAST_HOPS, IPV6_RECVERR};
  return {IPPROTO_IP, IP_TTL, IP_RECVERR};
}

bool saysTimeExceeded(const sock_extended_err& error) {
  return (error.ee_origin == SO_EE_ORIGIN_ICMP && error.ee_type == ICMP_TIME_EXCEEDED) ||
         (error.ee_origin == SO_EE_ORIGIN_ICMP6 && error.ee_type == ICMP6_TIME_EXCEEDED);
}

}  // namespace

// They have the two highest bits (RFC 6335, section 6).
uint16_t dynamicPort(System& system) {
  uint16_t port = 0;
  system.random(&port, sizeof port);
  return 0xc000 | port;
}

FlowProbe::FlowProbe(const Options& options) : options_(options), callers_(options.ports.size()) {
  if (callers_.empty() || !poller_.open(*options_.system).ok()) return;
  for (size_t i = 0; i < callers_.size(); ++i) callers_[i].way.port = options_.ports[i];
  callers_[0].over = false;
}

TimePoint FlowProbe::nextDeadline() const {
  TimePoint next = TimePoint::max();
  for (const Caller& caller : callers_)
    if (!caller.over) next = std::min(next, caller.until);
  return next;
}

bool FlowProbe::progress() {
  epoll_event events[16];
  for (int left = poller_.fd() >= 0 ? poller_.ready(events) : 0; left > 0; --left)
    look(callers_[events[left - 1].data.u64]);
  const TimePoint now = options_.system->now();
  for (Caller& caller : callers_) {
    if (caller.over) continue;
    if (caller.ttl == 0)
      begin(caller, 1);
    else if (now >= caller.until)
      ++caller.tries < kCallsOfProbe ? call(caller) : found(caller, {});
  }
  if (callers_.empty()) return true;
  if (callers_[0].over && !std::exchange(others_, true) && routers_ >= 2)
    for (size_t i = 1; i < callers_.size(); ++i) begin(callers_[i], 2);
  return std::all_of(callers_.begin(), callers_.end(), [](const Caller& one) { return one.over; });
}

// A socket keeps its port through all its calls only if the port was named.
void FlowProbe::begin(Caller& caller, int ttl) {
  System& system = *options_.system;
  const Option option = optionsOf(options_.to.family());
  caller.over = false;
  caller.ttl = ttl;
  caller.tries = 0;
  const int on = 1;
  if (caller.way.port == 0) caller.way.port = anyPort(caller);
  caller.socket = bound(caller, caller.way.port);
  if (caller.way.port == 0 || !caller.socket ||
      system.setsockopt(caller.socket.get(), option.level, option.errors, &on, sizeof on) != 0) {
    caller.way.port = 0;
    return end(caller);
  }
  call(caller);
}

// The kernel's choice goes beyond the dynamic ports, and RoCE's flows do not.
uint16_t FlowProbe::anyPort(const Caller& caller) const {
  if (!sendsDatagrams(caller)) return localAddress(bound(caller, 0)).port();
  const auto isTaken = [this](uint16_t port) {
    return std::any_of(callers_.begin(), callers_.end(),
                       [port](const Caller& other) { return other.way.port == port; });
  };
  uint16_t port = 0;
  while (isTaken(port)) port = dynamicPort(*options_.system);  // who has none yet has 0
  return port;
}

// Empty if the port cannot be had.
Fd FlowProbe::bound(const Caller& caller, uint16_t port) const {
  System& system = *options_.system;
  const int family = options_.to.family();
  Fd socket(sendsDatagrams(caller) ? system.datagramSocket(family) : system.socket(family), system);
  const SocketAddress from = options_.from.withPort(port);
  const std::string& name = options_.interface;
  if (socket && (system.setsockopt(socket.get(), SOL_SOCKET, SO_BINDTODEVICE, name.c_str(),
                                   static_cast<socklen_t>(name.size())) != 0 ||
                 system.bind(socket.get(), from.raw(), from.rawSize()) != 0))
    socket.reset();
  return socket;
}

void FlowProbe::call(Caller& caller) {
  System& system = *options_.system;
  const Option option = optionsOf(options_.to.family());
  poller_.forget(caller.socket.get());
  caller.until = system.now() + kEchoLimit * (1 << caller.tries) + kBetween * (&caller - callers_.data());
  if (system.setsockopt(caller.socket.get(), option.level, option.hops, &caller.ttl, sizeof caller.ttl) != 0)
    return end(caller);
  const bool datagrams = sendsDatagrams(caller);
  if (!(datagrams ? send(caller) : connect(caller))) {
    if (datagrams || takeAnswer(caller) != Answer::router) end(caller);  // an answer may be quick
    return;
  }
  const uint32_t events = datagrams ? EPOLLERR : EPOLLOUT;
  if (!poller_.watch(caller.socket.get(), events, static_cast<uint64_t>(&caller - callers_.data())).ok())
    end(caller);
}

// A socket that has called before forgets that call.
bool FlowProbe::connect(Caller& caller) {
  System& system = *options_.system;
  const sockaddr nobody{.sa_family = AF_UNSPEC, .sa_data = {}};
  system.connect(caller.socket.get(), &nobody, sizeof nobody);
  return system.connect(caller.socket.get(), options_.to.raw(), options_.to.rawSize()) != 0 &&
         errno == EINPROGRESS;
}

// It says how long it lives: most routers quote that, which tells late answers from others. While there are
// such the socket has an error, which a call that asks for it clears, and which is else sending's.
bool FlowProbe::send(Caller& caller) {
  System& system = *options_.system;
  int error = 0;
  socklen_t size = sizeof error;
  system.getsockopt(caller.socket.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  const SocketAddress to = options_.to.withPort(options_.datagramsTo);
  const char lives = static_cast<char>(caller.ttl);
  return system.connect(caller.socket.get(), to.raw(), to.rawSize()) == 0 &&
         system.send(caller.socket.get(), &lives, sizeof lives) == sizeof lives;
}

// A call that is connected or refused has arrived; so has a datagram that somebody refuses.
void FlowProbe::look(Caller& caller) {
  if (caller.over) return;
  Answer answer = takeAnswer(caller);
  while (answer == Answer::late) answer = takeAnswer(caller);
  const bool arrived = answer == Answer::other || (answer == Answer::none && !sendsDatagrams(caller));
  if (arrived) end(caller);
}

FlowProbe::Answer FlowProbe::takeAnswer(Caller& caller) {
  char packet[64], control[256];
  iovec part{packet, sizeof packet};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  const ssize_t quoted = options_.system->recvmsg(caller.socket.get(), &message, MSG_ERRQUEUE);
  if (quoted < 0) return Answer::none;
  if (sendsDatagrams(caller) && quoted > 0 && packet[0] != static_cast<char>(caller.ttl)) return Answer::late;
  const Option option = optionsOf(options_.to.family());
  for (cmsghdr* one = CMSG_FIRSTHDR(&message); one != nullptr; one = CMSG_NXTHDR(&message, one)) {
    if (one->cmsg_level != option.level || one->cmsg_type != option.errors) continue;
    struct {
      sock_extended_err error;
      sockaddr_in6 offender;
    } told{};
    std::memcpy(&told, CMSG_DATA(one), std::min(sizeof told, one->cmsg_len - CMSG_LEN(0)));
    if (!saysTimeExceeded(told.error)) return Answer::other;
    found(caller, SocketAddress::from(reinterpret_cast<const sockaddr*>(&told.offender)).withPort(0));
    return Answer::router;
  }
  return Answer::other;
}

void FlowProbe::found(Caller& caller, const SocketAddress& hop) {
  std::vector<SocketAddress>& hops = caller.way.hops;
  hops.push_back(hop);
  caller.tries = 0;
  const bool first = &caller == &callers_[0];
  const size_t most = first ? kMaxHops : routers_ - 1;
  const bool silent = hops.size() >= kMostSilent && std::none_of(hops.end() - kMostSilent, hops.end(),
                                                                 [](const auto& one) { return one.valid(); });
  if (hops.size() >= most || silent) return end(caller);
  ++caller.ttl;
  call(caller);
}

// The first has reached the peer. The others keep their sockets, so that none gets the port of another.
void FlowProbe::end(Caller& caller) {
  poller_.forget(caller.socket.get());
  caller.over = true;
  if (&caller != &callers_[0]) return;
  caller.socket.reset();
  routers_ = caller.way.hops.size();
}

std::vector<FlowWay> FlowProbe::ways() const {
  std::vector<FlowWay> known;
  for (size_t i = 1; i < callers_.size(); ++i) {
    const FlowWay& way = callers_[i].way;
    const bool says =
        std::any_of(way.hops.begin(), way.hops.end(), [](const auto& hop) { return hop.valid(); });
    if (way.port != 0 && says) known.push_back(way);
  }
  return known;
}

bool FlowProbe::isSilent() const {
  if (routers_ < 2) return false;
  const std::vector<SocketAddress>& hops = callers_[0].way.hops;
  return std::any_of(hops.begin(), hops.end(), [](const SocketAddress& hop) { return !hop.valid(); });
}

void FlowProbe::closeAfterFork() {
  poller_.close();
  for (Caller& caller : callers_) caller.socket.reset();
}

}  // namespace eccl::transport
