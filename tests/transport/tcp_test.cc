// The TCP ends against a peer that we play byte by byte.
#include <gmock/gmock.h>
#include <sys/mman.h>

#include "support/forwarding_system.h"
#include "transport/traffic.h"
#include "transport/wire.h"

namespace eccl::transport {
namespace {

using ::testing::HasSubstr;

TEST(TcpReceiver, RefusesFramesThatCannotBe) {
  struct Case {
    const char* why;
    MessageFrame frame;
  };
  const MessageFrame good = message(0, 8);
  auto with = [&](auto change) {
    MessageFrame frame = good;
    change(frame);
    return frame;
  };
  for (const Case& each :
       {Case{"exceeds the credits", with([](MessageFrame& f) { f.sequence = kShape.slots; })},
        Case{"exceeds the credits", with([](MessageFrame& f) { f.sequence = ~0ull; })},
        Case{"no such part", with([](MessageFrame& f) { f.offset = 1; })},
        Case{"no such part", with([](MessageFrame& f) { f.bytes = 9; })},
        Case{"no such part", with([](MessageFrame& f) { f.offset = 9, f.bytes = UINT32_MAX; })},
        Case{"no such part", with([](MessageFrame& f) { f.bytes = 0; })},
        Case{"longer than a slot", with([](MessageFrame& f) { f.length = kShape.slotBytes + 1; })},
        Case{"longer than a slot", with([](MessageFrame& f) { f.length = UINT32_MAX; })},
        Case{"kind is unknown", with([](MessageFrame& f) { f.kind = FrameKind::credit; })},
        Case{"kind is unknown", with([](MessageFrame& f) { f.kind = static_cast<FrameKind>(0x1000000); })},
        Case{"flags are unknown", with([](MessageFrame& f) { f.flags = kSlotGet; })},
        Case{"flags are unknown", with([](MessageFrame& f) { f.flags = kSlotPut; })}}) {
    Receiving wire;
    wire.put(each.frame);
    EXPECT_EQ(wire.breaks, 1) << each.why;
    EXPECT_THAT(wire.reason, HasSubstr(each.why));
    EXPECT_TRUE(wire.end.poisoned());
    Received received;
    EXPECT_FALSE(wire.end.peek(received));
    wire.path->kick();
    wire.path->flush();
    wire.path->poison();
    EXPECT_EQ(wire.breaks, 1);
  }
}

TEST(TcpReceiver, HoldsTheSenderToItsCredits) {
  Receiving wire;
  for (uint64_t k = 0; k < kShape.slots; ++k) wire.put(message(k, 0));
  EXPECT_EQ(wire.breaks, 0);
  wire.end.release();
  wire.put(message(kShape.slots, 0));
  EXPECT_EQ(wire.breaks, 0);
  wire.put(message(kShape.slots + 1, 0));
  EXPECT_EQ(wire.breaks, 1);
  EXPECT_THAT(wire.reason, HasSubstr("credits"));
}

TEST(TcpReceiver, TakesBytesInPiecesOfAnySize) {
  std::string stream;
  for (uint64_t k = 0; k < kShape.slots; ++k) {
    const uint32_t lengths[] = {0, kInlineBytes, kInlineBytes + 1, kShape.slotBytes};
    const MessageFrame frame = message(k, lengths[k]);
    stream.append(reinterpret_cast<const char*>(&frame), sizeof frame);
    stream.append(lengths[k], static_cast<char>('a' + k));
  }
  for (size_t perWrite : {1ul, 3ul, 23ul, 25ul, 64ul, stream.size()}) {
    for (size_t perCall : {size_t{1}, size_t{5}, SIZE_MAX}) {
      Receiving wire(perCall);
      for (size_t at = 0; at < stream.size(); at += perWrite)
        wire.put(stream.data() + at, std::min(perWrite, stream.size() - at));
      for (uint64_t k = 0; k < kShape.slots; ++k) {
        Received received;
        ASSERT_TRUE(wire.end.peek(received)) << k;
        EXPECT_EQ(received.signature, 77u);
        EXPECT_EQ(received.epoch, 3);
        EXPECT_EQ(received.flags, kSlotLast);
        EXPECT_EQ(std::string(reinterpret_cast<const char*>(received.data), received.length),
                  std::string(received.length, static_cast<char>('a' + k)));
        wire.end.release();
      }
      EXPECT_EQ(wire.breaks, 0);
    }
  }
}

TEST(TcpReceiver, TellsReleasesInBulkUnlessIdle) {
  Receiving wire;
  for (uint64_t k = 0; k < 4; ++k) wire.put(message(k, 0));
  wire.end.release();
  wire.path->kick();
  EXPECT_EQ(wire.take(), "");
  EXPECT_FALSE(wire.path->drained());
  wire.end.release();
  wire.path->kick();  // half of the slots
  std::string credit = wire.take();
  ASSERT_EQ(credit.size(), sizeof(MessageFrame));
  EXPECT_EQ(reinterpret_cast<const MessageFrame*>(credit.data())->released, 2u);
  EXPECT_TRUE(wire.path->drained());
  wire.end.release();
  wire.path->flush();
  credit = wire.take();
  ASSERT_EQ(credit.size(), sizeof(MessageFrame));
  EXPECT_EQ(reinterpret_cast<const MessageFrame*>(credit.data())->released, 3u);
  wire.path->flush();
  EXPECT_EQ(wire.take(), "");
}

// A sender that waits for no credit can send on: half of the slots are free.
TEST(TcpReceiver, SettlesOnlyWhatTheSenderWaitsFor) {
  Receiving wire;
  MessageFrame wanted = message(1, 0);
  wanted.flags |= kWantsCredit;
  wire.put(message(0, 0));
  wire.end.release();
  wire.path->settle();
  EXPECT_EQ(wire.take(), "");
  wire.put(wanted);
  wire.path->settle();  // what has been released is told, the message itself still wanted
  EXPECT_EQ(wire.take().size(), sizeof(MessageFrame));
  Received received;
  ASSERT_TRUE(wire.end.peek(received));
  EXPECT_EQ(received.flags, kSlotLast);
  wire.end.release();
  wire.path->settle();
  const std::string credit = wire.take();
  ASSERT_EQ(credit.size(), sizeof(MessageFrame));
  EXPECT_EQ(reinterpret_cast<const MessageFrame*>(credit.data())->released, 2u);
  wire.put(message(2, 0));
  wire.end.release();
  wire.path->settle();
  EXPECT_EQ(wire.take(), "");
}

TEST(TcpReceiver, HoldsNothingBackFromASenderThatAsks) {
  Receiving wire;
  wire.put(message(0, 0));
  wire.end.release();
  wire.put(message(1, 0));
  wire.put(word(FrameKind::ask, 2));
  std::string credit = wire.take();
  ASSERT_EQ(credit.size(), sizeof(MessageFrame));
  EXPECT_EQ(reinterpret_cast<const MessageFrame*>(credit.data())->released, 1u);
  wire.end.release();
  wire.path->kick();
  credit = wire.take();
  ASSERT_EQ(credit.size(), sizeof(MessageFrame));
  EXPECT_EQ(reinterpret_cast<const MessageFrame*>(credit.data())->released, 2u);
  EXPECT_EQ(wire.breaks, 0);
}

TEST(TcpReceiver, HoldsNothingBackThatTheSenderWantsSoon) {
  Receiving wire;
  MessageFrame wanted = message(0, 0);
  wanted.flags |= kWantsCreditSoon;
  wire.put(wanted);
  Received received;
  ASSERT_TRUE(wire.end.peek(received));
  EXPECT_EQ(received.flags, kSlotLast);
  wire.path->kick();
  EXPECT_EQ(wire.take(), "");
  wire.end.release();
  wire.path->kick();
  const std::string credit = wire.take();
  ASSERT_EQ(credit.size(), sizeof(MessageFrame));
  EXPECT_EQ(reinterpret_cast<const MessageFrame*>(credit.data())->released, 1u);
  wire.put(message(1, 0));  // held back as ever
  wire.end.release();
  wire.path->kick();
  EXPECT_EQ(wire.take(), "");
}

TEST(TcpSender, KeepsAsFewMessagesOnTheirWayAsItIsTold) {
  Sending wire;
  wire.path->limitAhead(2);
  for (uint64_t k = 0; k < 2; ++k) {
    ASSERT_NE(wire.end.reserve(), nullptr);
    wire.end.publish(0, 0, 0);
  }
  EXPECT_EQ(wire.end.reserve(), nullptr);
  wire.path->kick();
  const std::string sent = wire.take();
  ASSERT_EQ(sent.size(), 2 * sizeof(MessageFrame));
  for (size_t k = 0; k < 2; ++k)
    EXPECT_TRUE((reinterpret_cast<const MessageFrame*>(sent.data())[k].flags & kWantsCreditSoon) != 0);
  const MessageFrame credit = creditOf(1);
  ASSERT_EQ(write(wire.peers[0].get(), &credit, sizeof credit), static_cast<ssize_t>(sizeof credit));
  wire.path->poll();  // looks, as no slot is to be had
  EXPECT_NE(wire.end.reserve(), nullptr);
  wire.path->limitAhead(UINT32_MAX);  // while others are on their way
  for (uint64_t k = 2; k < 5; ++k) {
    ASSERT_NE(wire.end.reserve(), nullptr);
    wire.end.publish(0, 0, 0);
  }
  EXPECT_EQ(wire.end.reserve(), nullptr);
  wire.path->kick();
  const std::string more = wire.take();
  ASSERT_EQ(more.size(), 3 * sizeof(MessageFrame));
  EXPECT_EQ(reinterpret_cast<const MessageFrame*>(more.data())->flags & kWantsCreditSoon, 0);
  wire.path->limitAhead(2);  // fewer than are on their way
  EXPECT_EQ(wire.end.reserve(), nullptr);
}

// For a driver that spins: without the reactor.
TEST(TcpReceiver, PollTakesWhatHasCome) {
  Receiving wire;
  const MessageFrame frame = message(0, 0);
  Received received;
  wire.path->poll();
  EXPECT_FALSE(wire.end.peek(received));
  ASSERT_EQ(write(wire.peers[0].get(), &frame, sizeof frame), static_cast<ssize_t>(sizeof frame));
  wire.path->poll();
  EXPECT_TRUE(wire.end.peek(received));
  wire.peers[0].reset();
  wire.path->poll();
  wire.path->poll();
  EXPECT_EQ(wire.breaks, 1);
}

TEST(TcpReceiver, CutsCreditsWhereTheSocketDoes) {
  Receiving wire(5);
  wire.put(message(0, 0));
  wire.end.release();
  wire.path->flush();
  EXPECT_FALSE(wire.path->drained());
  const std::string credit = wire.take();
  ASSERT_EQ(credit.size(), sizeof(MessageFrame));
  EXPECT_EQ(reinterpret_cast<const MessageFrame*>(credit.data())->released, 1u);
  EXPECT_TRUE(wire.path->drained());
}

/// Has no memory for what is sent.
class NoBuffers final : public test::ForwardingSystem {
 public:
  NoBuffers() : ForwardingSystem(System::real()) {}
  ssize_t sendmsg(int, const msghdr*) override {
    errno = ENOBUFS;
    return -1;
  }
};

// The sender would wait for it for ever. What it said before counts.
TEST(TcpReceiver, ACreditThatCannotBeSentIsABreak) {
  for (bool poisoned : {false, true}) {
    NoBuffers system;
    Receiving wire(SIZE_MAX, 0, system);
    wire.put(message(0, 0));
    wire.end.release();
    const MessageFrame poison = word(FrameKind::poison, 1);
    const size_t last = poisoned ? sizeof poison : 0;
    ASSERT_EQ(write(wire.peers[0].get(), &poison, last), static_cast<ssize_t>(last));
    wire.path->flush();
    EXPECT_TRUE(wire.end.poisoned());
    EXPECT_EQ(wire.breaks, poisoned ? 0 : 1);
    EXPECT_THAT(wire.reason, HasSubstr(poisoned ? "" : "sending to it failed: No buffer space"));
  }
}

// The ask comes with a message, which is taken once.
TEST(TcpReceiver, ACreditAskedForThatCannotBeSentIsThatBreak) {
  NoBuffers system;
  Receiving wire(SIZE_MAX, 0, system);
  wire.put(message(0, 0));
  wire.end.release();
  const MessageFrame both[] = {message(1, 0), word(FrameKind::ask, 2)};
  wire.put(both);
  EXPECT_EQ(wire.breaks, 1);
  EXPECT_THAT(wire.reason, HasSubstr("sending to it failed: No buffer space"));
}

TEST(TcpSender, AnAskThatCannotBeSentIsABreak) {
  NoBuffers system;
  Sending wire(SIZE_MAX, 0, system);
  wire.end.publish(0, 0, 0);
  wire.path->askForReleases();
  EXPECT_EQ(wire.breaks, 1);
  EXPECT_TRUE(wire.end.poisoned());
}

// The end of the stream in the middle of a message that goes to the user's memory.
TEST(TcpReceiver, WritesNothingIntoOfferedMemoryAfterPoison) {
  Receiving wire;
  auto* memory =
      static_cast<std::byte*>(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(memory, MAP_FAILED);
  wire.end.mine = kOwnAddressSpace;
  wire.end.directFrom = 200;
  wire.end.offer(wire.end.next, memory, 200);
  wire.put(message(0, 200));
  const std::string half(100, 'x');
  wire.put(half.data(), half.size());
  EXPECT_EQ(memory[99], std::byte{'x'});
  wire.path->poison();
  munmap(memory, 4096);
  wire.put(half.data(), half.size());  // would end the process if it were written
  const std::string said = wire.take();
  ASSERT_EQ(said.size(), sizeof(MessageFrame));
  EXPECT_EQ(reinterpret_cast<const MessageFrame*>(said.data())->kind, FrameKind::poison);
  EXPECT_EQ(wire.breaks, 0);
}

TEST(TcpReceiver, SaysThatThePeerClosed) {
  Receiving wire;
  wire.put(message(0, 8));
  wire.peers[0].reset();
  while (wire.reactor.poll(Duration::zero())) {}
  EXPECT_EQ(wire.breaks, 1);
  EXPECT_THAT(wire.reason, HasSubstr("closed"));
  EXPECT_TRUE(wire.end.poisoned());
}

TEST(TcpReceiver, PoisonInBandIsNotABreak) {
  Receiving wire;
  wire.put(message(0, 0));
  wire.put(word(FrameKind::poison, 1));
  wire.peers[0].reset();
  while (wire.reactor.poll(Duration::zero())) {}
  EXPECT_TRUE(wire.end.poisoned());
  EXPECT_EQ(wire.breaks, 0);
  Received received;
  EXPECT_TRUE(wire.end.peek(received));
}

TEST(TcpSender, RefusesCreditsThatCannotBe) {
  for (const MessageFrame& credit :
       {creditOf(3), creditOf(~0ull), MessageFrame{.released = 1, .length = 1, .kind = FrameKind::credit},
        creditOf(1, FrameKind::message), creditOf(1, static_cast<FrameKind>(9))}) {
    Sending wire;
    for (int i = 0; i < 2; ++i) {
      ASSERT_NE(wire.end.reserve(), nullptr);
      wire.end.publish(0, 0, 0);
    }
    wire.path->kick();
    wire.put(credit);
    EXPECT_EQ(wire.breaks, 1);
    EXPECT_THAT(wire.reason, HasSubstr("credit"));
    EXPECT_TRUE(wire.end.poisoned());
  }
}

TEST(TcpSender, NeverTakesACreditBack) {
  Sending wire;
  for (int i = 0; i < 2; ++i) wire.end.publish(0, 0, 0);
  wire.path->kick();
  wire.put(creditOf(2));
  EXPECT_TRUE(wire.path->drained());
  wire.put(creditOf(1));
  EXPECT_EQ(wire.breaks, 1);
}

TEST(TcpSender, SendsReferencesFromWhereTheyLieAndWantsCreditForThem) {
  Sending wire;
  std::vector<std::byte> bytes(100, std::byte{'q'});
  wire.end.mine = kOwnAddressSpace;
  wire.end.directFrom = 50;
  ASSERT_TRUE(trySend(wire.end, bytes, 5, true));
  wire.path->kick();
  const std::string stream = wire.take();
  ASSERT_EQ(stream.size(), sizeof(MessageFrame) + 100);
  MessageFrame frame;
  std::memcpy(&frame, stream.data(), sizeof frame);
  EXPECT_EQ(frame.flags, kSlotLast | kWantsCredit);
  EXPECT_EQ(frame.length, 100u);
  EXPECT_EQ(stream.substr(sizeof frame), std::string(100, 'q'));
  EXPECT_FALSE(wire.end.getsReleased());  // the kernel has it, the receiver not
  wire.put(creditOf(1));
  EXPECT_TRUE(wire.end.getsReleased());
}

// Credits are read where something waits for them: a full ring, or the user's memory.
TEST(TcpSender, PollReadsCreditsThatAreWaitedFor) {
  Sending wire;
  const MessageFrame credit = creditOf(1);
  wire.end.publish(0, 0, 0);
  wire.path->kick();
  ASSERT_EQ(write(wire.peers[0].get(), &credit, sizeof credit), static_cast<ssize_t>(sizeof credit));
  wire.path->poll();
  EXPECT_FALSE(wire.path->drained());
  for (uint32_t i = 1; i < kShape.slots; ++i) wire.end.publish(0, 0, 0);
  wire.path->kick();
  wire.path->poll();
  EXPECT_EQ(wire.end.control->released, 1u);
  wire.end.publish(0, kSlotGet, 0);
  EXPECT_FALSE(wire.end.getsReleased());
  wire.path->kick();
  const MessageFrame all = creditOf(kShape.slots + 1);
  ASSERT_EQ(write(wire.peers[0].get(), &all, sizeof all), static_cast<ssize_t>(sizeof all));
  wire.path->poll();
  EXPECT_TRUE(wire.end.getsReleased());
}

// After all messages, in any pieces, once; not at all where there is nothing to tell.
TEST(TcpSender, AsksForReleasesAfterItsMessages) {
  for (size_t perCall : {size_t{5}, SIZE_MAX}) {
    Sending wire(perCall);
    wire.path->askForReleases();
    EXPECT_EQ(wire.take(), "");
    for (int i = 0; i < 2; ++i) wire.end.publish(0, 0, 0);
    wire.path->askForReleases();
    std::string stream;
    for (std::string more; !(more = wire.take()).empty();) stream += more;
    ASSERT_EQ(stream.size(), 3 * sizeof(MessageFrame));
    MessageFrame last;
    std::memcpy(&last, stream.data() + 2 * sizeof last, sizeof last);
    EXPECT_EQ(last.kind, FrameKind::ask);
    EXPECT_EQ(last.sequence, 2u);
    wire.put(creditOf(2));
    EXPECT_TRUE(wire.path->drained());
    EXPECT_EQ(wire.take(), "");
    EXPECT_EQ(wire.breaks, 0);
  }
}

// A reference is half sent when the rank fails: nothing of it may be read after poison() returns.
TEST(TcpSender, ReadsNoUserMemoryAfterPoison) {
  Sending wire(50);
  auto* memory =
      static_cast<std::byte*>(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(memory, MAP_FAILED);
  Slot* slot = wire.end.reserve();
  slot->offset = reinterpret_cast<uint64_t>(memory);
  wire.end.publish(200, kSlotGet, 0);
  wire.path->kick();
  wire.path->poison();
  munmap(memory, 4096);
  wire.path->kick();
  wire.path->flush();
  const std::string stream = wire.take();
  EXPECT_EQ(stream.size(), 50u);
  EXPECT_EQ(wire.breaks, 0);
  char byte;
  EXPECT_EQ(read(wire.peers[0].get(), &byte, 1), 0);  // the end of the stream
}

TEST(TcpSender, GivesWayWhileTheSocketIsFull) {
  Sending wire;
  const int small = 1;
  ASSERT_EQ(setsockopt(wire.peers[0].get(), SOL_SOCKET, SO_RCVBUF, &small, sizeof small), 0);
  std::vector<std::byte> bytes(kShape.slotBytes, std::byte{'z'});
  std::string stream;
  for (uint64_t sent = 0, credited = 0; sent < 2000; ++sent) {
    while (!trySend(wire.end, bytes, static_cast<uint32_t>(sent))) {
      stream += wire.take();
      const uint64_t whole = stream.size() / (sizeof(MessageFrame) + bytes.size());
      if (whole > credited) wire.put(creditOf(credited = whole));
    }
    wire.path->kick();
  }
  for (std::string more; !(more = wire.take()).empty();) stream += more;
  ASSERT_EQ(stream.size(), 2000 * (sizeof(MessageFrame) + bytes.size()));
  for (uint64_t k = 0; k < 2000; ++k) {
    MessageFrame frame;
    std::memcpy(&frame, stream.data() + k * (sizeof frame + bytes.size()), sizeof frame);
    ASSERT_EQ(frame.sequence, k);
    ASSERT_EQ(frame.signature, k);
  }
  EXPECT_EQ(wire.breaks, 0);
}

TEST(TcpSender, PoisonInBandIsNotABreak) {
  Sending wire;
  wire.put(creditOf(0, FrameKind::poison));
  wire.peers[0].reset();
  while (wire.reactor.poll(Duration::zero())) {}
  EXPECT_TRUE(wire.end.poisoned());
  EXPECT_EQ(wire.breaks, 0);
}

TEST(TcpSender, HearsThePeersLastWordsBeforeTheBreak) {
  Sending wire;
  const MessageFrame poison = creditOf(0, FrameKind::poison);
  ASSERT_EQ(write(wire.peers[0].get(), &poison, sizeof poison), static_cast<ssize_t>(sizeof poison));
  wire.peers[0].reset();
  wire.end.publish(0, 0, 0);
  wire.path->kick();  // EPIPE
  EXPECT_TRUE(wire.end.poisoned());
  EXPECT_EQ(wire.breaks, 0);
}

}  // namespace
}  // namespace eccl::transport
