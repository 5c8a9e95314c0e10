// What a message takes, in calls of the device; under callgrind (docs/rdma.md) also in instructions.
#include "transport/traffic.h"
#include "verbs/verbs_wire.h"

namespace eccl::transport::verbs {
namespace {

constexpr uint64_t kMessages = 2000;

/// One by one, as in a ping-pong: `length` bytes each. Returns the counters' growth.
template <class Step>
VerbsEmulationCounters counted(const Step& step) {
  VerbsEmulationCounters before, after;
  verbsEmulationCounters(&before);
  for (uint64_t k = 0; k < kMessages; ++k) step(k);
  verbsEmulationCounters(&after);
  after.sendDoorbells -= before.sendDoorbells;
  after.receiveDoorbells -= before.receiveDoorbells;
  after.completions -= before.completions;
  return after;
}

TEST(VerbsCost, OfSendingShortMessages) {
  VerbsWire<VerbsSender, SendEnd> wire;
  const std::vector<std::byte> bytes(8);
  const VerbsEmulationCounters count = counted([&](uint64_t k) {
    ASSERT_TRUE(trySend(wire.end, bytes, 3));
    wire.path->kick();
    wire.path->poll();
    VerbsFrame credit{};  // of the receiver, as if by the wire
    credit.frame.kind = FrameKind::credit;
    credit.frame.released = k + 1;
    wire.path->onFrame(reinterpret_cast<const std::byte*>(&credit), sizeof credit);
  });
  EXPECT_EQ(count.sendDoorbells, kMessages);
  // Those of the peer's receives, and one of the sender's for each quarter of its queue.
  EXPECT_LE(count.completions, kMessages + kMessages / 4);
}

TEST(VerbsCost, OfReceivingShortMessages) {
  VerbsWire<VerbsReceiver, ReceiveEnd> wire;
  VerbsFrame header{};
  header.frame = {0, 0, 8, 0, 8, 3, 0, 0, FrameKind::message};
  const VerbsEmulationCounters count = counted([&](uint64_t k) {
    header.frame.sequence = k;
    wire.peer->send(&header, sizeof header, wire.memory.get(), wire.known->lkey, 8, 0);
    wire.peer->submit(false);
    wire.path->poll();
    Received received;
    ASSERT_TRUE(wire.end.peek(received));
    wire.end.release();
    wire.path->kick();
    wire.path->settle();
  });
  // The peer's messages, and a credit for each half of a ring.
  EXPECT_EQ(count.sendDoorbells, kMessages + 2 * kMessages / kWireSlots);
}

}  // namespace
}  // namespace eccl::transport::verbs
