// What a peer says by UCX may be anything: it is refused with a sentence, or it is for nobody.
#include <gmock/gmock.h>

#include <cstring>

#include "ucx/workers.h"

namespace eccl::transport {
namespace {

using ::testing::HasSubstr;

class LyingSender : public UcxTwo {
 protected:
  void SetUp() override {
    UcxTwo::SetUp();
    meet(end);
  }
  /// It has to break with this sentence.
  void breaksBy(const MessageFrame& said, size_t bytes, const std::string& why, uint32_t flags = 0) {
    send(said, data.data(), bytes, flags);
    EXPECT_TRUE(until([&] { return !broken.empty(); })) << why;
    EXPECT_THAT(broken, HasSubstr(why));
    EXPECT_TRUE(end.poisoned());
  }
  ReceiveEnd end;
  std::vector<char> data = std::vector<char>(2 << 20, 'x');
};

TEST_F(LyingSender, TruthIsTaken) {
  send(frame(0, 100), data.data(), 100);
  send(frame(1, 100'000), data.data(), 100'000);
  send(frame(2, 0));
  Received received;
  for (uint32_t length : {100u, 100'000u, 0u}) {
    ASSERT_TRUE(until([&] { return end.peek(received); }));
    ASSERT_EQ(received.length, length);
    EXPECT_EQ(std::memcmp(received.data, data.data(), length), 0);
    end.release();
  }
  EXPECT_EQ(broken, "");
}

TEST_F(LyingSender, AnUnknownEndAndAStrangeHeaderAreForNobody) {
  UcxHeader header{words.end + 1, frame(0, 10)};
  send(&header, sizeof header, data.data(), 10);
  header.end = words.end;
  send(&header, sizeof header - 1, data.data(), 10);
  send(&header, 0, data.data(), 10);
  header.end = words.end + 1;
  send(&header, sizeof header, data.data(), 1 << 20, UCP_AM_SEND_FLAG_RNDV);
  rest();
  EXPECT_EQ(broken, "");
  send(frame(0, 10), data.data(), 10);
  Received received;
  EXPECT_TRUE(until([&] { return end.peek(received); }));
}

TEST_F(LyingSender, MoreThanTheCredits) {
  breaksBy(frame(32, 10), 10, "it exceeds the credits given");
}
TEST_F(LyingSender, MoreLongOnesThanMayBe) {
  for (uint64_t number = 0; number < 8; ++number) send(frame(number, 2000), data.data(), 2000);
  send(frame(8, 1000), data.data(), 1000);  // these have their own places
  ASSERT_TRUE(until([&] { return loadAcquire(&end.slot(8)->sequence) == 9; })) << broken;
  breaksBy(frame(9, 2000), 2000, "more long ones are on their way than may be");
}
TEST_F(LyingSender, LongOnesAgainWhereSomeWereReleased) {
  for (uint64_t number = 0; number < 40; ++number) {
    send(frame(number, 2000), data.data(), 2000);
    Received received;
    ASSERT_TRUE(until([&] { return end.peek(received); })) << number << ": " << broken;
    ASSERT_EQ(std::memcmp(received.data, data.data(), 2000), 0);
    end.release();
  }
}
TEST_F(LyingSender, BehindWhatIsExpected) {
  breaksBy(frame(~uint64_t{0}, 10), 10, "it exceeds the credits given");
}
TEST_F(LyingSender, LongerThanASlot) {
  breaksBy(frame(0, (1 << 20) + 1), (1 << 20) + 1, "it is longer than a slot");
}
TEST_F(LyingSender, LessDataThanItSays) {
  breaksBy(frame(0, 100), 99, "its data has another length");
}
TEST_F(LyingSender, MoreDataThanItSays) {
  breaksBy(frame(0, 100), 101, "its data has another length");
}
TEST_F(LyingSender, MoreDataThanItSaysByRendezvous) {
  breaksBy(frame(0, 100), 1 << 20, "its data has another length", UCP_AM_SEND_FLAG_RNDV);
}
TEST_F(LyingSender, APart) {
  MessageFrame part = frame(0, 100);
  part.bytes = 50;
  breaksBy(part, 50, "its data has another length");
}
TEST_F(LyingSender, AnotherKind) {
  MessageFrame credit = frame(0, 0);
  credit.kind = FrameKind::credit;
  breaksBy(credit, 0, "its kind is unknown");
}
TEST_F(LyingSender, UnknownFlags) {
  MessageFrame flagged = frame(0, 10);
  flagged.flags = kSlotGet;
  breaksBy(flagged, 10, "its flags are unknown");
}
TEST_F(LyingSender, TheSameTwice) {
  send(frame(0, 10), data.data(), 10);
  breaksBy(frame(0, 10), 10, "it has come already");
}
TEST_F(LyingSender, TheSameTwiceWhileItComes) {
  liarGoesOn = true;
  send(frame(0, 1 << 20), data.data(), 1 << 20, UCP_AM_SEND_FLAG_RNDV);
  breaksBy(frame(0, 1 << 20), 1 << 20, "it has come already", UCP_AM_SEND_FLAG_RNDV);
}
TEST_F(LyingSender, AsksForWhatItDidNotSend) {
  MessageFrame ask{};
  ask.sequence = 100;
  ask.kind = FrameKind::ask;
  breaksBy(ask, 0, "it asks for what was not sent");
}
TEST_F(LyingSender, AWordThatCannotBe) {
  say({UcxWord::Kind::credit, 0, 1});
  EXPECT_TRUE(until([&] { return !broken.empty(); }));
  EXPECT_THAT(broken, HasSubstr("it said what cannot be"));
}
TEST_F(LyingSender, MeetsTwice) {
  say({UcxWord::Kind::met});
  EXPECT_TRUE(until([&] { return !broken.empty(); }));
  EXPECT_THAT(broken, HasSubstr("it said what cannot be"));
}

// The first lie counts, and what comes then is for nobody.
TEST_F(LyingSender, IsNotHeardAfterALie) {
  breaksBy(frame(32, 10), 10, "it exceeds the credits given");
  const std::string before = broken;
  send(frame(0, 10), data.data(), 10);
  rest();
  Received received;
  EXPECT_FALSE(end.peek(received));
  EXPECT_EQ(broken, before);
}

class LyingReceiver : public UcxTwo {
 protected:
  void SetUp() override {
    UcxTwo::SetUp();
    meet(end);
    std::memset(end.place(100), 1, 100);
    end.publish(100, 0, 1);
    path->kick();
    rest();
  }
  void breaksBy(const MessageFrame& said, size_t bytes = 0) {
    send(said, bytes > 0 ? "data" : nullptr, bytes);
    EXPECT_TRUE(until([&] { return !broken.empty(); }));
    EXPECT_THAT(broken, HasSubstr("it sent a credit that cannot be"));
    EXPECT_TRUE(end.poisoned());
    EXPECT_EQ(end.control->released, 0u);
  }
  static MessageFrame credit(uint64_t released, FrameKind kind = FrameKind::credit) {
    MessageFrame frame{};
    frame.released = released;
    frame.kind = kind;
    return frame;
  }
  SendEnd end;
};

TEST_F(LyingReceiver, TruthIsTaken) {
  send(credit(1));
  EXPECT_TRUE(until([&] { return path->drained(); }));
  send(credit(0));  // an earlier one
  rest();
  EXPECT_TRUE(path->drained());
  say({UcxWord::Kind::end, 0, 1});
  bool final = false;
  EXPECT_TRUE(until([&] { return end.untaken(&final) == 0 && final; }));
  EXPECT_EQ(broken, "");
}
TEST_F(LyingReceiver, ReleasesMoreThanWasSent) {
  breaksBy(credit(2));
}
TEST_F(LyingReceiver, GivesACreditWithData) {
  breaksBy(credit(1), 4);
}
TEST_F(LyingReceiver, SendsAMessage) {
  breaksBy(frame(0, 0));
}
TEST_F(LyingReceiver, EndsByTheWrongWay) {
  breaksBy(credit(1, FrameKind::end));
}
TEST_F(LyingReceiver, EndsWithMoreThanWasSent) {
  say({UcxWord::Kind::end, 0, 2});
  EXPECT_TRUE(until([&] { return !broken.empty(); }));
  EXPECT_THAT(broken, HasSubstr("it said what cannot be (3, 2 messages released)"));
}
TEST_F(LyingReceiver, SaysNonsense) {
  say({static_cast<UcxWord::Kind>(77)});
  EXPECT_TRUE(until([&] { return !broken.empty(); }));
  EXPECT_THAT(broken, HasSubstr("it said what cannot be"));
}

}  // namespace
}  // namespace eccl::transport
