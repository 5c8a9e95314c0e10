// Messages that grow: one sender writes, one receiver follows it.
#include "program/growing.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <thread>
#include <vector>

namespace eccl {
namespace {

constexpr RingShape kShape{4, 1 << 18};
constexpr int kLooks = 2000;

struct GrowingRing {
  explicit GrowingRing(uint64_t first = 0)
      : memory(std::aligned_alloc(kCacheLine, kShape.bytes()), &std::free) {
    std::memset(memory.get(), 0, kShape.bytes());
    formatRing(memory.get(), kShape, first);
    attachRing(sender, memory.get(), kShape, first, 0);
    attachRing(receiver, memory.get(), kShape, first, 0);
  }
  /// Published, and nothing of it is there. Where its data goes.
  std::byte* begin(uint32_t length) {
    EXPECT_NE(sender.reserve(length), nullptr);
    std::byte* const data = sender.place(length);
    sender.grow(length, kSlotLast, 7);
    return data;
  }
  std::unique_ptr<void, void (*)(void*)> memory;
  SendEnd sender;
  ReceiveEnd receiver;
};

std::byte byteOf(uint32_t message, uint32_t at) {
  return static_cast<std::byte>(message * 31 + at * 7 + at / 251);
}

TEST(Growing, NobodySeesAMessageBeforeItIsWhole) {
  constexpr uint32_t kLength = 50'000;
  for (const uint64_t first : {uint64_t{0}, ~uint64_t{0} - 1}) {
    GrowingRing ring(first);
    for (int message = 0; message < 10; ++message) {
      Received received{};
      EXPECT_FALSE(ring.receiver.peekGrowing(received));
      ring.begin(kLength);
      for (const uint32_t there : {0u, 16384u, kLength - 1}) {
        if (there > 0) ring.sender.grown(there);
        ring.receiver.missed = 0;
        EXPECT_FALSE(ring.receiver.peek(received));
        EXPECT_EQ(ring.receiver.missed, ring.receiver.next + 1);
        EXPECT_TRUE(ring.receiver.hasCome());
        ASSERT_TRUE(ring.receiver.peekGrowing(received));
        EXPECT_EQ(received.flags, kSlotLast | kSlotGrowing);
        EXPECT_EQ(received.length, kLength);
        EXPECT_EQ(received.signature, 7u);
        EXPECT_EQ(ring.receiver.grownTo(), there);
      }
      const std::byte* data;
      EXPECT_EQ(ring.receiver.peek(kLength, 7, &data), ReceiveEnd::Expected::other);
      EXPECT_EQ(ring.sender.next, ring.receiver.next) << "it is not counted yet";
      ring.sender.finish(kLength);
      ASSERT_TRUE(ring.receiver.peek(received));
      ring.receiver.release(kLength);
      EXPECT_EQ(ring.sender.next, ring.receiver.next);
      EXPECT_EQ(ring.sender.bytes, ring.receiver.bytes);
    }
  }
}

// The reader stays behind the writer, whatever the length, beside messages that do not grow.
TEST(Growing, IsReadWhileItIsWritten) {
  constexpr uint32_t kMessages = 600;
  GrowingRing ring;
  std::mt19937 random(5);
  std::vector<uint32_t> lengths(kMessages);
  for (uint32_t& length : lengths) length = kGrowFrom + random() % (kShape.slotBytes - kGrowFrom + 1);
  lengths[0] = kGrowFrom;
  lengths[1] = kShape.slotBytes;
  std::thread writer([&] {
    for (uint32_t m = 0; m < kMessages; ++m) {
      const uint32_t length = lengths[m];
      while (ring.sender.reserve(length) == nullptr) std::this_thread::yield();
      std::byte* const to = ring.sender.place(length);
      const auto write = [&](uint32_t at, uint32_t bytes) {
        for (uint32_t i = at; i < at + bytes; ++i) to[i] = byteOf(m, i);
      };
      if (m % 5 == 4) {
        write(0, length);
        ring.sender.publish(length, kSlotLast, m);
        continue;
      }
      ring.sender.grow(length, kSlotLast, m);
      writeGrowing(ring.sender, length, write);
      ring.sender.finish(length);
    }
  });
  bool right = true;
  for (uint32_t m = 0; m < kMessages && right; ++m) {
    std::vector<std::byte> got(lengths[m]);
    Received received;
    const auto read = [&](uint32_t at, uint32_t bytes) {
      std::memcpy(got.data() + at, received.data + at, bytes);
    };
    for (;; std::this_thread::yield()) {
      if (ring.receiver.peek(received)) {
        read(0, received.length);
        break;
      }
      if (!ring.receiver.peekGrowing(received) || (received.flags & kSlotGrowing) == 0) continue;
      if (readGrowing(ring.receiver, received.length, kLooks, read)) break;  // or again from the beginning
    }
    right = received.length == lengths[m] && received.signature == m;
    for (uint32_t i = 0; right && i < lengths[m]; ++i) right = got[i] == byteOf(m, i);
    EXPECT_TRUE(right) << "message " << m;
    ring.receiver.release(received.length);
  }
  for (Received received; !right && ring.receiver.next != kMessages;)  // the writer has to end
    if (ring.receiver.peek(received)) ring.receiver.release(received.length);
  writer.join();
}

TEST(Growing, TheReaderFollowsPieceByPiece) {
  constexpr uint32_t kLength = 50'000;
  GrowingRing ring;
  std::byte* const to = ring.begin(kLength);
  Received received{};
  ASSERT_TRUE(ring.receiver.peekGrowing(received));
  uint32_t written = 0, read = 0;
  int pieces = 0;
  const auto writePiece = [&] {
    for (const uint32_t end = std::min(written + 10'000, kLength); written < end; ++written)
      to[written] = byteOf(9, written);
    if (written < kLength)
      ring.sender.grown(written);
    else
      ring.sender.finish(kLength);
  };
  writePiece();
  EXPECT_TRUE(readGrowing(ring.receiver, kLength, kLooks, [&](uint32_t at, uint32_t bytes) {
    EXPECT_EQ(at, read);
    EXPECT_LE(at + bytes, written - (written < kLength ? kGrowthMargin : 0));
    for (; read < at + bytes; ++read) EXPECT_EQ(received.data[read], byteOf(9, read));
    ++pieces;
    if (written < kLength) writePiece();
  }));
  EXPECT_EQ(read, kLength);
  EXPECT_EQ(pieces, 5);
}

TEST(Growing, WhoStopsIsNotWaitedForAndMayGoOn) {
  constexpr uint32_t kLength = 40'000;
  GrowingRing ring;
  ring.begin(kLength);
  uint32_t read = 0;
  const auto count = [&](uint32_t at, uint32_t bytes) {
    EXPECT_EQ(at, read);
    read += bytes;
  };
  EXPECT_FALSE(readGrowing(ring.receiver, kLength, kLooks, count));
  EXPECT_EQ(read, 0u);
  ring.sender.grown(16384);
  EXPECT_FALSE(readGrowing(ring.receiver, kLength, kLooks, count));
  EXPECT_EQ(read, 16384 - kGrowthMargin);
  ring.sender.finish(kLength);
  read = 0;
  EXPECT_TRUE(readGrowing(ring.receiver, kLength, kLooks, count));
  EXPECT_EQ(read, kLength);
}

// The word is the other process's: nothing outside of the message is touched.
TEST(Growing, WhateverTheOtherSideSays) {
  constexpr uint32_t kLength = 40'000;
  GrowingRing ring;
  ring.begin(kLength);
  Slot& slot = *ring.receiver.slot(ring.receiver.next);
  uint32_t read = 0;
  slot.sent.grown = 30'000;
  EXPECT_TRUE(readGrowing(ring.receiver, kLength, kLooks, [&](uint32_t at, uint32_t bytes) {
    EXPECT_EQ(at, read);
    read += bytes;
    slot.sent.grown = ~uint64_t{0};
  }));
  EXPECT_EQ(read, kLength);
  read = 0;
  slot.sent.grown = 20'000;
  EXPECT_FALSE(readGrowing(ring.receiver, kLength, kLooks, [&](uint32_t, uint32_t bytes) {
    read += bytes;
    slot.sent.grown = 5'000;
  }));
  EXPECT_EQ(read, 20'000 - kGrowthMargin);
  // Byte by byte: nobody looks on for ever.
  int looks = 0;
  slot.sent.grown = kGrowthMargin;
  EXPECT_FALSE(readGrowing(ring.receiver, kLength, kLooks, [&](uint32_t, uint32_t) {
    ++looks;
    ++slot.sent.grown;
  }));
  EXPECT_EQ(looks, 0);
}

TEST(Growing, PiecesAreAllOfTheMessage) {
  for (const uint32_t length : {kGrowFrom, kGrowFrom + 1, 65'535u, 65'536u, 100'001u, kShape.slotBytes}) {
    GrowingRing ring;
    ring.begin(length);
    uint32_t written = 0, pieces = 0;
    writeGrowing(ring.sender, length, [&](uint32_t at, uint32_t bytes) {
      EXPECT_EQ(at, written);
      EXPECT_EQ(ring.receiver.grownTo(), written) << "the reader knows what is there, and no more";
      written += bytes;
      ++pieces;
    });
    EXPECT_EQ(written, length);
    EXPECT_GE(pieces, 2u);
    EXPECT_LT(ring.receiver.grownTo(), length) << "finish() says the last";
  }
}

}  // namespace
}  // namespace eccl
