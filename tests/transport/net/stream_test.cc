// Encrypted streams, between two sides that have shaken hands: pieces, full sockets, and what others do on the
// way.
#include "transport/net/stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "transport/net/dialer.h"
#include "transport/net/handshake.h"

namespace eccl::transport {
namespace {

using ::testing::HasSubstr;

std::pair<Fd, Fd> socketPair() {
  int fds[2];
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
  return {Fd(fds[0]), Fd(fds[1])};
}

/// Different bytes everywhere.
std::string noise(size_t count) {
  std::mt19937 random(static_cast<unsigned>(count));
  std::string bytes(count, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes;
}

/// Carries what is there from one socket to another. Returns it.
std::string carry(const Fd& from, const Fd& to, size_t most = SIZE_MAX) {
  std::string all;
  char bytes[4096];
  while (all.size() < most) {
    const ssize_t count = recv(from.get(), bytes, std::min(sizeof bytes, most - all.size()), MSG_DONTWAIT);
    if (count <= 0) break;
    EXPECT_EQ(::send(to.get(), bytes, static_cast<size_t>(count), MSG_NOSIGNAL), count);
    all.append(bytes, static_cast<size_t>(count));
  }
  return all;
}

/// Two encrypted streams. With `relayed`, the test carries the bytes between left and right.
class EncryptedStream : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const auto tls = tlsLibrary(); !tls.ok()) GTEST_SKIP() << tls.status().message();
    secret_.encrypts = true;
  }
  void establish(bool relayed = false) {
    auto [one, other] = socketPair();
    if (relayed) {
      left_ = std::move(other);
      std::tie(right_, other) = socketPair();
    }
    Handshake dialer = Handshake::dialing(std::move(one), secret_, identity_, {});
    Handshake acceptor = Handshake::accepting(std::move(other), secret_, identity_);
    for (int i = 0; i < 20; ++i) {
      dialer.advance();
      acceptor.advance();
      if (relayed) seen_ += carry(left_, right_) + carry(right_, left_);
    }
    ASSERT_EQ(dialer.advance(), Handshake::State::done) << dialer.why();
    ASSERT_EQ(acceptor.advance(), Handshake::State::done) << acceptor.why();
    dialer_ = dialer.takeSocket();
    acceptor_ = acceptor.takeSocket();
  }
  /// Sends as a path does: what did not go is offered again, with what follows.
  static size_t sendSome(Stream& to, const std::string& bytes, size_t at, size_t split) {
    iovec parts[3] = {};
    size_t begin = at, count = 0;
    for (const size_t length : {split, split * 7, bytes.size()}) {
      const size_t here = std::min(length, bytes.size() - begin);
      parts[count++] = {const_cast<char*>(bytes.data()) + begin, here};
      begin += here;
    }
    msghdr message{};
    message.msg_iov = parts;
    message.msg_iovlen = count;
    const ssize_t sent = to.send(message);
    EXPECT_TRUE(sent >= 0 || errno == EAGAIN) << errno;
    return sent < 0 ? 0 : static_cast<size_t>(sent);
  }
  static std::string receiveSome(Stream& from, size_t most) {
    std::string bytes(most, '\0');
    iovec parts[2] = {{bytes.data(), most / 3}, {bytes.data() + most / 3, most - most / 3}};
    msghdr message{};
    message.msg_iov = parts;
    message.msg_iovlen = 2;
    const ssize_t got = from.receive(message);
    EXPECT_TRUE(got >= 0 || errno == EAGAIN) << errno;
    bytes.resize(got < 0 ? 0 : static_cast<size_t>(got));
    return bytes;
  }

  Secret secret_ = Secret::random(System::real());
  const Identity identity_ = randomIdentity(System::real());
  Stream dialer_, acceptor_;
  Fd left_, right_;   // the relay's
  std::string seen_;  // by the relay
};

TEST_F(EncryptedStream, CarriesBothWaysInPieces) {
  for (const size_t perCall : {size_t{1}, size_t{7}, size_t{5000}, SIZE_MAX}) {
    for (const bool ahead : {false, true}) {
      establish();
      for (Stream* each : {&dialer_, &acceptor_}) {
        each->limitCalls(perCall);
        if (ahead) each->readAhead();
      }
      const std::string sent = noise(perCall < 100 ? 40'000 : 700'000);
      std::mt19937 random(3);
      for (auto [from, to] : {std::pair(&dialer_, &acceptor_), {&acceptor_, &dialer_}}) {
        std::string got;
        size_t at = 0;
        for (int idle = 0; got.size() < sent.size() && idle < 100'000; ++idle) {
          at += at < sent.size() ? sendSome(*from, sent, at, random() % 3000) : 0;
          // As whoever reads must: as long as there may be more that no descriptor tells of.
          do { got += receiveSome(*to, 1 + random() % 50'000); } while (to->pending() && random() % 2 == 0);
        }
        ASSERT_EQ(at, sent.size());
        ASSERT_EQ(got, sent);
        EXPECT_FALSE(to->pending());
      }
    }
  }
}

// The socket is full in the middle of a record: what had been prepared is not lost, nor sent twice.
TEST_F(EncryptedStream, GoesOnWhereTheSocketWasFull) {
  establish();
  const std::string sent = noise(3 << 20);
  size_t at = 0;
  for (size_t more = 1; more > 0; at += more) more = sendSome(dialer_, sent, at, 40);
  EXPECT_GT(at, 0U);
  EXPECT_LT(at, sent.size());
  for (int i = 0; i < 5; ++i) EXPECT_EQ(sendSome(dialer_, sent, at, 40), 0U);
  std::string got;
  for (int idle = 0; got.size() < sent.size() && idle < 1000; ++idle) {
    got += receiveSome(acceptor_, 100'000);
    at += at < sent.size() ? sendSome(dialer_, sent, at, 40) : 0;
  }
  EXPECT_EQ(at, sent.size());
  EXPECT_EQ(got, sent);
}

// One byte more than the socket takes: it is told as sent only when it has gone.
TEST_F(EncryptedStream, NothingStaysBehindUnnoticed) {
  establish();
  const std::string sent(1, 'x');
  size_t count = 0;
  while (sendSome(dialer_, sent, 0, 1) == 1) ++count;
  std::string got;
  while (true) {
    const std::string more = receiveSome(acceptor_, 1000);
    if (more.empty()) break;
    got += more;
  }
  EXPECT_EQ(got.size(), count) << "but for the last record, which is half there";
  EXPECT_EQ(sendSome(dialer_, sent, 0, 1), 1U);
  EXPECT_EQ(receiveSome(acceptor_, 1000).size(), 1U);
}

// An event would never come for what OpenSSL has taken out of the socket.
TEST_F(EncryptedStream, SaysThatMoreIsThere) {
  establish();
  acceptor_.readAhead();
  for (int i = 0; i < 3; ++i) ASSERT_EQ(dialer_.send("0123456789", 10), 10);
  char bytes[100];
  ASSERT_EQ(acceptor_.receive(bytes, 15), 15);
  pollfd readable{acceptor_.get(), POLLIN, 0};
  EXPECT_EQ(poll(&readable, 1, 0), 0);
  EXPECT_TRUE(acceptor_.pending());
  ASSERT_EQ(acceptor_.receive(bytes, sizeof bytes), 15);
  EXPECT_FALSE(acceptor_.pending());
}

// Until readAhead(), what follows stays for whoever takes the socket over.
TEST_F(EncryptedStream, LeavesInTheSocketWhatWasNotAskedFor) {
  establish();
  for (int i = 0; i < 3; ++i) ASSERT_EQ(dialer_.send("0123456789", 10), 10);
  char bytes[10];
  ASSERT_EQ(acceptor_.receive(bytes, 10), 10);
  EXPECT_FALSE(acceptor_.pending());
  pollfd readable{acceptor_.get(), POLLIN, 0};
  EXPECT_EQ(poll(&readable, 1, 0), 1);
}

TEST_F(EncryptedStream, ShowsNothingOfTheDataOnTheWay) {
  establish(true);
  ASSERT_EQ(dialer_.send("a sentence that nobody else reads", 33), 33);
  seen_ += carry(left_, right_);
  EXPECT_EQ(receiveSome(acceptor_, 100), "a sentence that nobody else reads");
  EXPECT_EQ(seen_.find("nobody"), std::string::npos);
  EXPECT_GT(seen_.size(), 33U + 200U) << "the relay has seen all";
}

TEST_F(EncryptedStream, AChangedByteIsAnError) {
  for (const bool ahead : {false, true}) {
    establish(true);
    if (ahead) acceptor_.readAhead();
    ASSERT_EQ(dialer_.send("first", 5), 5);
    carry(left_, right_);
    ASSERT_EQ(dialer_.send("second", 6), 6);
    char bytes[100];
    const ssize_t count = recv(left_.get(), bytes, sizeof bytes, 0);
    ASSERT_GT(count, 6);
    bytes[count - 1] = static_cast<char>(bytes[count - 1] ^ 1);
    ASSERT_EQ(::send(right_.get(), bytes, static_cast<size_t>(count), 0), count);
    for (int i = 0; i < 3; ++i) {
      ssize_t got = acceptor_.receive(bytes, sizeof bytes);
      if (i == 0 && got == 5) got = acceptor_.receive(bytes, sizeof bytes);  // what came before counts
      EXPECT_EQ(got, -1);
      EXPECT_EQ(errno, EBADMSG);
    }
    EXPECT_THAT(describeError(EBADMSG), HasSubstr("not what the peer has sent"));
  }
}

TEST_F(EncryptedStream, ARecordPlayedAgainIsAnError) {
  establish(true);
  ASSERT_EQ(dialer_.send("pay 5", 5), 5);
  const std::string record = carry(left_, right_);
  ASSERT_EQ(::send(right_.get(), record.data(), record.size(), 0), static_cast<ssize_t>(record.size()));
  char bytes[5];
  EXPECT_EQ(acceptor_.receive(bytes, 5), 5);
  EXPECT_EQ(acceptor_.receive(bytes, 5), -1);
  EXPECT_EQ(errno, EBADMSG);
}

// As on a plain stream: what ends is said by those who use it.
TEST_F(EncryptedStream, TheEndIsTheEndAlsoInsideARecord) {
  for (const size_t cut : {size_t{0}, size_t{1}, size_t{20}}) {
    establish(true);
    ASSERT_EQ(dialer_.send("whole", 5), 5);
    carry(left_, right_);
    ASSERT_EQ(dialer_.send("half of it", 10), 10);
    carry(left_, right_, cut);
    right_.reset();
    char bytes[100];
    ASSERT_EQ(acceptor_.receive(bytes, sizeof bytes), 5);
    EXPECT_EQ(acceptor_.receive(bytes, sizeof bytes), 0);
    EXPECT_EQ(acceptor_.receive(bytes, sizeof bytes), 0);
  }
}

/// Both sides of TLS alone, until one of them fails or both are through. Returns the first failure.
Status agree(const Secret& dialerKnows, const char* dialerSays, const Secret& acceptorKnows,
             const char* acceptorSays) {
  auto [one, other] = socketPair();
  auto dialer = Tls::over(one, Tls::Side::dialer, dialerKnows, dialerSays).take();
  auto acceptor = Tls::over(other, Tls::Side::acceptor, acceptorKnows, acceptorSays).take();
  for (int i = 0; i < 10; ++i) {
    const auto theirs = dialer->handshake();
    const auto mine = acceptor->handshake();
    if (!mine.ok() || !theirs.ok()) return mine.ok() ? theirs.status() : mine.status();
    if (*mine == 0 && *theirs == 0) return {};
  }
  return Status::error(Code::timeout, "they wait for each other");
}

TEST_F(EncryptedStream, TheKeyIsOfTheSecretAndOfTheConnection) {
  const Secret other = Secret::random(System::real());
  EXPECT_TRUE(agree(secret_, "context", secret_, "context").ok());
  EXPECT_EQ(agree(secret_, "context", other, "context").code(), Code::remote);
  EXPECT_EQ(agree(secret_, "context", secret_, "another").code(), Code::remote);
}

// Who answers with a certificate, as web servers do, has not shown that it knows the secret.
TEST_F(EncryptedStream, ACertificateProvesNothing) {
  if (std::system("command -v openssl >/dev/null") != 0) GTEST_SKIP() << "no openssl program";
  std::string at = ::testing::TempDir() + "eccl-test-XXXXXX";
  ASSERT_NE(mkdtemp(at.data()), nullptr);
  const std::string make =
      "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=x -keyout " + at +
      "/key -out " + at + "/certificate 2>/dev/null";
  ASSERT_EQ(std::system(make.c_str()), 0);
  // A port that is free for the moment. Not -unix: as another user s_server then cannot say where it listens.
  SocketAddress address = SocketAddress::resolve("127.0.0.1:1").take()[0].withPort(0);
  {
    const Fd taken(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    ASSERT_EQ(bind(taken.get(), address.raw(), address.rawSize()), 0);
    address = localAddress(taken);
  }
  const pid_t server = fork();
  if (server == 0) {
    execlp("openssl", "openssl", "s_server", "-quiet", "-tls1_3", "-accept", address.text().c_str(), "-key",
           (at + "/key").c_str(), "-cert", (at + "/certificate").c_str(), nullptr);
    _exit(1);
  }
  Fd socket;
  for (int tries = 0; tries < 20'000; ++tries) {
    socket = Fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (connect(socket.get(), address.raw(), address.rawSize()) == 0 && !connectedToItself(socket)) break;
    usleep(1000);
  }
  auto dialer = Tls::over(socket, Tls::Side::dialer, secret_, "context").take();
  Result<uint32_t> state = dialer->handshake();
  while (state.ok() && *state != 0) {
    pollfd ready{socket.get(), POLLIN, 0};
    if (poll(&ready, 1, 20'000) != 1) break;
    state = dialer->handshake();
  }
  kill(server, SIGKILL);
  waitpid(server, nullptr, 0);
  std::filesystem::remove_all(at);
  EXPECT_FALSE(state.ok());
  EXPECT_THAT(state.status().message(), HasSubstr("certificate verify failed"));
}

}  // namespace
}  // namespace eccl::transport
