// One end of a connection by verbs, whose peer is a bare queue pair of the test.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include "transport/verbs/verbs_devices.h"
#include "transport/verbs/verbs_receiver.h"
#include "transport/verbs/verbs_setup.h"
#include "verbs_emulation/verbs_emulation.h"

namespace eccl::transport::verbs {

inline constexpr RingShape kWireShape{4, 4096};  // so many long messages; short ones:
inline constexpr uint32_t kWireSlots = withShortSlots(kWireShape).slots;
inline constexpr uint64_t kCached = 1 << 20;

/// PathEnd: VerbsSender or VerbsReceiver, RingEndKind likewise.
template <class PathEnd, class RingEndKind>
struct VerbsWire final : QueueUser {
  static constexpr bool kSends = std::is_same_v<PathEnd, VerbsSender>;

  explicit VerbsWire(uint64_t first = 0, size_t queues = 1) {
    verbsEmulationReset();
    EXPECT_TRUE(reactor.open(System::real()).ok());
    context.reactor = &reactor;
    context.system = &System::real();
    context.ring = kWireShape;
    context.firstMessage = first;
    context.zeroCopyFrom = 100;
    FoundDevices found = findDevices(options);
    Port port = found.devices[0].ports[0];
    const Gid gid = *chooseGid(port, options);
    adapter = Adapter::open(std::move(found.devices[0].context), {port}, reactor, "rank 0 (test)").take();
    registrations = std::make_unique<Registrations>(adapter->domain(), kCached, "rank 0 (test)");
    rails.add({adapter.get(), registrations.get(), port});
    rails.order({});
    VerbsEnd made;
    EXPECT_TRUE(made.make(context, rails[0], gid, kSends, queues, options).ok());
    const QueueNeed need{64, 64, 4096, sizeof(VerbsFrame), true};
    for (const auto& queue : made.queues) {
      peers.push_back(QueuePair::make(*adapter, port, gid, need, options, System::real()).take());
      EXPECT_TRUE(peers.back()->connect(queue->address()).ok());
      EXPECT_TRUE(queue->connect(peers.back()->address()).ok());
      peers.back()->start(this);
    }
    peer = peers[0].get();
    memory = std::make_unique<std::byte[]>(kMemory);
    known =
        registerWith(adapter->domain(), memory.get(), kMemory, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)
            .take();
    int pair[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair), 0);
    peerSocket = Fd(pair[1]);
    Stream mine = Fd(pair[0]);
    Opening opening{mine,
                    [this](const Breakage& why) {
                      ++breaks;
                      reason = why.reason;
                    },
                    {}};
    if (!kSends) landing = made.landing();
    context.attach(end, made.memory.get(), made.shape);
    end.directFrom = context.zeroCopyFrom;
    end.mine = kOwnAddressSpace;
    end.mine.reachable = &registrations->reachable(kSends ? MemoryFor::sending : MemoryFor::receiving);
    if constexpr (kSends)
      path = std::make_unique<PathEnd>(made.wire(opening), end, place());
    else
      path = std::make_unique<PathEnd>(made.wire(opening), end);
    EXPECT_TRUE(path->start().ok());
  }
  ~VerbsWire() override {
    path.reset();
    peers.clear();
    known.reset();
    registrations.reset();
    adapter.reset();
    EXPECT_EQ(verbsEmulationReset(), 0) << "objects are left";
  }

  /// Where the sender under test writes.
  LandingPlace place() const {
    return {reinterpret_cast<uintptr_t>(memory.get()), known->rkey, kWireShape.slots, kWireShape.slotBytes};
  }
  /// The peer sends a frame, and bytes behind it.
  void tell(const VerbsFrame& header, uint32_t behind = 0, size_t queue = 0) {
    peers[queue]->send(&header, sizeof header, memory.get(), known->lkey, behind, 0);
    peers[queue]->submit(true);
    look();
  }
  /// The peer writes.
  void write(uint64_t to, uint32_t key, uint32_t length) {
    peer->write(memory.get(), known->lkey, length, to, key);
    peer->submit(true);
    look();
  }
  /// As if a call used memory that is not registered for the second time.
  std::unique_ptr<MemoryUse> use(const MemoryRange& plain, MemoryFor what) const {
    EXPECT_EQ(registrations->use(plain, what), nullptr);
    return registrations->use(plain, what);
  }
  void look() {
    while (adapter->completions().poll()) {}
  }

  void onFrame(const std::byte* bytes, uint32_t length) override {
    VerbsFrame header{};
    std::memcpy(&header, bytes, std::min<size_t>(length, sizeof header));
    heard.push_back(header);
  }
  void onSent(uint64_t) override {}
  void onFailure(const std::string& why) override { failure = why; }

  static constexpr size_t kMemory = 4 * 4096;
  const VerbsOptions options;
  TransportContext context;
  Reactor reactor;
  std::unique_ptr<Adapter> adapter;
  std::unique_ptr<Registrations> registrations;
  Rails rails;
  std::vector<std::unique_ptr<QueuePair>> peers;
  QueuePair* peer = nullptr;            // the first
  std::unique_ptr<std::byte[]> memory;  // the peer's
  MemoryHandle known;
  Fd peerSocket;
  RingEndKind end;
  LandingPlace landing{};  // of a receiver under test
  std::unique_ptr<PathEnd> path;
  int breaks = 0;
  std::string reason, failure;  // of the end under test; of the peer's queue pair
  std::vector<VerbsFrame> heard;
};

}  // namespace eccl::transport::verbs
