// Many strangers at a rank's listeners.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "transport/net/acceptor_fixture.h"
#include "transport/net/fake_clock.h"

namespace eccl::transport {

using namespace std::chrono_literals;

namespace {

using FloodTest = test::AcceptorTest;

/// A connection that says nothing, from an address of the loopback network that may be chosen.
Fd silent(const SocketAddress& to, const char* from = "127.0.0.1") {
  Fd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const SocketAddress mine = SocketAddress::resolve(std::string(from) + ":1")->front().withPort(0);
  EXPECT_EQ(bind(fd.get(), mine.raw(), mine.rawSize()), 0) << strerror(errno);
  EXPECT_EQ(connect(fd.get(), to.raw(), to.rawSize()), 0) << to.text() << ": " << strerror(errno);
  return fd;
}
Fd greeting(const SocketAddress& to) {
  Fd fd = silent(to);
  const Greeting greeting;
  EXPECT_EQ(write(fd.get(), &greeting, sizeof greeting), static_cast<ssize_t>(sizeof greeting));
  return fd;
}
Fd silentUnix(const Endpoint& endpoint) {
  sockaddr_un address;
  const socklen_t size = abstractAddress(endpoint.unixName(), &address);
  Fd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(connect(fd.get(), reinterpret_cast<sockaddr*>(&address), size), 0) << strerror(errno);
  return fd;
}
const SocketAddress& v4Of(const Endpoint& endpoint) {
  return *std::find_if(endpoint.addresses.begin(), endpoint.addresses.end(),
                       [](const SocketAddress& a) { return a.family() == AF_INET; });
}

TEST_F(FloodTest, AFloodOfHalfOpenConnectionsIsBoundedAndGivesWay) {
  options.system = &clock;
  options.maxHalfOpen = 8;
  open();
  std::vector<Fd> flood;
  for (int i = 0; i < 50; ++i) flood.push_back(test::rawConnect(acceptor->endpoint().addresses[0]));
  acceptor->progress();
  EXPECT_EQ(acceptor->halfOpen(), 8u);
  EXPECT_EQ(acceptor->nextDeadline(), clock.now() + 50ms);  // until then newcomers wait in the kernel
  acceptor->progress();
  EXPECT_EQ(acceptor->halfOpen(), 8u);
  std::thread member([&] {
    auto fd = dial(acceptor->endpoint(), secret, hello(), {.peer = "the acceptor", .handshakeLimit = 20s},
                   Wait::within(20s));
    EXPECT_TRUE(fd.ok()) << fd.status().message();
  });
  const Wait wait = Wait::within(20s);
  while (arrived.empty() && !wait.expired()) {
    clock.advance(100ms);
    acceptor->progress();
    EXPECT_LE(acceptor->halfOpen(), 8u);
    std::this_thread::sleep_for(2ms);
  }
  member.join();
  EXPECT_EQ(arrived.size(), 1u);
}

// Each eviction makes the next stranger's time shorter: 3,000 cost little more than the first 128.
TEST_F(FloodTest, ThousandsAtOnceAreWorkedOffInAFewTimesThePatience) {
  options.system = &clock;
  open();
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  const size_t most = std::min<size_t>(3000, static_cast<size_t>(limit.rlim_cur) * 3 / 4);
  std::vector<Fd> flood;
  while (flood.size() < most) flood.push_back(silent(v4Of(acceptor->endpoint())));
  const TimePoint begun = clock.now();
  while (!test::closedByPeer(flood[most - 200]) && clock.now() - begun < 10s) {
    acceptor->progress();
    clock.advance(std::chrono::milliseconds(1));
  }
  EXPECT_LT(clock.now() - begun, 150ms);
}

TEST_F(FloodTest, OtherSourcesKeepTheirPlaces) {
  options.system = &clock;
  options.maxHalfOpen = 8;
  const SocketAddress to = v4Of(open().endpoint());
  const Fd slow = silent(to, "127.0.0.2"), slower = silent(to, "127.0.0.3");
  std::vector<Fd> flood;
  for (int i = 0; i < 70; ++i) {  // less than 5 s, where their own limit is
    flood.push_back(silent(to));
    clock.advance(60ms);
    acceptor->progress();
    ASSERT_FALSE(test::closedByPeer(slow)) << i;
    ASSERT_FALSE(test::closedByPeer(slower)) << i;
  }
  EXPECT_TRUE(test::closedByPeer(flood[0]));
  EXPECT_EQ(acceptor->halfOpen(), 8u);
}

TEST_F(FloodTest, WhoHasGreetedGoesAfterTheSilent) {
  options.system = &clock;
  options.maxHalfOpen = 8;
  const SocketAddress to = v4Of(open().endpoint());
  const Fd member = greeting(to);
  acceptor->progress();
  char challenge[40];
  ASSERT_EQ(recv(member.get(), challenge, sizeof challenge, 0), 40);
  std::vector<Fd> flood;
  for (int i = 0; i < 60; ++i) {
    flood.push_back(silent(to));
    clock.advance(60ms);
    acceptor->progress();
    ASSERT_FALSE(test::closedByPeer(member)) << i;
  }
  EXPECT_TRUE(test::closedByPeer(flood[0]));
}

TEST_F(FloodTest, OneFamilyDoesNotCrowdTheOthersOut) {
  options.system = &clock;
  options.maxHalfOpen = 8;
  open();
  const Endpoint& endpoint = acceptor->endpoint();
  std::vector<Fd> flood;
  for (int i = 0; i < 30; ++i) flood.push_back(silent(v4Of(endpoint)));
  acceptor->progress();
  for (const SocketAddress& address : endpoint.addresses) {
    if (address.family() == AF_INET) continue;
    Endpoint only = endpoint;
    only.addresses = {address};
    EXPECT_TRUE(dialHere(only).ok()) << address.text();
  }
  const Result<Stream> local = dialHere(endpoint, {.via = Via::unixOnly});
  EXPECT_TRUE(local.ok()) << local.status().message();
  for (int i = 0; i < 30; ++i) flood.push_back(silentUnix(endpoint));
  acceptor->progress();
  EXPECT_EQ(acceptor->halfOpen(), 16u);
}

TEST_F(FloodTest, OtherUsersOfThisHostShareAFewPlaces) {
  if (geteuid() != 0) GTEST_SKIP() << "only the superuser can call as somebody else";
  options.system = &clock;
  options.maxHalfOpen = 16;
  const Endpoint endpoint = open().endpoint();
  std::vector<Fd> mine;
  for (int i = 0; i < 14; ++i) mine.push_back(silentUnix(endpoint));
  acceptor->progress();
  int go[2], ready[2];
  ASSERT_EQ(pipe2(go, O_CLOEXEC) | pipe2(ready, O_CLOEXEC), 0);
  const pid_t child = fork();
  if (child == 0) {
    if (setresuid(65534, 65534, 65534) != 0) _exit(2);
    std::vector<Fd> flood;
    for (int i = 0; i < 40; ++i) flood.push_back(silentUnix(endpoint));
    char byte = 0;
    _exit(write(ready[1], "x", 1) == 1 && read(go[0], &byte, 1) == 1 ? 0 : 3);
  }
  char byte;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  for (int i = 0; i < 10; ++i) acceptor->progress();
  EXPECT_EQ(acceptor->halfOpen(), 16u);  // all of mine, and two of theirs
  for (const Fd& each : mine) EXPECT_FALSE(test::closedByPeer(each));
  ASSERT_EQ(write(go[1], "x", 1), 1);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  for (int fd : {go[0], go[1], ready[0], ready[1]}) close(fd);
}

// Whoever is dropped unheard where others crowd comes again by the same way: the next one may be slower.
TEST(BusyListener, IsTriedAgain) {
  const Secret secret = Secret::random(System::real());
  Endpoint endpoint;
  endpoint.identity = randomIdentity(System::real());
  endpoint.hasUnix = true;
  endpoint.addresses = {SocketAddress::resolve("127.0.0.1:1")->front()};
  sockaddr_un address;
  const socklen_t size = abstractAddress(endpoint.unixName(), &address);
  Fd listener(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(bind(listener.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(listen(listener.get(), 0), 0);
  const Fd first = silentUnix(endpoint);  // the queue is full: to connect says "try again"
  std::thread acceptor([&] {
    std::this_thread::sleep_for(20ms);
    for (int turned = 0; turned < 3; ++turned) Fd(accept(listener.get(), nullptr, nullptr));
    Handshake handshake = Handshake::accepting(Fd(accept4(listener.get(), nullptr, nullptr, SOCK_NONBLOCK)), secret,
                                               endpoint.identity);
    while (handshake.advance() == Handshake::State::working) std::this_thread::sleep_for(1ms);
    EXPECT_EQ(handshake.advance(), Handshake::State::done) << handshake.why();
  });
  const auto fd = dial(endpoint, secret, {}, {.peer = "rank 1", .via = Via::unixThenTcp}, Wait::within(20s));
  EXPECT_TRUE(fd.ok()) << fd.status().message();
  sockaddr_storage mine{};
  socklen_t length = sizeof mine;
  if (fd.ok()) {
    EXPECT_EQ(getsockname(fd->get(), reinterpret_cast<sockaddr*>(&mine), &length), 0);
    EXPECT_EQ(mine.ss_family, AF_UNIX);
  } else {
    shutdown(listener.get(), SHUT_RDWR);
  }
  acceptor.join();
}

// A thousand ranks of one process call its root at once: handshakes that few places let through one after the
// other took seconds.
TEST_F(FloodTest, OneListenerUsesThePlacesThatOthersOfItsProcessLeave) {
  options.system = &clock;
  std::vector<std::unique_ptr<Acceptor>> others;
  for (int i = 0; i < 100; ++i) others.push_back(Acceptor::open(secret, options, [](Incoming) {}).take());
  open();
  std::vector<Fd> callers;
  for (int i = 0; i < 40; ++i) callers.push_back(test::rawConnect(acceptor->endpoint().addresses[0]));
  acceptor->progress();
  EXPECT_EQ(acceptor->halfOpen(), 40u);
}

}  // namespace
}  // namespace eccl::transport
