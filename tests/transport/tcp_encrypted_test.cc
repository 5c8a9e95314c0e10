// The TCP ends over encrypted sockets: what OpenSSL has taken out of the socket, no event tells of.
#include "transport/wire.h"

namespace eccl::transport {
namespace {

class EncryptedTcp : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const auto tls = tlsLibrary(); !tls.ok()) GTEST_SKIP() << tls.status().message();
  }
  /// The peer says all of it, in records of so many bytes, before the end under test looks.
  template <class End>
  static void say(End& wire, std::string_view bytes, size_t record) {
    for (; !bytes.empty(); bytes.remove_prefix(std::min(record, bytes.size()))) {
      const size_t here = std::min(record, bytes.size());
      ASSERT_EQ(wire.peers[0].send(bytes.data(), here), static_cast<ssize_t>(here));
    }
    while (wire.reactor.poll(Duration::zero())) {}
  }
};

// More than one turn takes: the rest is then in OpenSSL's buffer, and the socket is empty.
TEST_F(EncryptedTcp, ReceivesWhatIsLeftOfALongTurn) {
  Receiving wire(SIZE_MAX, 0, System::real(), 1, 64, true);
  const MessageFrame ask = word(FrameKind::ask, 0);
  std::string bytes;
  for (int i = 0; i < 2100; ++i) bytes.append(bytesOf(ask));
  bytes.append(bytesOf(message(0, 8))).append("8 bytes.");
  say(wire, bytes, 1000);
  EXPECT_EQ(wire.breaks, 0) << wire.reason;
  Received received;
  EXPECT_TRUE(wire.end.peek(received));
}

// More credits than one call takes.
TEST_F(EncryptedTcp, TakesAllCreditsOfOneRecord) {
  Sending wire(SIZE_MAX, 0, System::real(), 1, 64, true);
  for (int i = 0; i < 3; ++i) {
    ASSERT_NE(wire.end.reserve(), nullptr);
    wire.end.publish(0, 0, 0);
  }
  wire.path->kick();
  std::string bytes;
  for (const uint64_t released : {0, 0, 1, 1, 2, 2, 2, 3}) bytes.append(bytesOf(creditOf(released)));
  say(wire, bytes, bytes.size());
  EXPECT_EQ(wire.breaks, 0) << wire.reason;
  EXPECT_TRUE(wire.path->drained());
}

TEST_F(EncryptedTcp, APeerWhoseDataWasChangedIsBrokenWith) {
  Receiving wire(SIZE_MAX, 0, System::real(), 1, 64, true);
  const std::string bytes(100, 'x');
  ASSERT_EQ(write(wire.peers[0].get(), bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  while (wire.reactor.poll(Duration::zero())) {}
  EXPECT_EQ(wire.breaks, 1);
  EXPECT_NE(wire.reason.find("not what the peer has sent"), std::string::npos) << wire.reason;
}

}  // namespace
}  // namespace eccl::transport
