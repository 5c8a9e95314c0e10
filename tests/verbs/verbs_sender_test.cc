// A sender whose receiver may say anything, and what it asks of the device.
#include "transport/traffic.h"
#include "verbs/verbs_wire.h"

namespace eccl::transport::verbs {
namespace {

using ::testing::HasSubstr;
using SenderWire = VerbsWire<VerbsSender, SendEnd>;

VerbsFrame credit(uint64_t released) {
  VerbsFrame header{};
  header.frame.kind = FrameKind::credit;
  header.frame.released = released;
  return header;
}

void send(SenderWire& wire, uint32_t length) {
  ASSERT_TRUE(trySend(wire.end, std::vector<std::byte>(length, std::byte{9}), 3));
  wire.path->kick();
  wire.look();
}

// Otherwise all who use the device would wait for completions that nobody hears of.
TEST(VerbsSender, IsToldThatACompletionQueueHasFailed) {
  const auto told = [](const char* call, void (*reach)(SenderWire&)) {
    SenderWire wire;
    EXPECT_EQ(verbsEmulationFailCall(call, 1, EIO), 0);
    reach(wire);
    reach(wire);
    EXPECT_EQ(wire.breaks, 1);
    EXPECT_TRUE(wire.end.poisoned());
    return wire.reason;
  };
  EXPECT_THAT(told("ibv_poll_cq", [](SenderWire& wire) { wire.look(); }),
              HasSubstr("the RDMA device emu0 of rank 0 (test): its completion queue cannot be read"));
  EXPECT_THAT(
      told("ibv_req_notify_cq", [](SenderWire& wire) { wire.path->beforeSleep(); }),
      HasSubstr("emu0 of rank 0 (test): its completion queue does not wake anybody: Input/output error"));
}

TEST(VerbsSender, SendsEachLengthItsWay) {
  SenderWire wire;
  send(wire, 0);
  send(wire, kInFrame);
  send(wire, kInFrame + 1);
  ASSERT_EQ(wire.heard.size(), 3u);
  EXPECT_EQ(wire.heard[1].way, Way::inFrame);
  EXPECT_EQ(wire.heard[2].way, Way::landed);
  EXPECT_EQ(wire.memory[kInFrame], std::byte{9});
  EXPECT_EQ(wire.memory[kInFrame + 1], std::byte{0});
  // Places go round among long messages.
  send(wire, 8);
  send(wire, 4000);
  EXPECT_EQ(wire.memory[4096 + 3999], std::byte{9});
  EXPECT_EQ(wire.memory[2 * 4096], std::byte{0});

  VerbsFrame grant{};
  grant.frame.kind = FrameKind::grant;
  grant.frame.sequence = 5;
  grant.frame.length = 2000;
  grant.address = wire.place().address + 3 * 4096 + 17;
  grant.key = wire.place().key;
  EXPECT_TRUE(wire.path->grants() && wire.path->awaitsGrant(5));
  wire.tell(grant);
  EXPECT_FALSE(wire.path->awaitsGrant(5));
  EXPECT_TRUE(wire.path->awaitsGrant(6));
  send(wire, 2000);
  EXPECT_EQ(wire.heard.back().way, Way::granted);
  EXPECT_EQ(wire.memory[3 * 4096 + 17], std::byte{9});
  EXPECT_EQ(wire.memory[3 * 4096 + 16], std::byte{0});
  EXPECT_EQ(wire.breaks, 0) << wire.reason;
}

// A grant for another length, or that comes late, is not used, nor is one for a message of a round before.
TEST(VerbsSender, GrantsThatDoNotFitAreNotUsed) {
  SenderWire wire;
  VerbsFrame grant{};
  grant.frame.kind = FrameKind::grant;
  grant.frame.length = 2000;
  grant.address = wire.place().address;
  grant.key = wire.place().key;
  wire.tell(grant);
  send(wire, 2001);
  wire.tell(grant);
  for (uint64_t k = 1; k <= 8; ++k) {
    wire.tell(credit(k));
    send(wire, 2000);
    EXPECT_EQ(wire.heard.back().way, Way::landed);
  }
  EXPECT_EQ(wire.breaks, 0) << wire.reason;
}

// Long messages go over the queue pairs in turn, each to a place of its own; the user's memory is free when the
// queue pair that it was sent by is done with it.
TEST(VerbsSender, SendsOverSeveralQueuePairs) {
  SenderWire wire(0, 3);
  std::vector<std::byte> mine(5000, std::byte{9});
  wire.registrations->add({mine.data(), mine.size()});
  uint32_t numbers[8];
  ASSERT_EQ(verbsEmulationQueuePairs(numbers, 8), 6);
  verbsEmulationHoldQueuePair(numbers[1], 1);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(trySend(wire.end, mine, 3)) << i;
  ASSERT_TRUE(trySend(wire.end, std::vector<std::byte>(8), 3));
  wire.path->kick();
  wire.look();
  ASSERT_EQ(wire.heard.size(), 3u) << "one is held";
  std::vector<uint64_t> numbersHeard, places;
  for (const VerbsFrame& each : wire.heard) {
    numbersHeard.push_back(each.frame.sequence);
    if (each.way == Way::landed) places.push_back(each.address);
  }
  EXPECT_THAT(numbersHeard, testing::UnorderedElementsAre(0, 2, 3));
  EXPECT_THAT(places, testing::UnorderedElementsAre(0, 2));
  EXPECT_EQ(wire.memory[2 * 4096 + 4000], std::byte{9});
  EXPECT_EQ(wire.memory[4096 + 4000], std::byte{0});
  wire.tell(credit(4));
  EXPECT_LT(wire.end.control->released, 2u) << "the second is not sent";
  verbsEmulationHoldQueuePair(numbers[1], 0);
  wire.look();
  EXPECT_EQ(wire.heard.size(), 4u);
  EXPECT_EQ(wire.memory[4096 + 4000], std::byte{9});
  EXPECT_EQ(wire.end.control->released, 4u);
  wire.registrations->remove({mine.data(), mine.size()});
  EXPECT_EQ(wire.breaks, 0) << wire.reason;
}

// Another call's memory, which ends while a message is on its way.
TEST(VerbsSender, KeepsMemoryThatMessagesReferTo) {
  if (!MemoryWatch::ofProcess().ok()) GTEST_SKIP() << "there is no userfaultfd";
  SenderWire wire;
  alignas(4096) static std::byte bytes[16384];
  auto use = wire.use({bytes, sizeof bytes}, MemoryFor::sending);
  ASSERT_NE(use, nullptr);
  ASSERT_TRUE(trySend(wire.end, std::span<const std::byte>(bytes, 2000), 3));
  EXPECT_EQ(wire.end.slot(0)->flags & kSlotGet, kSlotGet);
  wire.path->kick();
  use.reset();
  EXPECT_FALSE(wire.registrations->giveBack());
  wire.look();
  EXPECT_FALSE(wire.registrations->giveBack()) << "the receiver has not released it";
  wire.tell(credit(1));
  EXPECT_TRUE(wire.registrations->giveBack());
  EXPECT_EQ(wire.breaks, 0) << wire.reason;
}

TEST(VerbsSender, RefusesWhatCannotBe) {
  for (uint64_t released : {uint64_t{2}, ~uint64_t{0}, uint64_t{1} << 63}) {
    SenderWire wire;
    send(wire, 8);
    wire.tell(credit(released));
    EXPECT_THAT(wire.reason, HasSubstr("messages released of 1 sent"));
  }
  for (FrameKind kind : {FrameKind::message, FrameKind::ask, FrameKind::leave, static_cast<FrameKind>(99)}) {
    SenderWire wire;
    VerbsFrame header{};
    header.frame.kind = kind;
    wire.tell(header);
    EXPECT_THAT(wire.reason, HasSubstr("it sent what cannot be"));
  }
  {
    SenderWire wire;
    VerbsFrame grant{};
    grant.frame.kind = FrameKind::grant;
    grant.frame.sequence = 1000;
    wire.tell(grant);
    EXPECT_EQ(wire.breaks, 1);
  }
  SenderWire wire;  // the device keeps out what is longer
  wire.tell(credit(0), 1);
  EXPECT_THAT(wire.reason, HasSubstr("what came is longer than the memory for it"));
}

// The device may have to send again what the user wants back.
TEST(VerbsSender, ReferencesStayUntilTheDeviceIsDone) {
  SenderWire wire;
  std::vector<std::byte> mine(2000);
  wire.registrations->add({mine.data(), mine.size()});
  verbsEmulationLimitPoll(1);
  ASSERT_TRUE(trySend(wire.end, mine, 3));
  EXPECT_NE(wire.end.slot(0)->flags & kSlotGet, 0);
  wire.path->kick();
  EXPECT_FALSE(wire.end.getsReleased());
  // The credit is told first.
  const auto released = credit(1);
  std::byte bytes[sizeof released];
  std::memcpy(bytes, &released, sizeof released);
  wire.path->onFrame(bytes, sizeof bytes);
  EXPECT_FALSE(wire.end.getsReleased());
  wire.look();
  EXPECT_TRUE(wire.end.getsReleased());
  wire.registrations->remove({mine.data(), mine.size()});
}

// Memory that is not registered goes by the slots, never by reference.
TEST(VerbsSender, RefersOnlyToWhatTheDeviceKnows) {
  SenderWire wire;
  std::vector<std::byte> mine(2000);
  ASSERT_TRUE(trySend(wire.end, mine, 3));
  EXPECT_EQ(wire.end.slot(0)->flags & kSlotGet, 0);
}

// What goes over the wire, and how often the device is called: docs/rdma.md counts with these.
TEST(VerbsSender, AsksLittleOfTheDevice) {
  SenderWire wire;
  VerbsEmulationCounters before, after;
  verbsEmulationCounters(&before);
  for (int k = 0; k < 4; ++k) ASSERT_TRUE(trySend(wire.end, std::vector<std::byte>(8), 3));
  wire.path->kick();
  wire.look();
  verbsEmulationCounters(&after);
  EXPECT_EQ(after.sends - before.sends, 4u);
  EXPECT_EQ(after.sendDoorbells - before.sendDoorbells, 1u);
  EXPECT_EQ(after.movedBytes - before.movedBytes, 4 * (8 + sizeof(VerbsFrame)));
  wire.tell(credit(4));
  verbsEmulationCounters(&before);
  ASSERT_TRUE(trySend(wire.end, std::vector<std::byte>(4096), 3));
  wire.path->kick();
  wire.look();
  verbsEmulationCounters(&after);
  EXPECT_EQ(after.writes - before.writes, 1u);
  EXPECT_EQ(after.sends - before.sends, 1u);
  EXPECT_EQ(after.sendDoorbells - before.sendDoorbells, 1u);
  EXPECT_EQ(after.movedBytes - before.movedBytes, 4096 + sizeof(VerbsFrame));
}

// A queue that is full is filled again when the device has done something.
TEST(VerbsSender, WaitsForRoom) {
  SenderWire wire;
  verbsEmulationHold(1);
  uint64_t sent = 0;
  for (int round = 0; round < 50; ++round) {
    while (trySend(wire.end, std::vector<std::byte>(2000), 3)) ++sent;
    wire.path->kick();
    verbsEmulationHold(0);
    wire.look();
    verbsEmulationHold(1);
    // As if all had been released at once, so that the queue alone holds back.
    const auto all = credit(wire.heard.size());
    std::byte bytes[sizeof all];
    std::memcpy(bytes, &all, sizeof all);
    wire.path->onFrame(bytes, sizeof bytes);
  }
  verbsEmulationHold(0);
  wire.look();
  EXPECT_GT(sent, 150u);
  EXPECT_EQ(wire.heard.size(), sent);
  EXPECT_EQ(wire.breaks, 0) << wire.reason;
}

}  // namespace
}  // namespace eccl::transport::verbs
