#include "transport/flows/flow_probe.h"

#include <gmock/gmock.h>
#include <linux/errqueue.h>
#include <netinet/in.h>
#include <netinet/ip_icmp.h>
#include <poll.h>

#include <cstring>
#include <map>
#include <set>

#include "support/forwarding_system.h"
#include "support/loopback_routers.h"
#include "transport/core/device_flow.h"
#include "transport/net/socket_ends.h"

namespace eccl::transport {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

SocketAddress ip(const std::string& text, uint16_t port = 0) {
  return SocketAddress::resolve(text + ":1").take()[0].withPort(port);
}

/// Routers on the way: what each answers, by source port. A silent one is empty. Behind the last is the peer.
class Routers : public test::ForwardingSystem {
 public:
  using Way = std::function<std::vector<SocketAddress>(uint16_t port)>;
  explicit Routers(Way way) : ForwardingSystem(System::real()), way_(std::move(way)) {}

  TimePoint now() override { return now_; }
  int setsockopt(int fd, int level, int name, const void* value, socklen_t size) override {
    if (level == SOL_SOCKET && name == SO_BINDTODEVICE) return 0;
    if (level == IPPROTO_IP && name == IP_TTL) std::memcpy(&ttl_[fd], value, sizeof(int));
    return to_.setsockopt(fd, level, name, value, size);
  }
  int connect(int fd, const sockaddr* address, socklen_t size) override {
    if (address->sa_family == AF_UNSPEC) return to_.connect(fd, address, size);
    const uint16_t port = localAddress(Fd(dup(fd), *this)).port();
    const std::vector<SocketAddress> hops = way_(port);
    const auto ttl = static_cast<size_t>(ttl_[fd]);
    calls.emplace_back(port, ttl);
    if (ttl > hops.size()) return 0;
    answers_.erase(fd);
    if (hops[ttl - 1].valid()) answers_[fd] = hops[ttl - 1];
    errno = hops[ttl - 1].valid() ? EHOSTUNREACH : EINPROGRESS;
    return -1;
  }
  ssize_t recvmsg(int fd, msghdr* message, int flags) override {
    const auto answer = answers_.extract(fd);
    if ((flags & MSG_ERRQUEUE) == 0 || answer.empty()) return errno = EAGAIN, -1;
    test::tellAnswer(message, *reinterpret_cast<const sockaddr_in*>(answer.mapped().raw()), type);
    return 0;
  }
  int epollControl(int set, int operation, int fd, epoll_event* event) override {
    (void)set, (void)operation, (void)fd, (void)event;  // only the clock tells of silent routers
    return 0;
  }
  void pass(Duration time) { now_ += time; }

  std::vector<std::pair<uint16_t, size_t>> calls;  // source port and TTL
  uint8_t type = ICMP_TIME_EXCEEDED;

 private:
  const Way way_;
  TimePoint now_ = TimePoint(1s);
  std::map<int, int> ttl_;
  std::map<int, SocketAddress> answers_;
};

std::vector<FlowWay> trace(Routers& routers, std::vector<uint16_t> ports) {
  FlowProbe probe({&routers, "lo", ip("127.0.0.1"), ip("127.0.0.2", 9), std::move(ports)});
  for (int i = 0; i < 2000; ++i) {
    if (probe.progress()) return probe.ways();
    routers.pass(5ms);
  }
  ADD_FAILURE() << "it does not end";
  return {};
}

const std::vector<uint16_t> kNine(9);

TEST(FlowProbe, SaysByWhichRoutersEachPortGoes) {
  Routers routers([](uint16_t port) {
    return std::vector{ip("10.0.0.254"), ip(port % 2 != 0 ? "10.1.0.1" : "10.1.0.2"), ip("10.2.0.1")};
  });
  const std::vector<FlowWay> ways = trace(routers, kNine);
  ASSERT_THAT(ways, SizeIs(8));
  std::set<uint16_t> ports;
  for (const FlowWay& way : ways) {
    ports.insert(way.port);
    EXPECT_THAT(way.hops, ElementsAre(ip(way.port % 2 != 0 ? "10.1.0.1" : "10.1.0.2"), ip("10.2.0.1")));
  }
  EXPECT_EQ(ports.size(), 8u);
}

// One call reaches it: the first port's, which finds out how far it is.
TEST(FlowProbe, ThePeerIsCalledOnce) {
  Routers routers([](uint16_t) { return std::vector{ip("10.0.0.254"), ip("10.1.0.1")}; });
  trace(routers, kNine);
  int reaching = 0;
  for (const auto& [port, ttl] : routers.calls) reaching += ttl > 2;
  EXPECT_EQ(reaching, 1);
}

TEST(FlowProbe, ThePortStaysTheSameFromCallToCall) {
  Routers routers([](uint16_t) { return std::vector{ip("10.0.0.1"), ip("10.1.0.1"), ip("10.2.0.1")}; });
  trace(routers, {0, 0});
  std::set<uint16_t> ports;
  for (const auto& [port, ttl] : routers.calls) ports.insert(port);
  EXPECT_EQ(ports.size(), 2u);
}

TEST(FlowProbe, NothingToChooseWithoutTwoRouters) {
  Routers none([](uint16_t) { return std::vector<SocketAddress>(); });
  EXPECT_THAT(trace(none, kNine), IsEmpty());
  EXPECT_THAT(none.calls, SizeIs(1));
  Routers one([](uint16_t) { return std::vector{ip("10.0.0.254")}; });
  EXPECT_THAT(trace(one, kNine), IsEmpty());
  EXPECT_THAT(one.calls, SizeIs(2));
}

TEST(FlowProbe, ASilentRouterIsEmpty) {
  Routers routers([](uint16_t port) {
    return std::vector{ip("10.0.0.254"), SocketAddress(), ip(port % 2 != 0 ? "10.2.0.1" : "10.2.0.2")};
  });
  const std::vector<FlowWay> ways = trace(routers, kNine);
  ASSERT_THAT(ways, SizeIs(8));
  EXPECT_THAT(ways[0].hops, ElementsAre(SocketAddress(), ip(ways[0].port % 2 != 0 ? "10.2.0.1" : "10.2.0.2")));
}

TEST(FlowProbe, EndsWhereNobodyAnswers) {
  Routers routers([](uint16_t) { return std::vector<SocketAddress>(20); });
  EXPECT_THAT(trace(routers, kNine), IsEmpty());
}

TEST(FlowProbe, EndsOnAWayWithoutEnd) {
  Routers routers([](uint16_t) { return std::vector<SocketAddress>(200, ip("10.0.0.1")); });
  for (const FlowWay& way : trace(routers, kNine)) EXPECT_LT(way.hops.size(), kMaxHops);
}

TEST(FlowProbe, TracesThePortsThatAreNamedAndLeavesOutThoseInUse) {
  Fd other(System::real().socket(AF_INET));
  const SocketAddress any = ip("127.0.0.1");
  ASSERT_EQ(bind(other.get(), any.raw(), any.rawSize()), 0);
  ASSERT_EQ(listen(other.get(), 1), 0);
  Routers routers([](uint16_t) { return std::vector{ip("10.0.0.254"), ip("10.1.0.1")}; });
  const std::vector<FlowWay> free = trace(routers, {0, 0});
  ASSERT_THAT(free, SizeIs(1));
  const std::vector<FlowWay> ways = trace(routers, {0, free[0].port, localAddress(other).port()});
  ASSERT_THAT(ways, SizeIs(1));
  EXPECT_EQ(ways[0].port, free[0].port);
}

// A firewall's refusal is no router's name.
TEST(FlowProbe, OtherAnswersAreNoHops) {
  Routers routers([](uint16_t) { return std::vector<SocketAddress>(3, ip("10.0.0.254")); });
  routers.type = ICMP_DEST_UNREACH;
  EXPECT_THAT(trace(routers, kNine), IsEmpty());
}

TEST(FlowProbe, NoPortsIsOverAtOnce) {
  FlowProbe probe({&System::real(), "lo", ip("127.0.0.1"), ip("127.0.0.2", 9), {}});
  EXPECT_TRUE(probe.progress());
  EXPECT_THAT(probe.ways(), IsEmpty());
}

/// Of flows over UDP, as time passes.
std::vector<FlowWay> traceDatagrams(test::LoopbackRouters& routers) {
  FlowProbe probe({&routers, "lo", ip("127.0.0.1"), ip("127.0.0.2", 9), kNine, kRocePort});
  while (!probe.progress())
    routers.poll(probe.fd(), POLLIN, std::max(probe.nextDeadline() - routers.now(), Duration::zero()));
  return probe.ways();
}

/// By the parity of the port, or of the half of it.
std::vector<std::string> fourWays(uint16_t port) {
  return {"10.0.0.1", port % 2 != 0 ? "10.1.0.1" : "10.1.0.2", port / 2 % 2 != 0 ? "10.2.0.1" : "10.2.0.2"};
}

std::vector<SocketAddress> hopsBehindTheFirst(uint16_t port) {
  const std::vector<std::string> hops = fourWays(port);
  return {ip(hops[1]), ip(hops[2])};
}

TEST(FlowProbe, FlowsOverUdpAreTracedByDatagrams) {
  test::LoopbackRouters routers(fourWays);
  const std::vector<FlowWay> ways = traceDatagrams(routers);
  EXPECT_THAT(ways, SizeIs(8));
  for (const FlowWay& way : ways) {
    EXPECT_GE(way.port, 0xc000) << "no dynamic port";
    EXPECT_EQ(way.hops, hopsBehindTheFirst(way.port));
  }
  EXPECT_THAT(routers.datagrams, SizeIs(2 * 8));
  for (const auto& [port, hops] : routers.datagrams) EXPECT_LE(hops, 3u) << "it arrives";
}

// What a router says twice would else count as what the next one says.
TEST(FlowProbe, LateAnswersToDatagramsDoNotCount) {
  test::LoopbackRouters routers(fourWays);
  routers.repeats = true;
  const std::vector<FlowWay> ways = traceDatagrams(routers);
  EXPECT_THAT(ways, SizeIs(8));
  for (const FlowWay& way : ways) EXPECT_EQ(way.hops, hopsBehindTheFirst(way.port));
}

}  // namespace
}  // namespace eccl::transport
