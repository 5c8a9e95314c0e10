// Memory that was lent to a peer is the owner's alone when poison() has returned, whatever the peer is doing.
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/mman.h>

#include <csignal>
#include <cstring>

#include "transport/shm/memory_path.h"
#include "transport/shm/shared_heap.h"
#include "transport/traffic.h"

namespace eccl::transport {
namespace {

constexpr size_t kPage = 4096;

/// Pages of this process's heap, and how a peer sees the heap.
struct Lent {
  Lent() {
    SharedHeap& heap = SharedHeap::ofThisProcess();
    memory = static_cast<std::byte*>(heap.allocate(8 * kPage).take());
    window = heap.window();
    peer = mapPeerHeap(heap.fd(), window.size, heap.used()).take();
    offset = window.offsetOf(memory);
  }
  ~Lent() { EXPECT_TRUE(SharedHeap::ofThisProcess().free(memory).ok()); }
  std::byte* peers(size_t at) const { return peer.window.at(offset + at); }
  std::byte* memory;
  Window window;
  PeerHeap peer;
  uint64_t offset;
};

TEST(Revocation, WithdrawnPagesKeepTheirContentAndHearNothingOfPeers) {
  Lent lent;
  std::memset(lent.memory, 7, 8 * kPage);
  // Of two pages in part: whole pages are withdrawn.
  ASSERT_TRUE(SharedHeap::ofThisProcess().withdraw(lent.offset + 2 * kPage + 100, kPage));
  for (size_t page = 0; page < 8; ++page) std::memset(lent.peers(page * kPage), 9, kPage);
  for (size_t page = 0; page < 8; ++page) {
    const bool withdrawn = page == 2 || page == 3;
    EXPECT_EQ(lent.memory[page * kPage], std::byte{static_cast<unsigned char>(withdrawn ? 7 : 9)}) << page;
    EXPECT_EQ(lent.window.holds(lent.offset + page * kPage, kPage), !withdrawn) << page;
  }
  EXPECT_FALSE(lent.window.holds(lent.offset, 8 * kPage));
  lent.memory[2 * kPage] = std::byte{5};
  EXPECT_EQ(*lent.peers(2 * kPage), std::byte{9});
}

TEST(Revocation, WithdrawnPagesAreNotGivenOutAnew) {
  SharedHeap& heap = SharedHeap::ofThisProcess();
  void* const first = heap.allocate(kPage).take();
  ASSERT_TRUE(heap.withdraw(heap.window().offsetOf(static_cast<std::byte*>(first)), kPage));
  ASSERT_TRUE(heap.free(first).ok());
  void* const second = heap.allocate(kPage).take();
  EXPECT_NE(second, first);
  EXPECT_TRUE(heap.window().holds(heap.window().offsetOf(static_cast<std::byte*>(second)), kPage));
  EXPECT_TRUE(heap.free(second).ok());
}

/// A ring whose receiver is this process and has offered `bytes` of its heap; the sender is in the middle of
/// writing there.
struct Interrupted {
  explicit Interrupted(Lent& lent, uint32_t bytes) {
    constexpr RingShape shape{8, 4096};
    memory = mapPrivate(ringMemoryBytes(shape)).take();
    formatRing(memory.get(), shape, 0);
    attachRing(receiver, memory.get(), shape, 0, 1);
    attachRing(sender, memory.get(), shape, 0, 1);
    receiver.directFrom = sender.directFrom = 64;
    receiver.mine = lent.window;
    sender.theirs = lent.peer.window;
    // One message through a slot comes before it and has not been taken yet.
    std::memset(sender.place(32), 1, 32);
    sender.publish(32, 0, 1);
    receiver.offer(1, lent.memory, bytes);
    place = sender.offered(bytes);
    EXPECT_NE(place, nullptr);
    EXPECT_TRUE(sender.beginWriting());
    path = std::make_unique<MemoryPath>(MemoryPath::Between::processes, memory, PeerHeap(), nullptr, &receiver,
                                        std::make_shared<Fd>(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)));
  }
  RingMemory memory;
  ReceiveEnd receiver;
  SendEnd sender;
  std::byte* place;
  std::unique_ptr<MemoryPath> path;
};

// Stopped, dead or throttled: it does not come back in time.
TEST(Revocation, PoisonTakesAnOfferFromAWriterThatDoesNotStop) {
  Lent lent;
  Interrupted ring(lent, 2 * kPage);
  std::memset(lent.memory, 7, 8 * kPage);
  const TimePoint begun = System::real().now();
  ring.path->poison();
  EXPECT_LT(System::real().now() - begun, std::chrono::milliseconds(800));
  std::memset(ring.place, 9, 2 * kPage);  // it goes on
  EXPECT_EQ(lent.memory[0], std::byte{7});
  EXPECT_EQ(lent.memory[2 * kPage - 1], std::byte{7});
  *lent.peers(2 * kPage) = std::byte{9};  // the rest is shared as before
  EXPECT_EQ(lent.memory[2 * kPage], std::byte{9});
}

// An executor that runs ahead writes several messages at once. Places that it has not begun to use stay.
TEST(Revocation, PoisonTakesTheGrantOfEveryMoveUnderWay) {
  Lent lent;
  Interrupted ring(lent, kPage);
  ring.receiver.offer(2, lent.memory + 2 * kPage, kPage);
  ring.receiver.offer(3, lent.memory + 4 * kPage, kPage);
  ASSERT_TRUE(ring.sender.beginWriting());
  std::memset(lent.memory, 7, 8 * kPage);
  ring.path->poison();
  for (size_t page : {0, 2, 4}) *lent.peers(page * kPage) = std::byte{9};
  EXPECT_EQ(lent.memory[0], std::byte{7});
  EXPECT_EQ(lent.memory[2 * kPage], std::byte{7});
  EXPECT_EQ(lent.memory[4 * kPage], std::byte{9});
}

// Who comes back in time costs nothing.
TEST(Revocation, PoisonWaitsForAWriterThatStops) {
  Lent lent;
  Interrupted ring(lent, kPage);
  std::thread writer([&] {
    timespec rest{0, 20'000'000};
    nanosleep(&rest, nullptr);
    std::memset(ring.place, 9, kPage);
    ring.sender.endWriting();
  });
  ring.path->poison();
  EXPECT_EQ(lent.memory[kPage - 1], std::byte{9});
  writer.join();
  EXPECT_TRUE(lent.window.holds(lent.offset, kPage));
}

TEST(Revocation, WhoIsRefusedIsNotWaitedFor) {
  Lent lent;
  Interrupted ring(lent, kPage);
  ring.sender.endWriting();
  storeRelease(&ring.receiver.control->receiverPoison, 1u);
  EXPECT_FALSE(ring.sender.beginWriting());
  EXPECT_EQ(ring.sender.control->writing, 0u);
  storeRelease(&ring.receiver.control->senderPoison, 1u);
  EXPECT_FALSE(ring.receiver.beginReading());
  EXPECT_EQ(ring.receiver.control->reading, 0u);
}

// What is read while the sender takes it back may be anything.
TEST(Revocation, AReaderFindsThatTheMemoryWasTakenBackMeanwhile) {
  Lent lent;
  Interrupted ring(lent, kPage);
  ASSERT_TRUE(ring.receiver.beginReading());
  EXPECT_TRUE(ring.receiver.endReading());
  ASSERT_TRUE(ring.receiver.beginReading());
  storeRelease(&ring.receiver.control->senderPoison, 1u);
  EXPECT_FALSE(ring.receiver.endReading());
  EXPECT_EQ(ring.receiver.control->reading, 0u);
  ring.sender.endWriting();
}

// The same between processes: the writer is stopped in the middle of its copy, and goes on afterwards.
TEST(Revocation, HoldsAgainstAProcessThatIsStopped) {
  Lent lent;
  Interrupted ring(lent, 4 * kPage);
  std::memset(lent.memory, 7, 8 * kPage);
  const pid_t writer = fork();
  ASSERT_GE(writer, 0);
  if (writer == 0) {
    // The mapping of a peer's heap is shared with the child, as the peer's own is; this process's heap, too.
    std::memset(ring.place, 9, kPage);
    raise(SIGSTOP);
    std::memset(ring.place, 9, 4 * kPage);
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(writer, &status, WUNTRACED), writer);
  ASSERT_TRUE(WIFSTOPPED(status));
  ring.path->poison();
  std::memset(lent.memory, 5, 8 * kPage);
  ASSERT_EQ(kill(writer, SIGCONT), 0);
  ASSERT_EQ(waitpid(writer, &status, 0), writer);
  EXPECT_TRUE(WIFEXITED(status));
  for (size_t at = 0; at < 4 * kPage; ++at) ASSERT_EQ(lent.memory[at], std::byte{5}) << at;
}

}  // namespace
}  // namespace eccl::transport
