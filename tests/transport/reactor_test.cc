#include "transport/core/reactor.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <thread>

#include "base/clock.h"

namespace eccl::transport {
namespace {

struct Pair {
  Fd here, there;
  Pair() {
    int both[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, both), 0);
    here = Fd(both[0]);
    there = Fd(both[1]);
  }
  void tell() { EXPECT_EQ(write(there.get(), "x", 1), 1); }
};

struct Handler : ReadyHandler {
  std::function<void(uint32_t)> react = [](uint32_t) {};
  int calls = 0;
  void onReady(uint32_t events) override {
    ++calls;
    react(events);
  }
};

TEST(Reactor, TellsWhoIsReadyAndWhatFor) {
  Reactor reactor;
  ASSERT_TRUE(reactor.open(System::real()).ok());
  EXPECT_FALSE(reactor.poll(Duration::zero()));
  Pair a, b;
  Handler onA, onB;
  uint32_t seen = 0;
  onA.react = [&](uint32_t events) { seen = events; };
  ASSERT_TRUE(reactor.watch(a.here.get(), EPOLLIN, &onA).ok());
  ASSERT_TRUE(reactor.watch(b.here.get(), EPOLLIN, &onB).ok());
  EXPECT_FALSE(reactor.poll(Duration::zero()));
  a.tell();
  EXPECT_TRUE(reactor.poll(std::chrono::seconds(1)));
  EXPECT_EQ(onA.calls, 1);
  EXPECT_EQ(seen, uint32_t{EPOLLIN});
  EXPECT_EQ(onB.calls, 0);
  ASSERT_TRUE(reactor.watch(a.here.get(), EPOLLOUT, &onA).ok());  // changes what it waits for
  EXPECT_TRUE(reactor.poll(Duration::zero()));
  EXPECT_EQ(seen, uint32_t{EPOLLOUT});
  reactor.forget(a.here.get(), &onA);
  EXPECT_FALSE(reactor.poll(Duration::zero()));
  EXPECT_FALSE(reactor.watch(-1, EPOLLIN, &onA).ok());
}

// Both are fetched in one batch; whichever is called first ends the other, and frees it.
TEST(Reactor, ForgettingDuringDispatchIsSafe) {
  Reactor reactor;
  ASSERT_TRUE(reactor.open(System::real()).ok());
  for (int round = 0; round < 20; ++round) {
    Pair pairs[3];
    std::unique_ptr<Handler> handlers[3];
    int total = 0;
    for (int i = 0; i < 3; ++i) {
      handlers[i] = std::make_unique<Handler>();
      handlers[i]->react = [&, i](uint32_t) {
        ++total;
        for (int other = 0; other < 3; ++other) {
          if (other == i || handlers[other] == nullptr) continue;
          reactor.forget(pairs[other].here.get(), handlers[other].get());
          handlers[other].reset();
        }
      };
      ASSERT_TRUE(reactor.watch(pairs[i].here.get(), EPOLLIN, handlers[i].get()).ok());
      pairs[i].tell();
    }
    EXPECT_TRUE(reactor.poll(Duration::zero()));
    EXPECT_EQ(total, 1);
    for (int i = 0; i < 3; ++i) {
      if (handlers[i] != nullptr) reactor.forget(pairs[i].here.get(), handlers[i].get());
    }
  }
}

TEST(Reactor, ARingEndsASleepAndIsHeardOnce) {
  Reactor reactor;
  ASSERT_TRUE(reactor.open(System::real()).ok());
  std::thread ringer([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    reactor.ring();
  });
  const TimePoint begun = System::real().now();
  EXPECT_TRUE(reactor.poll(std::chrono::seconds(10)));
  EXPECT_LT(System::real().now() - begun, std::chrono::seconds(5));
  ringer.join();
  EXPECT_FALSE(reactor.poll(Duration::zero()));
  reactor.ring();
  reactor.ring();
  EXPECT_TRUE(reactor.poll(Duration::zero()));
  EXPECT_FALSE(reactor.poll(Duration::zero()));
}

TEST(Reactor, CanBeNested) {
  Reactor inner, outer;
  ASSERT_TRUE(inner.open(System::real()).ok());
  ASSERT_TRUE(outer.open(System::real()).ok());
  Handler handler;
  handler.react = [&](uint32_t) { inner.poll(Duration::zero()); };
  ASSERT_TRUE(outer.watch(inner.fd(), EPOLLIN, &handler).ok());
  EXPECT_FALSE(outer.poll(Duration::zero()));
  inner.ring();
  EXPECT_TRUE(outer.poll(Duration::zero()));
  EXPECT_EQ(handler.calls, 1);
  EXPECT_FALSE(outer.poll(Duration::zero()));
}

}  // namespace
}  // namespace eccl::transport
