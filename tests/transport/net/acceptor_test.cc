#include "transport/net/acceptor.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <thread>

#include "transport/net/acceptor_fixture.h"
#include "transport/net/fake_clock.h"
#include "transport/net/loopback.h"

namespace eccl::transport {

using namespace std::chrono_literals;
using test::AcceptorTest;

namespace {

TEST_F(AcceptorTest, DeliversOverEveryCandidate) {
  const Endpoint& endpoint = open().endpoint();
  ASSERT_FALSE(endpoint.addresses.empty());
  int families = 0;
  for (const SocketAddress& address : endpoint.addresses) {
    Endpoint only = endpoint;
    only.addresses = {address};
    auto fd = dialHere(only);
    ASSERT_TRUE(fd.ok()) << fd.status().message();
    ASSERT_EQ(arrived.size(), 1u);
    EXPECT_EQ(arrived[0].hello.rank, 3);
    EXPECT_EQ(arrived[0].hello.communicator, 42u);
    EXPECT_FALSE(arrived[0].viaUnix);
    for (const Stream* end : {&*fd, &arrived[0].socket}) {
      EXPECT_NE(fcntl(end->get(), F_GETFD) & FD_CLOEXEC, 0);
      EXPECT_NE(fcntl(end->get(), F_GETFL) & O_NONBLOCK, 0);
    }
    families |= address.family() == AF_INET6 ? 2 : 1;
    arrived.clear();
  }
  // The listeners are there for the families that this machine's loopback has.
  auto all = listInterfaces(System::real());
  for (const Interface& one : *all) {
    if (one.name != "lo") continue;
    EXPECT_TRUE(families & (one.address.family() == AF_INET6 ? 2 : 1)) << one.address.text();
  }
  EXPECT_EQ(acceptor->halfOpen(), 0u);
}

TEST_F(AcceptorTest, KeepsMembersForAnOwnerThatIsNotReady) {
  open();
  std::atomic<bool> done{false};
  std::thread member([&] {
    auto fd = dial(acceptor->endpoint(), secret, hello(), {.peer = "the acceptor"}, Wait::within(20s));
    EXPECT_TRUE(fd.ok()) << fd.status().message();
    done = true;
  });
  while (!done) {
    acceptor->attend();
    std::this_thread::sleep_for(1ms);
  }
  member.join();
  EXPECT_TRUE(arrived.empty());
  acceptor->progress();
  EXPECT_EQ(arrived.size(), 1u);
}

TEST_F(AcceptorTest, AfUnixNamesThePeerProcess) {
  open();
  auto fd = dialHere(acceptor->endpoint(), {.via = Via::unixOnly});
  ASSERT_TRUE(fd.ok()) << fd.status().message();
  ASSERT_EQ(arrived.size(), 1u);
  EXPECT_TRUE(arrived[0].viaUnix);
  EXPECT_EQ(arrived[0].pid, getpid());
}

TEST_F(AcceptorTest, FallsBackToTcpWhenTheUnixSocketIsElsewhere) {
  Endpoint remote = open().endpoint();
  acceptor.reset();
  options.unixListener = false;
  options.identity = remote.identity;
  remote.addresses = open().endpoint().addresses;
  auto fd = dialHere(remote, {.via = Via::unixThenTcp});
  ASSERT_TRUE(fd.ok()) << fd.status().message();
  EXPECT_FALSE(arrived.at(0).viaUnix);
}

TEST_F(AcceptorTest, StrangersAreDroppedAndMembersServed) {
  open();
  std::vector<Fd> strangers;
  for (const std::string& text :
       {std::string("GET / HTTP/1.0\r\n\r\n garbage garbage"), std::string(30, '\0')}) {
    strangers.push_back(test::rawConnect(acceptor->endpoint().addresses[0]));
    ASSERT_EQ(write(strangers.back().get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }
  strangers.push_back(test::rawConnect(acceptor->endpoint().addresses[0]));  // says nothing
  auto fd = dialHere(acceptor->endpoint());
  ASSERT_TRUE(fd.ok()) << fd.status().message();
  ASSERT_EQ(arrived.size(), 1u);
  EXPECT_TRUE(test::closedByPeer(strangers[0]));
  EXPECT_TRUE(test::closedByPeer(strangers[1]));
  EXPECT_FALSE(test::closedByPeer(strangers[2]));
  EXPECT_EQ(acceptor->halfOpen(), 1u);
}

TEST_F(AcceptorTest, WrongSecretIsNamedToTheDialer) {
  open();
  secret = Secret::random(System::real());
  auto fd = dialHere(acceptor->endpoint(), {.peer = "rank 5 (node9 pid 1)"});
  ASSERT_FALSE(fd.ok());
  const std::string text = fd.status().message();
  EXPECT_NE(text.find("rank 5 (node9 pid 1)"), std::string::npos) << text;
  EXPECT_NE(text.find("does not know this job's secret"), std::string::npos) << text;
  for (const SocketAddress& address : acceptor->endpoint().addresses)
    EXPECT_NE(text.find(address.text()), std::string::npos) << text;
  EXPECT_TRUE(arrived.empty());
}

TEST_F(AcceptorTest, DawdlersAreDroppedAtTheDeadline) {
  options.system = &clock;
  open();
  const Fd stranger = test::rawConnect(acceptor->endpoint().addresses[0]);
  acceptor->progress();
  ASSERT_EQ(acceptor->halfOpen(), 1u);
  EXPECT_EQ(acceptor->nextDeadline(), clock.now() + options.handshakeLimit);
  Greeting greeting;
  // Slow loris: a byte now and then does not buy time.
  for (size_t i = 0; i < 4; ++i) {
    clock.advance(1s);
    ASSERT_EQ(write(stranger.get(), bytesOf(greeting).data() + i, 1), 1);
    acceptor->progress();
    EXPECT_EQ(acceptor->halfOpen(), 1u);
  }
  clock.advance(1s);
  acceptor->progress();
  EXPECT_EQ(acceptor->halfOpen(), 0u);
  EXPECT_TRUE(test::closedByPeer(stranger));
  EXPECT_EQ(acceptor->nextDeadline(), TimePoint::max());
}

TEST_F(AcceptorTest, AScanFillsOnlyAFewLinesOfTheLog) {
  options.system = &clock;
  open();
  testing::internal::CaptureStderr();
  auto scan = [&] {
    for (int i = 0; i < 100; ++i) {
      const Fd fd = test::rawConnect(acceptor->endpoint().addresses[0]);
      ASSERT_EQ(write(fd.get(), "GET / HTTP/1.1\r\nHost: somewhere", 31), 31);
      while (!test::closedByPeer(fd)) acceptor->progress();
    }
  };
  scan();
  clock.advance(11s);
  scan();
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 10) << log;
  EXPECT_NE(log.find("does not speak ECCL's protocol; the job is not affected (95 more were dropped silently)"),
            std::string::npos)
      << log;
}

TEST_F(AcceptorTest, SelectionThatMatchesNothingIsLoud) {
  options.interfaces.names = "nosuch";
  testing::internal::CaptureStderr();
  auto result = Acceptor::open(secret, options, [](Incoming) {});
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.status().code(), Code::invalidArgument);
  EXPECT_NE(result.status().message().find("lo (127.0.0.1)"), std::string::npos) << result.status().message();
  EXPECT_NE(testing::internal::GetCapturedStderr().find("nosuch"), std::string::npos);
}

TEST_F(AcceptorTest, APortInUseIsNamed) {
  const uint16_t port = open().endpoint().addresses[0].port();
  Acceptor::Options taken = options;
  taken.port = port;
  auto second = Acceptor::open(secret, taken, [](Incoming) {});
  ASSERT_FALSE(second.ok());
  EXPECT_NE(second.status().message().find(":" + std::to_string(port) + " (is another job"), std::string::npos)
      << second.status().message();
}

TEST_F(AcceptorTest, AForkedChildLetsGoOfEverything) {
  open();
  const Fd stranger = test::rawConnect(acceptor->endpoint().addresses[0]);
  acceptor->progress();
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  Fd mine(ends[0]), childs(ends[1]);
  char byte = 0;
  const pid_t child = fork();
  if (child == 0) {
    acceptor->closeAfterFork();
    mine.reset();
    const bool good = write(childs.get(), "x", 1) == 1 &&
                      read(childs.get(), &byte, 1) == 0;  // lives until the parent is done
    _exit(good ? 0 : 1);
  }
  ASSERT_EQ(read(mine.get(), &byte, 1), 1);
  const SocketAddress address = acceptor->endpoint().addresses[0];
  // The parent's set is unharmed...
  ASSERT_TRUE(dialHere(acceptor->endpoint()).ok());
  // ...and when the parent closes, nobody listens any more.
  acceptor.reset();
  EXPECT_TRUE(test::closedByPeer(stranger));
  Fd late(socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_NE(connect(late.get(), address.raw(), address.rawSize()), 0);
  mine.reset();
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST_F(AcceptorTest, RunningOutOfDescriptorsIsSurvived) {
  open();
  const Fd waiting = test::rawConnect(acceptor->endpoint().addresses[0]);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{static_cast<rlim_t>(Fd(dup(0)).get()),
                    before.rlim_max};  // the next descriptor would be one too many
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  acceptor->progress();
  EXPECT_EQ(acceptor->halfOpen(), 0u);
  const TimePoint paused = acceptor->nextDeadline();
  EXPECT_LE(paused, System::real().now() + 100ms);  // not a busy loop, not for ever
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  std::this_thread::sleep_for(120ms);
  acceptor->progress();
  acceptor->progress();
  EXPECT_EQ(acceptor->halfOpen(), 1u);
}

TEST(Dialer, NamesEveryAddressAndItsReason) {
  // A port that was just free: nobody listens there.
  Fd probe(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in local{};
  local.sin_family = AF_INET;
  local.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(bind(probe.get(), reinterpret_cast<sockaddr*>(&local), sizeof local), 0);
  socklen_t size = sizeof local;
  ASSERT_EQ(getsockname(probe.get(), reinterpret_cast<sockaddr*>(&local), &size), 0);
  const SocketAddress dead = SocketAddress::from(reinterpret_cast<sockaddr*>(&local));
  // One that is bound and listens, but never answers.
  Fd mute(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  local.sin_port = 0;
  ASSERT_EQ(bind(mute.get(), reinterpret_cast<sockaddr*>(&local), sizeof local), 0);
  ASSERT_EQ(listen(mute.get(), 8), 0);
  ASSERT_EQ(getsockname(mute.get(), reinterpret_cast<sockaddr*>(&local), &size), 0);
  Endpoint endpoint;
  endpoint.hasUnix = true;
  endpoint.addresses = {dead, SocketAddress::from(reinterpret_cast<sockaddr*>(&local))};
  DialOptions options;
  options.peer = "rank 7 (node1 pid 9)";
  options.via = Via::unixThenTcp;
  options.handshakeLimit = 100ms;
  auto fd = dial(endpoint, Secret::random(System::real()), Hello(), options, Wait::within(10s));
  ASSERT_FALSE(fd.ok());
  const std::string text = fd.status().message();
  EXPECT_EQ(fd.status().code(), Code::remote);
  EXPECT_NE(text.find("could not connect to rank 7 (node1 pid 9)"), std::string::npos) << text;
  EXPECT_NE(text.find("unix @" + endpoint.unixName() + ": Connection refused"), std::string::npos) << text;
  EXPECT_NE(text.find(dead.text() + ": Connection refused"), std::string::npos) << text;
  EXPECT_NE(
      text.find(endpoint.addresses[1].text() + ": connected, but no answer to the handshake within 0.1 s"),
      std::string::npos)
      << text;

  // With retry the same ends at the deadline, which it names.
  options.retry = true;
  const TimePoint begun = System::real().now();
  fd = dial(endpoint, Secret::random(System::real()), Hello(), options, Wait::within(400ms));
  EXPECT_EQ(fd.status().code(), Code::timeout);
  EXPECT_NE(fd.status().message().find("within 0.4 s"), std::string::npos) << fd.status().message();
  EXPECT_LT(System::real().now() - begun, 2s);
}

TEST(Dialer, NothingToDialIsAnError) {
  EXPECT_NE(dial({}, {}, {}, {.peer = "rank 1"}, {}).status().message().find("rank 1: it offers no address"),
            std::string::npos);
  EXPECT_NE(dial({}, {}, {}, {.peer = "rank 1", .via = Via::unixOnly}, {})
                .status()
                .message()
                .find("no AF_UNIX socket"),
            std::string::npos);
}

TEST(Dialer, AbortEndsItAtOnce) {
  Endpoint endpoint;
  endpoint.addresses = {SocketAddress::resolve("127.0.0.1:1")->front()};
  std::atomic<bool> abort{false};
  std::thread aborter([&] {
    std::this_thread::sleep_for(100ms);
    abort = true;
  });
  const TimePoint begun = System::real().now();
  auto fd = dial(endpoint, {}, {}, {.peer = "rank 1", .retry = true}, Wait::within(30s, &abort));
  EXPECT_LT(System::real().now() - begun, 300ms);
  EXPECT_NE(fd.status().message().find("aborted while connecting to rank 1"), std::string::npos)
      << fd.status().message();
  aborter.join();
}

TEST(Dialer, DoesNotMistakeItselfForAListener) {
  // A socket bound to the port it connects to is accepted by the kernel: TCP's simultaneous open.
  Fd self(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in local{};
  local.sin_family = AF_INET;
  local.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(bind(self.get(), reinterpret_cast<sockaddr*>(&local), sizeof local), 0);
  socklen_t size = sizeof local;
  ASSERT_EQ(getsockname(self.get(), reinterpret_cast<sockaddr*>(&local), &size), 0);
  EXPECT_EQ(connect(self.get(), reinterpret_cast<sockaddr*>(&local), size), 0);
  EXPECT_TRUE(connectedToItself(self));
  EXPECT_FALSE(connectedToItself(Fd(-1)));
}

TEST(Dialer, ReportsNobodyWhereItWouldReachItself) {
  constexpr int kNoNamespace = 77;
  const pid_t child = fork();
  if (child == 0) {
    // A network whose only ephemeral port is the one that is dialled: connect() picks it as its own.
    if (unshare(CLONE_NEWNET) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) _exit(kNoNamespace);
    Fd range(open("/proc/sys/net/ipv4/ip_local_port_range", O_WRONLY | O_CLOEXEC));
    if (!test::setLoopback(true) || !range || write(range.get(), "40000 40000", 11) != 11) _exit(kNoNamespace);
    Endpoint endpoint;
    endpoint.addresses = {SocketAddress::resolve("127.0.0.1:40000")->front()};
    auto fd = dial(endpoint, {}, {}, {.peer = "rank 1"}, Wait::within(5s));
    const bool good = fd.status().message().find("127.0.0.1:40000: nobody listens there") != std::string::npos;
    if (!good) std::fprintf(stderr, "%s\n", fd.status().message().c_str());
    _exit(good ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  if (WEXITSTATUS(status) == kNoNamespace) {
    GTEST_SKIP() << "no network namespace may be made here (needs root or user namespaces)";
  }
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace eccl::transport
