// Memory for rings: what is created, what is accepted, what is left behind.
#include <dirent.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cerrno>
#include <set>
#include <string>

#include "support/descriptors.h"
#include "transport/connect/thread_listener.h"
#include "transport/core/ring_memory.h"
#include "transport/shm/memory_path.h"
#include "transport/ways.h"

namespace eccl::transport {
namespace {

TEST(RingMemory, PrivateMemoryIsZeroAndAligned) {
  Result<RingMemory> memory = mapPrivate(100'000);
  ASSERT_TRUE(memory.ok());
  auto* bytes = static_cast<unsigned char*>(memory->get());
  EXPECT_EQ(reinterpret_cast<uintptr_t>(bytes) % 4096, 0u);
  for (size_t i = 0; i < 100'000; ++i) ASSERT_EQ(bytes[i], 0);
}

TEST(RingMemory, WhatOneMappingWritesTheOtherReads) {
  Result<SharedMemory> shared = createShared("eccl-test", 10'000);
  ASSERT_TRUE(shared.ok()) << shared.status().message();
  Result<RingMemory> other = mapShared(shared->fd.get(), 10'000);
  ASSERT_TRUE(other.ok()) << other.status().message();
  EXPECT_NE(shared->memory.get(), other->get());
  static_cast<char*>(shared->memory.get())[9'999] = 'x';
  EXPECT_EQ(static_cast<char*>(other->get())[9'999], 'x');
  shared->memory.reset();
  shared->fd.reset();
  EXPECT_EQ(static_cast<char*>(other->get())[9'999], 'x');
}

TEST(RingMemory, SharedMemoryCanNeitherShrinkNorGrowNorLoseItsSeals) {
  Result<SharedMemory> shared = createShared("eccl-test", 10'000);
  ASSERT_TRUE(shared.ok());
  EXPECT_EQ(ftruncate(shared->fd.get(), 0), -1);
  EXPECT_EQ(errno, EPERM);
  EXPECT_EQ(ftruncate(shared->fd.get(), 20'000), -1);
  EXPECT_EQ(fcntl(shared->fd.get(), F_ADD_SEALS, F_SEAL_WRITE), -1);
  EXPECT_NE(fcntl(shared->fd.get(), F_GETFD) & FD_CLOEXEC, 0);
}

TEST(RingMemory, RefusesWhatCouldShrinkOrHasAnotherSize) {
  Fd unsealed(memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(unsealed.get(), 10'000), 0);
  EXPECT_FALSE(mapShared(unsealed.get(), 10'000).ok());
  ASSERT_EQ(fcntl(unsealed.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
  EXPECT_FALSE(mapShared(unsealed.get(), 10'000).ok()) << "its seals may still change";
  Result<SharedMemory> shared = createShared("eccl-test", 10'000);
  ASSERT_TRUE(shared.ok());
  EXPECT_FALSE(mapShared(shared->fd.get(), 9'999).ok());
  EXPECT_FALSE(mapShared(shared->fd.get(), 10'001).ok());
  Fd file(open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  EXPECT_FALSE(mapShared(file.get(), 10'000).ok());
  EXPECT_FALSE(mapShared(-1, 10'000).ok());
}

TEST(ThreadListener, IsFoundByItsIdentityWhileItIsThere) {
  using State = ThreadCall::State;
  Reactor sender, receiver;
  ASSERT_TRUE(sender.open(System::real()).ok() && receiver.open(System::real()).ok());
  const Identity identity = randomIdentity(System::real());
  const auto offered = [&] {
    auto offer = std::make_shared<ThreadCall>();
    offer->senderBell = sender.sharedDoorbell();
    return offer;
  };
  const auto first = offered(), second = offered(), third = offered();
  EXPECT_FALSE(ThreadListener::call(identity, first));
  EXPECT_FALSE(ThreadListener::hears(identity));
  {
    ThreadListener listener(identity, receiver.sharedDoorbell());
    EXPECT_FALSE(listener.hasCalls());
    EXPECT_TRUE(ThreadListener::hears(identity));
    EXPECT_FALSE(ThreadListener::call(randomIdentity(System::real()), first));
    EXPECT_FALSE(ThreadListener::call({}, first));
    EXPECT_FALSE(receiver.poll(Duration::zero()));
    std::thread([&] { EXPECT_TRUE(ThreadListener::call(identity, first)); }).join();
    EXPECT_TRUE(receiver.poll(Duration::zero()));  // rung
    EXPECT_TRUE(listener.hasCalls());
    EXPECT_EQ(listener.take(), std::vector{first});
    EXPECT_FALSE(listener.hasCalls());
    EXPECT_FALSE(sender.poll(Duration::zero()));
    EXPECT_TRUE(first->reply(State::accepted));
    EXPECT_TRUE(sender.poll(Duration::zero()));
    EXPECT_FALSE(first->withdraw());  // too late
    EXPECT_TRUE(ThreadListener::call(identity, second));
    EXPECT_TRUE(second->withdraw());
    EXPECT_FALSE(second->reply(State::accepted));
    EXPECT_TRUE(ThreadListener::call(identity, third));
  }
  EXPECT_EQ(first->state(), State::accepted);
  EXPECT_EQ(second->state(), State::withdrawn);
  EXPECT_EQ(third->state(), State::gone);
  EXPECT_FALSE(ThreadListener::call(identity, offered()));
}

std::set<std::string> entriesOf(const char* folder) {
  std::set<std::string> names;
  DIR* open = opendir(folder);
  while (dirent* entry = open != nullptr ? readdir(open) : nullptr) names.insert(entry->d_name);
  if (open != nullptr) closedir(open);
  return names;
}

TEST(SharedMemory, HasNoNameAndLeavesNothing) {
  const std::set<std::string> before = entriesOf("/dev/shm");
  SharedHeap::ofThisProcess().window();  // one descriptor for the life of the process
  const size_t descriptors = test::openDescriptors();
  PartySetup setup;
  setup.transports = {"shm"};
  runTwo(
      setup, false,
      [&](Party& party) -> std::string {
        Connection* connection = party.connect(party.sending());
        for (const std::string& name : entriesOf("/dev/shm"))
          PARTY_CHECK(name.find("eccl") == std::string::npos);
        return sendAll(party, *connection, 10);
      },
      [](Party& party) -> std::string {
        Connection* connection = party.connect(party.receiving());
        return receiveAll(party, *connection, 10);
      });
  for (const std::string& name : entriesOf("/dev/shm")) EXPECT_NE(before.count(name), 0u) << name;
  EXPECT_EQ(test::openDescriptors(), descriptors);
}

// Ten connections to one peer need no more descriptors than one: the doorbell and the watch are shared.
TEST(SharedMemory, ConnectionsOfOnePeerShareTheirDescriptors) {
  PartySetup setup;
  setup.transports = {"shm"};
  runTwo(
      setup, true,
      [](Party& party) -> std::string {
        PARTY_CHECK(party.connect(party.sending(0))->state() == Connection::State::ready);
        const size_t one = test::openDescriptors();
        for (int16_t tag = 1; tag < 10; ++tag)
          PARTY_CHECK(party.connect(party.sending(tag))->state() == Connection::State::ready);
        PARTY_CHECK(test::openDescriptors() == one);
        party.signal();
        return "";
      },
      [](Party& party) -> std::string {
        for (int16_t tag = 0; tag < 10; ++tag)
          PARTY_CHECK(party.connect(party.receiving(tag))->state() == Connection::State::ready);
        PARTY_CHECK(party.await());
        return "";
      });
}

// The first connection has all of what messages may be spread over, the next a half, then a third.
TEST(SharedMemory, ConnectionsShareWhatMessagesAreSpreadOver) {
  PartySetup setup;
  setup.transports = {"shm"};
  setup.slotSpread = 24'000;
  runTwo(
      setup, true,
      [&](Party& party) -> std::string {
        for (int16_t tag = 0; tag < 3; ++tag) {
          CONNECT(connection, party.sending(tag));
          PARTY_CHECK(connection->sendEnd.places.spread ==
                      setup.slotSpread / static_cast<uint64_t>(tag + 1) / kCacheLine);
          for (uint64_t page = 0; page < setup.slotSpread / (tag + 1u); page += 4096)
            PARTY_CHECK(connection->sendEnd.data[page] == std::byte{0});
        }
        party.connector->setRings(setup.ring, setup.directFrom, UINT64_MAX);
        CONNECT(fourth, party.sending(3));
        PARTY_CHECK(fourth->sendEnd.places.spread == kMostSlotSpread / 4 / kCacheLine);
        party.signal();
        return sendAll(party, *fourth, 10);
      },
      [](Party& party) -> std::string {
        for (int16_t tag = 0; tag < 3; ++tag)
          PARTY_CHECK(party.connect(party.receiving(tag))->state() == Connection::State::ready);
        CONNECT(fourth, party.receiving(3));
        PARTY_CHECK(party.await());
        return receiveAll(party, *fourth, 10);
      });
}

// An answer goes where the message came, and not to what another tag has. Short ones stay behind their headers.
TEST(SharedMemory, PathsToAndFromAPeerExchangeAreas) {
  constexpr uint32_t kLengths[] = {4000, 257, 256, 64};
  const auto isExchanged = [](uint32_t bytes) { return bytes > 256; };
  const auto send = [](Party& party, SendEnd& end, uint32_t bytes) -> std::byte* {
    if (!party.until([&] { return end.reserve(bytes) != nullptr; })) return nullptr;
    std::byte* const place = end.place(bytes);
    std::memset(place, 7, bytes);
    end.publish(bytes, kSlotLast, 1);
    return place;
  };
  const auto receive = [](Party& party, ReceiveEnd& end, uint32_t bytes) -> const std::byte* {
    Received received{};
    if (!party.until([&] { return end.peek(received); }) || received.length != bytes ||
        received.data[bytes - 1] != std::byte{7})
      return nullptr;
    end.release();
    return received.data;
  };
  for (const char* transport : {"shm", "thread"}) {
    PartySetup setup;
    setup.transports = {transport};
    runTwo(
        setup, setup.allows("shm"),
        [&](Party& party) -> std::string {
          CONNECT(out, party.sending(0));
          CONNECT(in, party.receiving(0));
          CONNECT(other, party.sending(1));
          PARTY_CHECK(out->sendEnd.exchange != nullptr);
          PARTY_CHECK(out->sendEnd.exchange == in->receiveEnd.exchange);
          PARTY_CHECK(out->sendEnd.exchange != other->sendEnd.exchange);
          for (int i = 0; i < 20; ++i) {
            for (const uint32_t bytes : kLengths) {
              const std::byte* const sent = send(party, out->sendEnd, bytes);
              const std::byte* const received = receive(party, in->receiveEnd, bytes);
              PARTY_CHECK(sent != nullptr && received != nullptr);
              PARTY_CHECK((sent == received) == isExchanged(bytes));
            }
          }
          party.signal();
          PARTY_CHECK(party.await());
          return "";
        },
        [&](Party& party) -> std::string {
          CONNECT(in, party.receiving(0));
          CONNECT(out, party.sending(0));
          CONNECT(other, party.receiving(1));
          PARTY_CHECK(in->receiveEnd.exchange != other->receiveEnd.exchange);
          for (int i = 0; i < 20; ++i) {
            for (const uint32_t bytes : kLengths) {
              const std::byte* const received = receive(party, in->receiveEnd, bytes);
              const std::byte* const sent = send(party, out->sendEnd, bytes);
              PARTY_CHECK(sent != nullptr && received != nullptr);
              PARTY_CHECK((sent == received) == isExchanged(bytes));
            }
          }
          party.signal();
          PARTY_CHECK(party.await());
          return "";
        });
  }
}

// What is allocated after the connection stands, beyond what the peer has mapped: by slots at first, then in
// place.
TEST(SharedMemory, MemoryAllocatedLaterIsShownToo) {
  constexpr size_t kFar = size_t{150} << 20, kBytes = 4096;
  const std::byte mark{42};
  PartySetup setup;
  setup.transports = {"shm"};
  // The sender is the process that is forked, whose heap is new.
  runTwo(
      setup, true,
      [&](Party& party) -> std::string {
        CONNECT(connection, party.receiving());
        ReceiveEnd& end = connection->receiveEnd;
        for (int i = 0; i < 3; ++i) {
          if (std::string wrong = receiveAll(party, *connection, 10); !wrong.empty()) return wrong;
          party.signal();
          PARTY_CHECK(party.await());
        }
        Received received{};
        PARTY_CHECK(party.until([&] { return end.peek(received); }));
        PARTY_CHECK((received.flags & kSlotGet) != 0 && end.theirs.holds(received.offset, received.length));
        PARTY_CHECK(*end.theirs.at(received.offset) == mark);
        end.release();
        party.signal();
        PARTY_CHECK(party.await());
        return "";
      },
      [&](Party& party) -> std::string {
        CONNECT(connection, party.sending());
        SendEnd& end = connection->sendEnd;
        Result<void*> given = SharedHeap::ofThisProcess().allocate(kFar + kBytes);
        PARTY_CHECK(given.ok());
        std::byte* const far = static_cast<std::byte*>(*given) + kFar;
        *far = mark;
        uint64_t offset = 0;
        PARTY_CHECK(!end.reaches(far, kBytes, &offset));
        for (int i = 0; i < 3; ++i) {
          if (std::string wrong = sendAll(party, *connection, 10); !wrong.empty()) return wrong;
          party.signal();  // it has received and released them
          PARTY_CHECK(party.await());
        }
        PARTY_CHECK(end.reaches(far, kBytes, &offset));
        Slot* slot = nullptr;
        PARTY_CHECK(party.until([&] { return (slot = end.reserve()) != nullptr; }));
        slot->offset = offset;
        end.publish(kBytes, kSlotGet, 1);
        party.signal();
        PARTY_CHECK(party.await());
        return SharedHeap::ofThisProcess().free(*given).message();
      });
}

// ECCL_P2P_DISABLE: neither side has anything of the other's.
TEST(SharedMemory, NobodysMemoryIsShownWhereThatIsForbidden) {
  for (bool thread : {false, true}) {
    PartySetup setup;
    setup.transports = {"shm"};
    if (thread) setup.transports.push_back("thread");
    setup.direct = false;
    const auto shown = [](const RingEnd& end) { return end.mine.size > 0 || end.theirs.size > 0; };
    runTwo(
        setup, false,
        [&](Party& party) -> std::string {
          PARTY_CHECK(!shown(party.connect(party.sending())->sendEnd));
          party.signal();
          PARTY_CHECK(party.await());
          return "";
        },
        [&](Party& party) -> std::string {
          PARTY_CHECK(!shown(party.connect(party.receiving())->receiveEnd));
          party.signal();
          PARTY_CHECK(party.await());
          return "";
        });
  }
}

// The path alone: who is rung, and how often.
struct Ends {
  Ends() {
    const RingShape shape{8, 64};
    memory = mapPrivate(ringMemoryBytes(shape)).take();
    formatRing(memory.get(), shape, 0);
    attachRing(send, memory.get(), shape, 0, 0);
    attachRing(receive, memory.get(), shape, 0, 0);
    EXPECT_TRUE(senders.open(System::real()).ok());
    EXPECT_TRUE(receivers.open(System::real()).ok());
    out = std::make_unique<MemoryPath>(MemoryPath::Between::processes, memory, PeerHeap(), &send, nullptr,
                                       std::make_shared<Fd>(dup(receivers.doorbell())));
    in = std::make_unique<MemoryPath>(MemoryPath::Between::processes, memory, PeerHeap(), nullptr, &receive,
                                      std::make_shared<Fd>(dup(senders.doorbell())));
  }
  RingMemory memory;
  SendEnd send;
  ReceiveEnd receive;
  Reactor senders, receivers;
  std::unique_ptr<MemoryPath> out, in;
};

TEST(MemoryPath, RingsOnlyThoseWhoSleepAndOncePerSleep) {
  Ends ends;
  ends.send.publish(0, 0, 0);
  ends.out->kick();
  EXPECT_FALSE(ends.receivers.poll(Duration::zero()));  // awake
  ends.in->beforeSleep();
  ends.out->kick();
  // Nothing new; the sleeper looked after raising its flag.
  EXPECT_FALSE(ends.receivers.poll(Duration::zero()));
  ends.send.publish(0, 0, 0);
  ends.out->kick();
  EXPECT_TRUE(ends.receivers.poll(Duration::zero()));
  ends.send.publish(0, 0, 0);
  ends.out->kick();
  EXPECT_FALSE(ends.receivers.poll(Duration::zero()));
  ends.in->beforeSleep();
  ends.in->afterSleep();
  ends.send.publish(0, 0, 0);
  ends.out->kick();
  EXPECT_FALSE(ends.receivers.poll(Duration::zero()));
  ends.out->beforeSleep();
  ends.receive.release();
  ends.in->kick();
  EXPECT_TRUE(ends.senders.poll(Duration::zero()));
  EXPECT_FALSE(ends.out->drained());
  EXPECT_TRUE(ends.in->drained());
  for (int i = 0; i < 3; ++i) ends.receive.release();
  EXPECT_TRUE(ends.out->drained());
}

TEST(MemoryPath, KnowsWhereTheOtherSideWaitedLast) {
  Ends ends;
  EXPECT_FALSE(ends.out->waitsOn(3));  // nobody has told
  EXPECT_FALSE(ends.in->waitsOn(4));
  EXPECT_TRUE(ends.in->waitsOn(3));
  EXPECT_TRUE(ends.out->waitsOn(3));
  EXPECT_FALSE(ends.out->waitsOn(5));
  EXPECT_FALSE(ends.in->waitsOn(3));
}

// Memory that is given back is zero when it is touched again. Of a rank that has only received, too.
TEST(MemoryPath, GivesBackTheAreasThatItOwns) {
  constexpr RingShape kShape{8, 8192, 0, 512, 4, 0, 0, true};
  constexpr uint32_t kEach = ExchangeAreas::kEach;
  RingMemory memory[2];
  for (RingMemory& each : memory) {
    each = mapPrivate(ringMemoryBytes(kShape)).take();
    formatRing(each.get(), kShape, 0);
    std::memset(static_cast<std::byte*>(each.get()) + kShape.exchangeAt(), 1, kEach * kShape.areaStride());
  }
  SendEnd send;
  ReceiveEnd receive;
  attachRing(send, memory[0].get(), kShape, 0, 0);
  attachRing(receive, memory[1].get(), kShape, 0, 0);
  const auto exchange = std::make_shared<Exchange>();
  const auto bell = std::make_shared<Fd>();
  {
    MemoryPath out(MemoryPath::Between::threads, memory[0], PeerHeap(), &send, nullptr, bell);
    MemoryPath in(MemoryPath::Between::threads, memory[1], PeerHeap(), nullptr, &receive, bell);
    out.exchange(exchange);
    in.exchange(exchange);
    EXPECT_EQ(send.exchange, &exchange->areas);
    EXPECT_EQ(receive.exchange, &exchange->areas);
    const uint32_t given = exchange->areas.give(), taken = kEach + 1;
    exchange->areas.take(taken);
    in.giveBack();
    for (uint32_t area = 0; area < ExchangeAreas::kAll; ++area) {
      const bool own = area < kEach ? area != given : area == taken;
      EXPECT_EQ(*exchange->areas.at(area), std::byte(!own)) << area;
    }
  }
  EXPECT_EQ(send.exchange, nullptr);
  EXPECT_EQ(receive.exchange, nullptr);
}

// Rings without areas, as those of tests: no header makes a side look for some.
TEST(MemoryPath, ExchangesNothingWhereThereIsNothing) {
  Ends ends;
  ends.out->exchange(std::make_shared<Exchange>());
  EXPECT_EQ(ends.send.exchange, nullptr);
}

TEST(MemoryPath, PoisonRingsAwakeOrNot) {
  Ends ends;
  ends.out->poison();
  EXPECT_TRUE(ends.receive.poisoned());
  EXPECT_TRUE(ends.receivers.poll(Duration::zero()));
  ends.out->poison();
  EXPECT_FALSE(ends.receivers.poll(Duration::zero()));
  ends.in.reset();  // going away is the same
  EXPECT_TRUE(ends.send.poisoned());
  EXPECT_TRUE(ends.senders.poll(Duration::zero()));
}

// One that died in the middle of a message, where this process has no heap of its own either: the wait ends.
TEST(MemoryPath, PoisonDoesNotWaitLongForAnotherProcess) {
  Ends ends;
  ASSERT_EQ(ends.send.mine.size, 0u);
  ends.send.publish(1000, kSlotGet, 0);
  storeRelease(&ends.send.control->reading, 1u);
  const TimePoint begun = System::real().now();
  std::atomic<bool> over = false;
  std::thread limit([&] {  // so that a failure is no hang
    while (System::real().now() - begun < std::chrono::seconds(5) && !over)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    storeRelease(&ends.send.control->reading, 0u);
  });
  ends.out->poison();
  EXPECT_LT(System::real().now() - begun, std::chrono::seconds(4));
  over = true;
  limit.join();
}

TEST(MemoryPath, AForkedCopyTouchesNothing) {
  Ends ends;
  ends.out->closeAfterFork();
  ends.send.publish(0, 0, 0);
  ends.in->beforeSleep();
  ends.out->kick();
  ends.out.reset();
  EXPECT_FALSE(ends.receive.poisoned());
  EXPECT_FALSE(ends.receivers.poll(Duration::zero()));
}

}  // namespace
}  // namespace eccl::transport
