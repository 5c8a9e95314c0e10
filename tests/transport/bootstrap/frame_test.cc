#include "transport/bootstrap/frame.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <cstring>
#include <random>

#include "transport/bootstrap/gather.h"
#include "transport/net/bytes.h"
#include "transport/net/endpoint.h"

namespace eccl::transport {
namespace {

using namespace std::chrono_literals;

Frame sample(size_t size = 10) {
  Frame frame;
  frame.header.type = FrameType::routed;
  frame.header.kind = 7;
  frame.header.origin = 1;
  frame.header.target = 2;
  frame.header.sequence = UINT64_MAX;
  frame.body.assign(size, 'b');
  return frame;
}

TEST(Frame, IsTakenWhenCompleteAndNotBefore) {
  const std::string bytes = *sample().encode() + *sample(0).encode();
  for (size_t length = 0; length < bytes.size(); ++length) {
    std::string_view view = std::string_view(bytes).substr(0, length);
    auto frame = Frame::take(view);
    ASSERT_TRUE(frame.ok());
    EXPECT_EQ(frame->has_value(), length >= sizeof(FrameHeader) + 10);
    if (*frame) {
      EXPECT_EQ((*frame)->body, "bbbbbbbbbb");
      EXPECT_EQ((*frame)->header.sequence, UINT64_MAX);
      EXPECT_EQ(view.size(), length - sizeof(FrameHeader) - 10);
    }
  }
}

TEST(Frame, RefusesWhatNoFrameCanBe) {
  auto broken = [](auto change) {
    Frame frame = sample(0);
    std::string bytes = *frame.encode();
    FrameHeader header;
    std::memcpy(&header, bytes.data(), sizeof header);
    change(header);
    std::string_view view(reinterpret_cast<const char*>(&header), sizeof header);
    return !Frame::take(view).ok();
  };
  EXPECT_FALSE(broken([](FrameHeader&) {}));
  EXPECT_FALSE(broken([](FrameHeader& h) { h.size = Frame::kMaxBody; }));  // merely incomplete
  EXPECT_TRUE(broken([](FrameHeader& h) { h.size = Frame::kMaxBody + 1; }));
  EXPECT_TRUE(broken([](FrameHeader& h) { h.size = UINT32_MAX; }));
  EXPECT_TRUE(broken([](FrameHeader& h) { h.type = static_cast<FrameType>(0); }));
  EXPECT_TRUE(broken([](FrameHeader& h) { h.type = static_cast<FrameType>(13); }));
  EXPECT_TRUE(broken([](FrameHeader& h) { h.zero = 1; }));
  EXPECT_TRUE(broken([](FrameHeader& h) { h.origin = -1; }));
  EXPECT_TRUE(broken([](FrameHeader& h) { h.target = INT32_MIN; }));
}

struct Sockets : testing::Test {
  FrameSocket a, b;
  void SetUp() override {
    int fds[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
    a = FrameSocket(Fd(fds[0]));
    b = FrameSocket(Fd(fds[1]));
  }
};
using FrameSocketTest = Sockets;

TEST_F(FrameSocketTest, CarriesManyFramesThroughASmallPipe) {
  size_t total = 0, got = 0;
  for (size_t size : {0, 1, 100000, 3, 5'000'000, 17}) {
    a.queue(sample(size));
    total += size;
  }
  int frames = 0;
  bool ended = false;
  for (int i = 0; i < 100000 && frames < 6; ++i) {
    ASSERT_TRUE(a.flush().ok());
    Status status = b.receive(
        [&](Frame&& frame) -> Result<bool> { return ++frames, got += frame.body.size(), true; }, &ended);
    ASSERT_TRUE(status.ok()) << status.message();
  }
  EXPECT_EQ(frames, 6);
  EXPECT_EQ(got, total);
  EXPECT_FALSE(a.hasQueued());
  EXPECT_FALSE(ended);
}

TEST_F(FrameSocketTest, DeliversWhatCameBeforeTheEnd) {
  a.queue(sample());
  ASSERT_TRUE(a.flush().ok());
  a.close();
  int frames = 0;
  bool ended = false;
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(b.receive([&](Frame&&) -> Result<bool> { return ++frames, true; }, &ended).ok());
  }
  EXPECT_EQ(frames, 1);
  EXPECT_TRUE(ended);
}

TEST_F(FrameSocketTest, ABrokenConnectionStillDeliversWhatHadArrived) {
  a.queue(sample());
  ASSERT_TRUE(a.flush().ok());
  a.close();
  b.queue(sample());
  EXPECT_TRUE(b.flush().ok()) << "fails, but what a said before it closed must still be read";
  EXPECT_FALSE(b.hasQueued());
  int frames = 0;
  bool ended = false;
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(b.receive([&](Frame&&) -> Result<bool> { return ++frames, true; }, &ended).ok());
  }
  EXPECT_EQ(frames, 1);
  EXPECT_TRUE(ended);
}

TEST_F(FrameSocketTest, APeerThatNeverReadsIsGivenUp) {
  const auto big = sample(60u << 20).encode();
  for (int i = 0; i < 4; ++i) a.queue(big);
  EXPECT_TRUE(a.flush().ok());
  a.queue(big);
  EXPECT_NE(a.flush().message().find("has stopped reading"), std::string::npos);
}

Frame part(int rank, uint64_t sequence, std::string body = "p") {
  Frame frame;
  frame.header.type = FrameType::part;
  frame.header.origin = rank;
  frame.header.sequence = sequence;
  frame.body = std::move(body);
  return frame;
}

struct GatherTest : testing::Test {
  GatherRoot root{3};
  std::vector<Frame> out;
  TimePoint now{1000s};
  void add(int rank, uint64_t sequence, Duration limit = 10s) {
    root.add(part(rank, sequence, std::to_string(rank)), limit, now, &out);
  }
};

TEST_F(GatherTest, CompletesOutOfOrderAndInterleaved) {
  for (auto [rank, sequence] : {std::pair(2, 1u), {0, 0u}, {1, 1u}, {2, 0u}}) add(rank, sequence);
  EXPECT_TRUE(out.empty());
  add(0, 1);
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(out[0].header.sequence, 1u);
  EXPECT_EQ(decodeParts(out[0].body, 3)->list(), (std::vector<std::string>{"0", "1", "2"}));
  add(1, 0);
  EXPECT_EQ(out.size(), 2u);
  EXPECT_EQ(root.nextDeadline(), TimePoint::max());
}

TEST_F(GatherTest, TheLeastPatientRankDecidesAndTheMissingAreNamed) {
  add(1, 5, 10s);
  now += 1s;
  add(0, 5, 2s);
  EXPECT_EQ(root.nextDeadline(), now + 2s);
  root.expire(now + 1s, &out);
  EXPECT_TRUE(out.empty());
  root.expire(now + 2s, &out);
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(out[0].header.type, FrameType::noParts);
  EXPECT_EQ(out[0].header.kind, static_cast<uint16_t>(Code::timeout));
  EXPECT_NE(out[0].body.find("rank 2 of 3 has not taken part"), std::string::npos) << out[0].body;
  EXPECT_NE(out[0].body.find("2 s"), std::string::npos) << out[0].body;
  add(2, 5);  // the latecomer is told the same
  ASSERT_EQ(out.size(), 2u);
  EXPECT_EQ(out[1].body, out[0].body);
}

TEST_F(GatherTest, AnAbsentRankFailsOnlyWhatLacksIt) {
  add(2, 0);
  add(0, 1);
  root.forget(2, "rank 2 has left", &out);
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(out[0].header.sequence, 1u);
  add(0, 0);
  add(1, 0);
  ASSERT_EQ(out.size(), 2u);
  EXPECT_EQ(out[1].header.type, FrameType::parts) << "rank 2 had sent its part";
  add(0, 2);
  EXPECT_EQ(out.back().body, "rank 2 has left");
}

TEST_F(GatherTest, SizeAndNumberAreBounded) {
  GatherRoot big(100);
  for (int rank = 0; rank < 100 && out.empty(); ++rank)
    big.add(part(rank, 0, std::string(1u << 20, 'x')), 10s, now, &out);
  ASSERT_EQ(out.size(), 1u);
  EXPECT_NE(out[0].body.find("exceed 64 MiB"), std::string::npos) << out[0].body;
  out.clear();
  for (uint64_t sequence = 0; sequence < 2000; ++sequence) add(0, sequence);
  EXPECT_GE(out.size(), 900u);
  EXPECT_EQ(out[0].header.type, FrameType::noParts);
}

TEST(Parts, DecodeChecksEverything) {
  const std::string body = encodeParts({"a", "", "ccc"});
  EXPECT_TRUE(decodeParts(body, 3).ok());
  EXPECT_FALSE(decodeParts(body, 2).ok());
  EXPECT_FALSE(decodeParts(body, 4).ok());
  EXPECT_FALSE(decodeParts(body, 1'000'000'000).ok());
  for (size_t length = 0; length < body.size(); ++length)
    EXPECT_FALSE(decodeParts(body.substr(0, length), 3).ok());
  EXPECT_FALSE(decodeParts(std::string("\xff\xff\xff\xff", 4), 1).ok());
  const auto part = [](uint32_t size, uint16_t same, uint16_t fresh, const std::string& bytes) {
    return ByteWriter().put(size).put(same).put(fresh).raw(bytes).take();
  };
  EXPECT_EQ(decodeParts(part(2, 0, 2, "ab") + part(3, 1, 2, "cd"), 2)->list(),
            (std::vector<std::string>{"ab", "acd"}));
  EXPECT_FALSE(decodeParts(part(1, 1, 0, ""), 1).ok());                        // there is none before
  EXPECT_FALSE(decodeParts(part(2, 0, 2, "ab") + part(3, 3, 0, ""), 2).ok());  // the one before is shorter
  EXPECT_FALSE(decodeParts(part(2, 0, 3, "abc"), 1).ok());                     // more than was said
  EXPECT_FALSE(decodeParts(part(2, 0, 0, ""), 1).ok());                        // no end
  const std::string big = part(UINT16_MAX, 0, UINT16_MAX, std::string(UINT16_MAX, 'x'));
  std::string bomb = big;
  for (int i = 0; i < 1025; ++i) bomb += part(UINT16_MAX, UINT16_MAX, 0, "");
  EXPECT_FALSE(decodeParts(bomb, 1026).ok());  // more than 64 MiB together
}

TEST(Parts, ComeBackAsTheyWere) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    std::vector<std::string> parts(random() % 20);
    for (size_t i = 0; i < parts.size(); ++i) {
      if (i > 0) parts[i] = parts[i - 1];
      parts[i].resize(random() % 3 == 0 ? random() % 300 : parts[i].size(), 'x');
      if (round % 20 == 0) parts[i].resize(70'000 + random() % 70'000, 'y');  // longer than a run
      for (size_t changes = random() % 8; changes > 0 && !parts[i].empty(); --changes)
        parts[i][random() % parts[i].size()] = static_cast<char>(random());
    }
    EXPECT_EQ(decodeParts(encodeParts(parts), parts.size())->list(), parts) << "round " << round;
  }
}

// What 16,384 ranks tell each other is otherwise 8 MB for each.
TEST(Parts, WhatIsAlikeIsToldOnce) {
  std::vector<std::string> parts;
  std::mt19937 random(1);
  for (int rank = 0; rank < 64; ++rank) {
    Endpoint endpoint;
    for (auto& byte : endpoint.identity) byte = static_cast<uint8_t>(random());
    endpoint.pid = 1000 + rank;
    endpoint.host = "node17";
    parts.push_back(ByteWriter().text(endpoint.encode()).text(std::string(500, 's')).take());
  }
  EXPECT_LT(encodeParts(parts).size(), parts.size() * 50);
}

}  // namespace
}  // namespace eccl::transport
