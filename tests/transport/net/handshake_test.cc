#include "transport/net/handshake.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

namespace eccl::transport {
namespace {

using State = Handshake::State;

struct Pair {
  Fd dialer, acceptor;
  Pair() {
    int fds[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
    dialer = Fd(fds[0]);
    acceptor = Fd(fds[1]);
  }
};

Hello sampleHello() {
  Hello hello;
  hello.purpose = Purpose::control;
  hello.communicator = 0x1122334455667788;
  hello.rank = 17;
  for (size_t i = 0; i < sizeof hello.payload; ++i) hello.payload[i] = static_cast<uint8_t>(i);
  return hello;
}

/// Runs both sides until neither moves.
void run(Handshake& dialer, Handshake& acceptor) {
  for (int i = 0; i < 10; ++i) {
    dialer.advance();
    acceptor.advance();
  }
}

struct Fixture : testing::Test {
  Pair pair;
  Secret secret = Secret::random(System::real());
  Identity identity = randomIdentity(System::real());
  Handshake dialing() { return Handshake::dialing(std::move(pair.dialer), secret, identity, sampleHello()); }
  Handshake accepting() { return Handshake::accepting(std::move(pair.acceptor), secret, identity); }
};

using HandshakeTest = Fixture;

TEST_F(HandshakeTest, DeliversTheHelloAndTouchesNothingBehindIt) {
  Handshake dialer = dialing(), acceptor = accepting();
  run(dialer, acceptor);
  ASSERT_EQ(dialer.advance(), State::done) << dialer.why();
  const Stream mine = dialer.takeSocket();
  ASSERT_EQ(write(mine.get(), "data", 4), 4);
  ASSERT_EQ(acceptor.advance(), State::done) << acceptor.why();
  const Hello sent = sampleHello();
  EXPECT_EQ(std::memcmp(&acceptor.hello(), &sent, sizeof sent), 0);
  const Stream theirs = acceptor.takeSocket();
  char text[8] = "";
  EXPECT_EQ(read(theirs.get(), text, sizeof text), 4);
  EXPECT_STREQ(text, "data");
}

TEST_F(HandshakeTest, DataRightBehindTheLastMessageStaysInTheSocket) {
  Handshake dialer = dialing(), acceptor = accepting();
  dialer.advance();
  acceptor.advance();
  dialer.advance();
  ASSERT_EQ(acceptor.advance(), State::done);
  const Stream theirs = acceptor.takeSocket();
  ASSERT_EQ(write(theirs.get(), "early", 5), 5);
  ASSERT_EQ(dialer.advance(), State::done);
  char text[8] = "";
  EXPECT_EQ(read(dialer.takeSocket().get(), text, sizeof text), 5);
}

// Whoever is dropped to make room for others must not believe that it has been let in.
TEST_F(HandshakeTest, ADialerIsNotThroughBeforeTheAcceptorSaysSo) {
  for (int messages = 0; messages < 2; ++messages) {
    Pair pair;
    Handshake acceptor = Handshake::accepting(std::move(pair.acceptor), secret, identity);
    Handshake dialer = Handshake::dialing(std::move(pair.dialer), secret, identity, sampleHello());
    for (int i = 0; i < messages; ++i) {
      ASSERT_EQ(dialer.advance(), State::working);
      ASSERT_EQ(acceptor.advance(), State::working);
    }
    ASSERT_EQ(dialer.advance(), State::working);
    EXPECT_EQ(acceptor.greeted(), messages > 0);
    acceptor = Handshake();  // closes
    EXPECT_EQ(dialer.advance(), State::failed);
    EXPECT_TRUE(dialer.cutOff()) << dialer.why();
  }
}

TEST_F(HandshakeTest, WrongSecretFailsOnBothSides) {
  Handshake acceptor = accepting();
  secret = Secret::random(System::real());
  Handshake dialer = dialing();
  dialer.advance();
  acceptor.advance();
  EXPECT_EQ(dialer.advance(), State::failed);
  EXPECT_NE(dialer.why().find("secret"), std::string::npos);
  dialer = Handshake();  // closes
  EXPECT_EQ(acceptor.advance(), State::failed);
  EXPECT_NE(acceptor.why().find("secret"), std::string::npos);
}

TEST_F(HandshakeTest, AnotherAcceptorOfTheSameJobIsNotTheOneLookedFor) {
  Handshake acceptor = accepting();
  identity = randomIdentity(System::real());
  Handshake dialer = dialing();
  run(dialer, acceptor);
  EXPECT_EQ(dialer.advance(), State::failed);
  EXPECT_NE(acceptor.advance(), State::done);
}

TEST_F(HandshakeTest, ADialerThatKnowsNothingIsRefused) {
  Handshake acceptor = accepting();
  Greeting greeting;
  ASSERT_EQ(write(pair.dialer.get(), &greeting, sizeof greeting), static_cast<ssize_t>(sizeof greeting));
  EXPECT_EQ(acceptor.advance(), State::working);
  const Hello hello = sampleHello();
  const std::string guess = std::string(bytesOf(hello)) + std::string(16, '\0');
  ASSERT_EQ(write(pair.dialer.get(), guess.data(), guess.size()), static_cast<ssize_t>(guess.size()));
  EXPECT_EQ(acceptor.advance(), State::failed);
  EXPECT_NE(acceptor.why().find("does not know this job's secret"), std::string::npos);
}

TEST_F(HandshakeTest, AReflectedChallengeProvesNothing) {
  // A man in the middle without the secret plays the acceptor and returns the dialer's own bytes.
  Handshake dialer = dialing();
  dialer.advance();
  char greeting[64];
  ASSERT_EQ(read(pair.acceptor.get(), greeting, sizeof greeting), 24);
  std::memset(greeting + 24, 0, 16);
  ASSERT_EQ(write(pair.acceptor.get(), greeting, 40), 40);
  EXPECT_EQ(dialer.advance(), State::failed);
}

TEST_F(HandshakeTest, ARecordedHandshakeCannotBePlayedAgain) {
  // A relay between two honest sides writes down what the dialer says.
  Pair relay, victim;
  Handshake again = Handshake::dialing(std::move(relay.dialer), secret, identity, sampleHello());
  Pair real;
  Handshake acceptor = Handshake::accepting(std::move(real.acceptor), secret, identity);
  std::string recorded;
  char bytes[256];
  for (int i = 0; i < 4; ++i) {
    again.advance();
    ssize_t count = recv(relay.acceptor.get(), bytes, sizeof bytes, MSG_DONTWAIT);
    if (count > 0) {
      recorded.append(bytes, static_cast<size_t>(count));
      ASSERT_EQ(write(real.dialer.get(), bytes, static_cast<size_t>(count)), count);
    }
    acceptor.advance();
    count = recv(real.dialer.get(), bytes, sizeof bytes, MSG_DONTWAIT);
    if (count > 0) { ASSERT_EQ(write(relay.acceptor.get(), bytes, static_cast<size_t>(count)), count); }
  }
  ASSERT_EQ(acceptor.advance(), State::done) << acceptor.why();
  ASSERT_EQ(recorded.size(), 24u + 56u + 16u);
  Handshake replayed = Handshake::accepting(std::move(victim.acceptor), secret, identity);
  ASSERT_EQ(write(victim.dialer.get(), recorded.data(), recorded.size()),
            static_cast<ssize_t>(recorded.size()));
  EXPECT_EQ(replayed.advance(), State::failed);
}

TEST_F(HandshakeTest, TheAuthenticatedHelloCannotBeAltered) {
  for (size_t flip = 0; flip < sizeof(Hello) + sizeof(Tag); ++flip) {
    Pair left, right;
    Handshake dialer = Handshake::dialing(std::move(left.dialer), secret, identity, sampleHello());
    Handshake acceptor = Handshake::accepting(std::move(right.acceptor), secret, identity);
    char bytes[256];
    dialer.advance();
    ssize_t count = read(left.acceptor.get(), bytes, sizeof bytes);
    ASSERT_EQ(write(right.dialer.get(), bytes, static_cast<size_t>(count)), count);
    acceptor.advance();
    count = read(right.dialer.get(), bytes, sizeof bytes);
    ASSERT_EQ(write(left.acceptor.get(), bytes, static_cast<size_t>(count)), count);
    ASSERT_EQ(dialer.advance(), State::working);
    count = read(left.acceptor.get(), bytes, sizeof bytes);
    ASSERT_EQ(count, static_cast<ssize_t>(sizeof(Hello) + sizeof(Tag)));
    bytes[flip] = static_cast<char>(bytes[flip] ^ 1);
    ASSERT_EQ(write(right.dialer.get(), bytes, static_cast<size_t>(count)), count);
    EXPECT_EQ(acceptor.advance(), State::failed) << "byte " << flip;
  }
}

/// The dialing side written a second time, from the protocol's description in handshake.h.
struct HandMadeDialer {
  const Secret secret;
  const Identity identity;
  Greeting greeting;
  std::array<uint8_t, 16> acceptorNonce{};

  Tag proof(char role, std::string_view covered) const {
    ByteWriter message;
    message.raw("ECCL handshake 1").put(role).put(identity).put(greeting).put(acceptorNonce).raw(covered);
    return secret.mac(message.take());
  }
  /// Reads the challenge and answers with `hello`, authenticated. True when the acceptor's proof is right.
  bool answer(int fd, const Hello& hello) {
    char challenge[40];
    if (read(fd, challenge, sizeof challenge) != 40) return false;
    std::memcpy(acceptorNonce.data(), challenge + 8, 16);
    const Tag theirs = proof('A', {}), mine = proof('D', bytesOf(hello));
    if (write(fd, &hello, sizeof hello) != sizeof hello || write(fd, mine.data(), 16) != 16) return false;
    return std::memcmp(theirs.data(), challenge + 24, 16) == 0;
  }
};

TEST_F(HandshakeTest, SpeaksTheDocumentedProtocol) {
  Handshake acceptor = accepting();
  HandMadeDialer dialer{secret, identity};
  dialer.greeting.purpose = Purpose::control;
  ASSERT_EQ(write(pair.dialer.get(), &dialer.greeting, sizeof(Greeting)), 24);
  acceptor.advance();
  EXPECT_TRUE(dialer.answer(pair.dialer.get(), sampleHello()));
  EXPECT_EQ(acceptor.advance(), State::done) << acceptor.why();
  EXPECT_EQ(acceptor.hello().rank, sampleHello().rank);
}

TEST_F(HandshakeTest, APurposeOtherThanTheGreetingsIsRefused) {
  Handshake acceptor = accepting();
  HandMadeDialer dialer{secret, identity};
  dialer.greeting.purpose = Purpose::data;
  ASSERT_EQ(write(pair.dialer.get(), &dialer.greeting, sizeof(Greeting)), 24);
  acceptor.advance();
  EXPECT_TRUE(dialer.answer(pair.dialer.get(), sampleHello()));  // whose purpose is control
  EXPECT_EQ(acceptor.advance(), State::failed);
  EXPECT_NE(acceptor.why().find("purpose"), std::string::npos) << acceptor.why();
}

/// Through a relay that carries a byte at a time.
void expectWorksByteByByte(const Secret& secret, const Identity& identity) {
  Pair left, right;
  Handshake dialer = Handshake::dialing(std::move(left.dialer), secret, identity, sampleHello());
  Handshake acceptor = Handshake::accepting(std::move(right.acceptor), secret, identity);
  for (int i = 0; i < 3000 && acceptor.advance() == State::working; ++i) {
    dialer.advance();
    char byte;
    for (auto [from, to] :
         {std::pair(left.acceptor.get(), right.dialer.get()), {right.dialer.get(), left.acceptor.get()}}) {
      if (recv(from, &byte, 1, MSG_DONTWAIT) == 1) { ASSERT_EQ(write(to, &byte, 1), 1); }
    }
  }
  EXPECT_EQ(acceptor.advance(), State::done) << acceptor.why();
}

TEST_F(HandshakeTest, WorksByteByByte) {
  expectWorksByteByByte(secret, identity);
  if (const auto tls = tlsLibrary(); !tls.ok()) GTEST_SKIP() << "encrypted: " << tls.status().message();
  secret.encrypts = true;
  expectWorksByteByByte(secret, identity);
}

/// What takes a side's encryption from it, as a settings file of one host would.
TEST_F(HandshakeTest, WhoEncryptsAloneIsNamedOnBothSides) {
  for (bool dialerEncrypts : {false, true}) {
    Pair pair;
    secret.encrypts = dialerEncrypts;
    Handshake dialer = Handshake::dialing(std::move(pair.dialer), secret, identity, sampleHello());
    secret.encrypts = !dialerEncrypts;
    Handshake acceptor = Handshake::accepting(std::move(pair.acceptor), secret, identity);
    run(dialer, acceptor);
    for (Handshake* side : {&dialer, &acceptor}) {
      EXPECT_EQ(side->advance(), State::failed);
      EXPECT_TRUE(side->disagrees());
      EXPECT_NE(side->why().find("ECCL_ENCRYPT"), std::string::npos) << side->why();
      EXPECT_EQ(side->hello().rank, 17);
    }
    EXPECT_EQ(dialer.why().rfind("encrypts", 0) == 0, !dialerEncrypts) << dialer.why();
    EXPECT_EQ(acceptor.why().rfind("encrypts", 0) == 0, dialerEncrypts) << acceptor.why();
  }
}

// Somebody on the way makes each side believe that the other does not encrypt.
TEST_F(HandshakeTest, NobodyOnTheWayCanSwitchEncryptionOff) {
  secret.encrypts = true;
  for (const size_t flag : {size_t{7}, size_t{6}}) {  // of the greeting, of the challenge
    Pair left, right;
    Handshake dialer = Handshake::dialing(std::move(left.dialer), secret, identity, sampleHello());
    Handshake acceptor = Handshake::accepting(std::move(right.acceptor), secret, identity);
    char bytes[256];
    const auto pass = [&](const Fd& from, const Fd& to, bool change) {
      const ssize_t count = read(from.get(), bytes, sizeof bytes);
      ASSERT_GT(count, 8);
      if (change) {
        ASSERT_EQ(bytes[flag], 1);
        bytes[flag] = 0;
      }
      ASSERT_EQ(write(to.get(), bytes, static_cast<size_t>(count)), count);
    };
    dialer.advance();
    pass(left.acceptor, right.dialer, flag == 7);
    acceptor.advance();
    pass(right.dialer, left.acceptor, flag == 6);
    EXPECT_EQ(dialer.advance(), State::failed);
    EXPECT_FALSE(dialer.disagrees());
    EXPECT_NE(dialer.why().find("secret"), std::string::npos) << dialer.why();
  }
}

TEST_F(HandshakeTest, OtherProtocolsAndVersionsAreNamed) {
  struct Case {
    std::string bytes;
    const char* why;
  };
  Greeting future, purpose;
  future.version = 9;
  purpose.purpose = static_cast<Purpose>(77);
  for (const Case& c : {Case{"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "does not speak"},
                        Case{std::string(bytesOf(future)), "version 9"},
                        Case{std::string(bytesOf(purpose)), "malformed greeting"}}) {
    Pair pair;
    Handshake acceptor = Handshake::accepting(std::move(pair.acceptor), secret, identity);
    ASSERT_GT(write(pair.dialer.get(), c.bytes.data(), c.bytes.size()), 0);
    EXPECT_EQ(acceptor.advance(), State::failed);
    EXPECT_NE(acceptor.why().find(c.why), std::string::npos) << acceptor.why();
  }
}

TEST(HelloParser, ChecksEveryField) {
  const Hello good = sampleHello();
  EXPECT_TRUE(decodeHello(bytesOf(good)).ok());
  EXPECT_FALSE(decodeHello(bytesOf(good).substr(1)).ok());
  Hello bad = good;
  bad.magic ^= 1;
  EXPECT_FALSE(decodeHello(bytesOf(bad)).ok());
  bad = good;
  bad.version = 0;
  EXPECT_FALSE(decodeHello(bytesOf(bad)).ok());
  bad = good;
  bad.purpose = static_cast<Purpose>(0);
  EXPECT_FALSE(decodeHello(bytesOf(bad)).ok());
  bad = good;
  bad.rank = -1;
  EXPECT_FALSE(decodeHello(bytesOf(bad)).ok());
  bad = good;
  bad.zero2 = 1;
  EXPECT_FALSE(decodeHello(bytesOf(bad)).ok());
}

}  // namespace
}  // namespace eccl::transport
