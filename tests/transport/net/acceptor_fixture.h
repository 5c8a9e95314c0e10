// An Acceptor of a test's own, and callers of all kinds.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <thread>

#include "transport/net/acceptor.h"
#include "transport/net/dialer.h"
#include "transport/net/fake_clock.h"

namespace eccl::test {

using namespace std::chrono_literals;

inline transport::Fd rawConnect(const transport::SocketAddress& to) {
  transport::Fd fd(socket(to.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(connect(fd.get(), to.raw(), to.rawSize()), 0) << to.text() << ": " << strerror(errno);
  return fd;
}

/// True when the other side has closed.
inline bool closedByPeer(const transport::Fd& fd) {
  pollfd entry{fd.get(), POLLIN, 0};
  char byte;
  return poll(&entry, 1, 0) == 1 && recv(fd.get(), &byte, 1, MSG_DONTWAIT) <= 0;
}

struct AcceptorTest : testing::Test {
  FakeClock clock;  // for options.system; it stands still until a test moves it
  transport::Secret secret = transport::Secret::random(System::real());
  transport::Acceptor::Options options;
  std::vector<transport::Incoming> arrived;
  std::unique_ptr<transport::Acceptor> acceptor;

  void SetUp() override { options.interfaces.names = "lo"; }
  transport::Acceptor& open() {
    auto result = transport::Acceptor::open(
        secret, options, [this](transport::Incoming in) { arrived.push_back(std::move(in)); });
    EXPECT_TRUE(result.ok()) << result.status().message();
    acceptor = result.take();
    return *acceptor;
  }
  transport::Hello hello(int rank = 3) {
    transport::Hello hello;
    hello.rank = rank;
    hello.communicator = 42;
    return hello;
  }
  /// Drives both until the dialer is through.
  Result<transport::Stream> dialHere(const transport::Endpoint& endpoint, transport::DialOptions dialOptions = {}) {
    transport::Dialer dialer(endpoint, secret, hello(), dialOptions, System::real().now() + 20s);
    while (!dialer.progress()) {
      acceptor->progress();
      pollfd fds[] = {{dialer.fd(), POLLIN, 0}, {acceptor->fd(), POLLIN, 0}};
      poll(fds, 2, 5);
    }
    for (int i = 0; i < 100 && arrived.empty(); ++i) {
      acceptor->progress();
      std::this_thread::sleep_for(1ms);
    }
    return dialer.result();
  }
};

}  // namespace eccl::test
