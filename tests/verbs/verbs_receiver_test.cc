// A receiver whose sender may say and do anything.
#include <algorithm>
#include <functional>

#include "verbs/verbs_wire.h"

namespace eccl::transport::verbs {
namespace {

using ::testing::HasSubstr;
using ReceiverWire = VerbsWire<VerbsReceiver, ReceiveEnd>;

VerbsFrame message(uint64_t number, uint32_t length, Way way) {
  VerbsFrame header{};
  header.frame = {number, 0, length, 0, length, 7, 0, 0, FrameKind::message};
  header.way = way;
  return header;
}

TEST(VerbsReceiver, TakesWhatComesInAllWays) {
  ReceiverWire wire;
  std::fill_n(wire.memory.get(), ReceiverWire::kMemory, std::byte{5});
  Received received;

  wire.tell(message(0, 200, Way::inFrame), 200);
  ASSERT_TRUE(wire.end.peek(received));
  EXPECT_EQ(received.length, 200u);
  EXPECT_EQ(received.data[199], std::byte{5});
  wire.end.release();

  wire.write(wire.landing.address, wire.landing.key, 4096);
  EXPECT_FALSE(wire.end.peek(received));
  wire.tell(message(1, 4096, Way::landed));
  ASSERT_TRUE(wire.end.peek(received));
  EXPECT_EQ(received.data[4095], std::byte{5});
  wire.end.release();

  std::vector<std::byte> mine(3000);
  wire.registrations->add({mine.data(), mine.size()});
  wire.end.offer(2, mine.data(), 3000);
  wire.path->kick();
  wire.look();
  const auto found = std::find_if(wire.heard.begin(), wire.heard.end(),
                                  [](const VerbsFrame& each) { return each.frame.kind == FrameKind::grant; });
  ASSERT_NE(found, wire.heard.end());
  const VerbsFrame grant = *found;
  EXPECT_EQ(grant.frame.sequence, 2u);
  wire.write(grant.address, grant.key, 3000);
  wire.tell(message(2, 3000, Way::granted));
  ASSERT_TRUE(wire.end.peek(received));
  EXPECT_EQ(received.flags, kSlotPut);
  EXPECT_EQ(mine, std::vector<std::byte>(3000, std::byte{5}));
  wire.end.release();
  wire.registrations->remove({mine.data(), mine.size()});
  EXPECT_EQ(wire.breaks, 0) << wire.reason;
}

TEST(VerbsReceiver, GrantsOnlyWhatTheDeviceKnows) {
  ReceiverWire wire;
  std::vector<std::byte> mine(3000);
  wire.end.offer(0, mine.data(), 3000);
  wire.path->kick();
  wire.look();
  EXPECT_TRUE(wire.heard.empty());
}

TEST(VerbsReceiver, RefusesWhatCannotBe) {
  const struct {
    std::function<void(VerbsFrame&)> change;
    const char* says;
    uint32_t behind = 100;
  } all[] = {
      {[](VerbsFrame& h) { h.frame.kind = static_cast<FrameKind>(77); }, "kind is unknown"},
      {[](VerbsFrame& h) { h.frame.kind = FrameKind::credit; }, "kind is unknown"},
      {[](VerbsFrame& h) { h.frame.kind = FrameKind::grant; }, "kind is unknown"},
      {[](VerbsFrame& h) { h.frame.sequence = 1; }, "number is not the next"},
      {[](VerbsFrame& h) { h.frame.sequence = ~uint64_t{0}; }, "number is not the next"},
      {[](VerbsFrame& h) { h.frame.length = h.frame.bytes = 4097; }, "length is more than a slot's"},
      {[](VerbsFrame& h) { h.frame.length = h.frame.bytes = UINT32_MAX; }, "length is more than a slot's"},
      {[](VerbsFrame& h) { h.frame.bytes = 99; }, "parts are not the whole"},
      {[](VerbsFrame& h) { h.frame.offset = 1; }, "parts are not the whole"},
      {[](VerbsFrame& h) { h.frame.flags = kSlotPut; }, "flags are unknown"},
      {[](VerbsFrame& h) { h.frame.flags = kTells; }, "flags are unknown"},
      {[](VerbsFrame& h) { h.frame.length = h.frame.bytes = 101; }, "data is not behind it"},
      {[](VerbsFrame& h) { h.way = Way::landed; }, "data cannot have been written"},
      {[](VerbsFrame& h) {
         h.frame.length = h.frame.bytes = 2000;
         h.way = Way::landed;
         h.address = kWireShape.slots;
       },
       "data cannot have been written"},
      {[](VerbsFrame& h) { h.way = Way::granted; }, "place was not granted"},
      {[](VerbsFrame& h) { h.way = static_cast<Way>(9); }, "way is unknown"},
      {[](VerbsFrame& h) {
         h.frame.length = h.frame.bytes = 2000;
         h.way = Way::granted;
       },
       "place was not granted", 0},
  };
  for (const auto& each : all) {
    ReceiverWire wire;
    VerbsFrame header = message(0, 100, Way::inFrame);
    each.change(header);
    wire.tell(header, each.behind);
    EXPECT_EQ(wire.breaks, 1) << each.says;
    EXPECT_THAT(wire.reason, HasSubstr(each.says));
    EXPECT_TRUE(wire.end.poisoned());
  }
}

TEST(VerbsReceiver, RefusesMoreThanTheCreditsGiven) {
  ReceiverWire wire(~uint64_t{0} - 1);
  for (uint64_t k = 0; k < kWireSlots; ++k) wire.tell(message(~uint64_t{0} - 1 + k, 8, Way::inFrame), 8);
  EXPECT_EQ(wire.breaks, 0) << wire.reason;
  wire.tell(message(~uint64_t{0} - 1 + kWireSlots, 8, Way::inFrame), 8);
  EXPECT_THAT(wire.reason, HasSubstr("number exceeds the credits given"));
}

TEST(VerbsReceiver, RefusesAPieceOfAFrame) {
  ReceiverWire wire;
  const uint64_t piece = 1;
  wire.peer->send(&piece, sizeof piece, nullptr, 0, 0, 0);
  wire.peer->submit(true);
  wire.look();
  EXPECT_THAT(wire.reason, HasSubstr("8 bytes where a frame has 56"));
}

// The device stops whoever writes elsewhere, with any key that it was given.
TEST(VerbsReceiver, NothingIsWrittenBesideThePlaces) {
  for (const int64_t beside : {int64_t{-1}, int64_t{1}, int64_t{1} << 40}) {
    ReceiverWire wire;
    std::fill_n(wire.memory.get(), ReceiverWire::kMemory, std::byte{5});
    const size_t all = kWireShape.bytes() - kWireShape.dataAt();
    auto* const ring = reinterpret_cast<std::byte*>(wire.end.control);
    // What is before that is changed by the break itself.
    const std::vector<std::byte> headers(ring + kWireShape.offersAt(), ring + kWireShape.dataAt());
    wire.write(
        beside > 0 ? wire.landing.address + all - 64 + static_cast<uint64_t>(beside) : wire.landing.address - 1,
        wire.landing.key, 64);
    EXPECT_THAT(wire.failure, HasSubstr("refuses the memory"));
    EXPECT_EQ(headers, std::vector<std::byte>(ring + kWireShape.offersAt(), ring + kWireShape.dataAt()));
  }
}

// A write that is under way when this side gives up does not land afterwards.
TEST(VerbsReceiver, NothingLandsAfterPoison) {
  ReceiverWire wire;
  std::fill_n(wire.memory.get(), ReceiverWire::kMemory, std::byte{5});
  ASSERT_EQ(verbsEmulationHoldQueuePair(wire.peer->address().number, 1), 0);
  wire.write(wire.landing.address, wire.landing.key, 4096);
  wire.path->poison();
  const auto* landed = reinterpret_cast<const std::byte*>(wire.landing.address);
  const std::vector<std::byte> before(landed, landed + 4096);
  verbsEmulationHoldQueuePair(wire.peer->address().number, 0);
  wire.look();
  EXPECT_EQ(before, std::vector<std::byte>(landed, landed + 4096));
  EXPECT_EQ(before, std::vector<std::byte>(4096));
  EXPECT_EQ(wire.breaks, 0) << "poison is no break: " << wire.reason;
}

TEST(VerbsReceiver, HearsThePoisonAndTheEndOfThePeer) {
  {
    ReceiverWire wire;
    VerbsFrame last{};
    last.frame.kind = FrameKind::poison;
    wire.tell(last);
    EXPECT_TRUE(wire.end.poisoned());
    EXPECT_EQ(wire.breaks, 0);
  }
  ReceiverWire wire;
  wire.tell(message(0, 8, Way::inFrame), 8);
  wire.peerSocket.reset();
  wire.reactor.poll(std::chrono::seconds(1));
  EXPECT_THAT(wire.reason, HasSubstr("the peer closed the connection"));
  Received received;
  EXPECT_TRUE(wire.end.peek(received)) << "what came before counts";
}

// Over several queue pairs messages come in any order, and are taken in theirs.
TEST(VerbsReceiver, TakesWhatComesInAnyOrder) {
  const uint64_t first = ~uint64_t{0};
  ReceiverWire wire(first, 2);
  std::fill_n(wire.memory.get(), ReceiverWire::kMemory, std::byte{5});
  Received received;
  VerbsFrame later = message(first + 1, 3000, Way::landed);
  later.address = 3;
  wire.write(wire.landing.address + 3 * 4096, wire.landing.key, 3000);
  wire.tell(later, 0, 1);
  EXPECT_FALSE(wire.end.peek(received));
  wire.tell(message(first, 8, Way::inFrame), 8);
  ASSERT_TRUE(wire.end.peek(received));
  EXPECT_EQ(received.length, 8u);
  wire.end.release();
  ASSERT_TRUE(wire.end.peek(received));
  EXPECT_EQ(received.length, 3000u);
  EXPECT_EQ(received.data[2999], std::byte{5});
  wire.end.release();

  // What has come is granted no place any more.
  std::vector<std::byte> mine(6000);
  wire.registrations->add({mine.data(), mine.size()});
  wire.tell(message(first + 3, 3000, Way::landed), 0, 1);
  wire.end.offer(first + 2, mine.data(), 3000);
  wire.end.offer(first + 3, mine.data() + 3000, 3000);
  wire.path->kick();
  wire.look();
  std::vector<uint64_t> grants;
  for (const VerbsFrame& each : wire.heard)
    if (each.frame.kind == FrameKind::grant) grants.push_back(each.frame.sequence);
  EXPECT_EQ(grants, std::vector<uint64_t>{first + 2});
  wire.registrations->remove({mine.data(), mine.size()});
  EXPECT_EQ(wire.breaks, 0) << wire.reason;
  wire.tell(message(first + 3, 3000, Way::landed));
  EXPECT_THAT(wire.reason, HasSubstr("number has come before"));
}

TEST(VerbsReceiver, KeepsMemoryThatItHasGranted) {
  if (!MemoryWatch::ofProcess().ok()) GTEST_SKIP() << "there is no userfaultfd";
  ReceiverWire wire;
  alignas(4096) static std::byte bytes[16384];
  auto use = wire.use({bytes, sizeof bytes}, MemoryFor::receiving);
  ASSERT_NE(use, nullptr);
  wire.end.offer(0, bytes, 3000);
  wire.path->kick();
  wire.look();
  ASSERT_EQ(wire.heard.size(), 1u);
  use.reset();
  EXPECT_FALSE(wire.registrations->giveBack());
  wire.write(wire.heard[0].address, wire.heard[0].key, 3000);
  EXPECT_EQ(wire.failure, "");
  wire.tell(message(0, 3000, Way::granted));
  EXPECT_TRUE(wire.registrations->giveBack());
  EXPECT_EQ(wire.breaks, 0) << wire.reason;
}

// It may hold what peers must not change: a buffer that several calls send.
TEST(VerbsReceiver, MemoryThatIsOnlySentFromIsNotWritten) {
  if (!MemoryWatch::ofProcess().ok()) GTEST_SKIP() << "there is no userfaultfd";
  ReceiverWire wire;
  alignas(4096) static std::byte bytes[16384];
  const auto use = wire.use({bytes, sizeof bytes}, MemoryFor::sending);
  ASSERT_NE(use, nullptr);
  wire.end.offer(0, bytes, 3000);
  wire.path->kick();
  wire.look();
  EXPECT_EQ(wire.heard.size(), 0u) << "it was granted";
  EXPECT_EQ(wire.end.offers[0].length, 0u) << "nor is it worth another look";
  const MemoryKeys keys = wire.registrations->keysOf(bytes, 3000, MemoryFor::sending);
  ASSERT_TRUE(keys.found);
  wire.memory[0] = std::byte{7};
  wire.write(reinterpret_cast<uintptr_t>(bytes), keys.remote, 3000);
  EXPECT_THAT(wire.failure, HasSubstr("refuses the memory that was written to"));
  EXPECT_EQ(bytes[0], std::byte{0});
}

// Half a ring at once; the last word when asked for.
TEST(VerbsReceiver, SendsFewCredits) {
  ReceiverWire wire;
  const auto credits = [&] { return wire.heard.size(); };
  Received received;
  for (uint64_t k = 0; k < kWireSlots; ++k) {
    wire.tell(message(k, 8, Way::inFrame), 8);
    ASSERT_TRUE(wire.end.peek(received));
    wire.end.release();
    wire.path->kick();
    wire.look();
    EXPECT_EQ(credits(), (k + 1) / (kWireSlots / 2));
  }
  EXPECT_EQ(wire.heard.back().frame.released, kWireSlots);
  EXPECT_TRUE(wire.path->drained());
  wire.path->endReceiving();
  wire.look();
  EXPECT_EQ(wire.heard.back().frame.kind, FrameKind::end);
}

}  // namespace
}  // namespace eccl::transport::verbs
