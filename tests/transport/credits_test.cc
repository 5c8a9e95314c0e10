// When a receiver tells its sender of released slots.
#include "transport/messages/credits.h"

#include <gtest/gtest.h>

#include "transport/core/ring_memory.h"

namespace eccl::transport {
namespace {

/// So many messages of that length must be released before it is worth telling.
uint64_t toldAfter(RingShape shape, uint32_t length, uint16_t flags = 0) {
  auto memory = mapPrivate(ringMemoryBytes(shape));
  EXPECT_TRUE(memory.ok());
  formatRing(memory->get(), shape, 0);
  ReceiveEnd end;
  attachRing(end, memory->get(), shape, 0, 0);
  CreditsDue credits(end);
  uint64_t released = 0;
  for (; !credits.due() && released < shape.slots; ++released) {
    MessageFrame frame{};
    frame.sequence = released;
    frame.length = frame.bytes = length;
    frame.flags = flags;
    credits.onMessage(frame);
    ++end.next;
  }
  EXPECT_EQ(credits.take().released, released);
  EXPECT_FALSE(credits.due());
  return released;
}

TEST(CreditsDue, AreHeldBackUntilHalfOfWhatMayBeOnItsWay) {
  const RingShape plain{8, 4096}, withShort = withShortSlots(plain);
  EXPECT_EQ(toldAfter(plain, 100), 4U);
  EXPECT_EQ(toldAfter(plain, 4096), 4U);
  EXPECT_EQ(toldAfter(withShort, 100), 16U);
  EXPECT_EQ(toldAfter(withShort, 1024), 16U);
  EXPECT_EQ(toldAfter(withShort, 1025), 4U) << "only eight long ones may be";
  EXPECT_EQ(toldAfter(withShort, 100, kWantsCreditSoon), 1U);
}

}  // namespace
}  // namespace eccl::transport
