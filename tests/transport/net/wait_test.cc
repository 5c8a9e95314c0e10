// What a thread attends to while it waits for something else.
#include "transport/net/wait.h"

#include "transport/net/acceptor_fixture.h"

namespace eccl::transport {

using namespace std::chrono_literals;

namespace {

/// The machine, where only a descriptor ends a sleep in time.
class DeepSleep : public test::ForwardingSystem {
 public:
  DeepSleep() : ForwardingSystem(System::real()) {}
  int poll(int fd, short events, Duration limit) override {
    return ForwardingSystem::poll(fd, events, limit > 0s ? 30s : 0s);
  }
};

/// A machine that tells how long a sleep was to last, and does not sleep.
class NoSleep : public test::ForwardingSystem {
 public:
  NoSleep() : ForwardingSystem(System::real()) {}
  int poll(int, short, Duration limit) override {
    last = limit;
    return 0;
  }
  Duration last{};
};

using Waiting = test::AcceptorTest;

TEST_F(Waiting, AListenerIsServedWhileItsOwnerDialsAndBothEndTheSleep) {
  open();
  DeepSleep system;
  Fd mute(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const SocketAddress any = SocketAddress::resolve("127.0.0.1:1")->front().withPort(0);
  ASSERT_EQ(bind(mute.get(), any.raw(), any.rawSize()), 0);
  ASSERT_EQ(listen(mute.get(), 8), 0);
  Endpoint nobody;
  nobody.addresses = {localAddress(mute)};
  Meanwhile meanwhile{{}, [&] { return acceptor->attend(), acceptor->nextDeadline(); }};
  ASSERT_TRUE(meanwhile.poller.open(system).ok());
  ASSERT_TRUE(meanwhile.poller.watch(acceptor->fd(), EPOLLIN, 0).ok());
  Wait wait = Wait::within(60s, nullptr, system);
  wait.meanwhile = &meanwhile;
  std::thread owner([&] {
    const auto dialed = dial(nobody, secret, hello(), {.peer = "nobody", .handshakeLimit = 60s}, wait);
    EXPECT_EQ(dialed.status().code(), Code::remote) << dialed.status().message();
  });
  Fd called(accept(mute.get(), nullptr, nullptr));
  char greeting;
  EXPECT_EQ(recv(called.get(), &greeting, 1, 0), 1);
  std::this_thread::sleep_for(50ms);  // now the owner sleeps, until there is an answer
  const auto member = dial(acceptor->endpoint(), secret, hello(), {.peer = "the owner", .handshakeLimit = 10s},
                           Wait::within(10s));
  EXPECT_TRUE(member.ok()) << member.status().message();
  const TimePoint said = System::real().now();
  const std::string nonsense(100, 'x');  // ends the dialing
  EXPECT_EQ(send(called.get(), nonsense.data(), nonsense.size(), 0), 100);
  owner.join();
  EXPECT_LT(System::real().now() - said, 10s);
  acceptor->progress();
  EXPECT_EQ(arrived.size(), 1u);
}

TEST(Wait, SleepsNoLongerThanWhatItAttendsToAllows) {
  NoSleep system;
  TimePoint due = TimePoint::max();
  Meanwhile meanwhile{{}, [&] { return due; }};
  ASSERT_TRUE(meanwhile.poller.open(system).ok());
  Wait wait = Wait::within(60s, nullptr, system);
  wait.meanwhile = &meanwhile;
  wait.onFd(-1);
  EXPECT_GE(system.last, Wait::kMinSlice);
  due = system.now() + 7ms;
  wait.onFd(-1);
  EXPECT_LE(system.last, 7ms);
}

}  // namespace
}  // namespace eccl::transport
