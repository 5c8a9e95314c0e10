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
    here.reset(both[0]);
    there.reset(both[1]);
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
  ASSERT_TRUE(reactor.open().ok());
  EXPECT_FALSE(reactor.poll(0));
  Pair a, b;
  Handler onA, onB;
  uint32_t seen = 0;
  onA.react = [&](uint32_t events) { seen = events; };
  ASSERT_TRUE(reactor.watch(a.here.get(), EPOLLIN, &onA).ok());
  ASSERT_TRUE(reactor.watch(b.here.get(), EPOLLIN, &onB).ok());
  EXPECT_FALSE(reactor.poll(0));
  a.tell();
  EXPECT_TRUE(reactor.poll(1000));
  EXPECT_EQ(onA.calls, 1);
  EXPECT_EQ(seen, uint32_t{EPOLLIN});
  EXPECT_EQ(onB.calls, 0);
  ASSERT_TRUE(reactor.watch(a.here.get(), EPOLLOUT, &onA).ok());  // changes what it waits for
  EXPECT_TRUE(reactor.poll(0));
  EXPECT_EQ(seen, uint32_t{EPOLLOUT});
  reactor.forget(a.here.get(), &onA);
  EXPECT_FALSE(reactor.poll(0));
  EXPECT_FALSE(reactor.watch(-1, EPOLLIN, &onA).ok());
}

// Both are fetched in one batch; whichever is called first ends the other, and frees it.
TEST(Reactor, ForgettingDuringDispatchIsSafe) {
  Reactor reactor;
  ASSERT_TRUE(reactor.open().ok());
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
    EXPECT_TRUE(reactor.poll(0));
    EXPECT_EQ(total, 1);
    for (int i = 0; i < 3; ++i) {
      if (handlers[i] != nullptr) reactor.forget(pairs[i].here.get(), handlers[i].get());
    }
  }
}

TEST(Reactor, ARingEndsASleepAndIsHeardOnce) {
  Reactor reactor;
  ASSERT_TRUE(reactor.open().ok());
  std::thread ringer([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    reactor.ring();
  });
  const TimePoint begun = Clock::system().now();
  EXPECT_TRUE(reactor.poll(10'000));
  EXPECT_LT(Clock::system().now() - begun, std::chrono::seconds(5));
  ringer.join();
  EXPECT_FALSE(reactor.poll(0));
  reactor.ring();
  reactor.ring();
  EXPECT_TRUE(reactor.poll(0));
  EXPECT_FALSE(reactor.poll(0));
}

TEST(Reactor, CanBeNested) {
  Reactor inner, outer;
  ASSERT_TRUE(inner.open().ok());
  ASSERT_TRUE(outer.open().ok());
  Handler handler;
  handler.react = [&](uint32_t) { inner.poll(0); };
  ASSERT_TRUE(outer.watch(inner.fd(), EPOLLIN, &handler).ok());
  EXPECT_FALSE(outer.poll(0));
  inner.ring();
  EXPECT_TRUE(outer.poll(0));
  EXPECT_EQ(handler.calls, 1);
  EXPECT_FALSE(outer.poll(0));
}

}  // namespace
}  // namespace eccl::transport
