// By which routers flows go, found out without privileges.
#pragma once

#include <string>
#include <vector>

#include "transport/flows/flow_way.h"
#include "transport/net/fd.h"
#include "transport/net/poller.h"

namespace eccl::transport {

/// Traces flows to one listener: calls it, from several source ports, with calls that live for so few hops
/// (TTL) that a router on the way drops them and says so (ICMP), which the kernel tells a socket that asks
/// (IP_RECVERR). A call that arrives all the same is closed before anything is said over it. So nothing is sent
/// to anybody but the listener, and the packets are hashed as those of a real connection from that port will
/// be.
///
/// The first port is traced from the first router to the last. The others begin with the second: what is next
/// to this host is the same for all. Where there are fewer than two routers, there is nothing to choose.
///
/// Of flows over UDP, as RoCE's are, the others are traced by datagrams to the port that such flows go to. They
/// live for as many hops as the first found routers, so none arrives.
///
/// Owner and thread: one, whose epoll may watch fd(). May be destroyed at any time. Failure: none; routers that
/// say nothing are empty hops, ports that cannot be had are left out.
class FlowProbe {
 public:
  struct Options {
    System* system = &System::real();
    std::string interface;        ///< that is sent through
    SocketAddress from;           ///< its address
    SocketAddress to;             ///< the listener
    std::vector<uint16_t> ports;  ///< 0: any that is free, of flows over UDP a dynamic one
    uint16_t datagramsTo = 0;     ///< of flows over UDP: the port that they go to; 0: they are TCP's
  };
  /// Nothing is sent before the first progress().
  explicit FlowProbe(const Options& options);
  int fd() const { return poller_.fd(); }
  TimePoint nextDeadline() const;
  /// True once it is over.
  bool progress();
  /// Then: the ways that are known, but for the first port's. Empty: there are fewer than two routers, or none
  /// of them says anything.
  std::vector<FlowWay> ways() const;
  /// Then: there are two routers or more, and one or more of them says nothing.
  bool isSilent() const;
  void closeAfterFork();

 private:
  struct Caller {
    Fd socket;
    FlowWay way;
    int ttl = 0;
    int tries = 0;
    TimePoint until{};
    bool over = true;
  };
  void begin(Caller& caller, int ttl);
  Fd bound(const Caller& caller, uint16_t port) const;
  uint16_t anyPort(const Caller& caller) const;
  bool sendsDatagrams(const Caller& caller) const {
    return options_.datagramsTo != 0 && &caller != callers_.data();
  }
  void call(Caller& caller);
  /// True: an answer is awaited.
  bool connect(Caller& caller);
  bool send(Caller& caller);
  void look(Caller& caller);
  /// none: there is none; late: a router's, to an earlier datagram; other: not a router's.
  enum class Answer : uint8_t { none, router, late, other };
  Answer takeAnswer(Caller& caller);
  void found(Caller& caller, const SocketAddress& hop);
  void end(Caller& caller);

  const Options options_;
  Poller poller_;
  std::vector<Caller> callers_;
  size_t routers_ = 0;  // on the way of the first port
  bool others_ = false;
};

/// A port for a flow over UDP, by chance.
uint16_t dynamicPort(System& system);

/// How many ports to try at first: where there are four ways, one of ten flows misses any given one of them.
inline constexpr size_t kProbedPorts = 9;

}  // namespace eccl::transport
