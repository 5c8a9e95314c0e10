// What the relay of another rank says, and what kernels here do meanwhile. Each step is a byte: 0, a kernel
// releases what has come; 1, a kernel sends a short message; 2, one sends a long one; 3, this side ends; 4,
// data of a slot comes, in units of 512 bytes as the next byte says; 5, likewise, but where it was to be
// written; else a message of so many bytes, which follow. Whatever it is, it is done or refused, and nothing is
// written beside the rings.
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string_view>

#include "runtime/cuda/relay_link.h"

using namespace eccl;
using namespace eccl::runtime::cuda;

namespace {

constexpr RingShape kShape{8, 4096}, kSlotsShape{8, lanes::kSlotBytes};
constexpr uint32_t kOfRelays = 0x72656c61, kOfSlots = 0x736c6f74;  // the signatures of their messages

struct NoPath final : transport::Path {
  const char* name() const override { return "none"; }
  void kick() override {}
  bool grants() const override { return true; }
  bool awaitsGrant(uint64_t) const override { return awaits; }
  bool awaits = false;
  bool drained() const override { return true; }
  void endReceiving() override {}
  void poison() override {}
  void closeAfterFork() override {}
};

struct MemoryOfDevices final : Reachable {
  bool holds(uint64_t, uint64_t) const override { return all; }
  bool all = true;
};

/// A ring of a connection, whose ends are both here.
struct Wire {
  Wire(const RingShape& shape, const Reachable* reachable)
      : bytes((shape.bytes() + kCacheLine - 1) / kCacheLine * kCacheLine),
        memory(static_cast<std::byte*>(std::aligned_alloc(kCacheLine, bytes))) {
    std::memset(memory, 0, bytes);
    formatRing(memory, shape, 0);
    attachRing(sender, memory, shape, 0, 0);
    attachRing(static_cast<RingEnd&>(receiver), memory, shape, 0, 0);
    for (RingEnd* end : {static_cast<RingEnd*>(&sender), static_cast<RingEnd*>(&receiver)}) {
      end->directFrom = 0;
      end->mine = kOwnAddressSpace;
      end->mine.reachable = reachable;
    }
  }
  ~Wire() { std::free(memory); }
  const size_t bytes;
  std::byte* const memory;
  SendEnd sender;
  ReceiveEnd receiver;
};

/// A strip of a ring between kernels.
struct Rings2 {
  std::unique_ptr<lanes::AtReceiver> receiver = std::make_unique<lanes::AtReceiver>();
  std::unique_ptr<lanes::AtSender> sender = std::make_unique<lanes::AtSender>();
  std::vector<std::byte> slots = std::vector<std::byte>(lanes::kSlots * size_t{lanes::kSlotBytes});
  uint64_t next = lanes::kFirstMessage;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view bytes(reinterpret_cast<const char*>(data), size);
  MemoryOfDevices memory;
  Wire out(kShape, nullptr), in(kShape, nullptr), slotsOut(kSlotsShape, &memory), slotsIn(kSlotsShape, &memory);
  transport::Connection to({0, 1, 0, transport::kRelayTag}, 0), from({1, 0, 0, transport::kRelayTag}, 0),
      slotsTo({0, 1, 0, transport::kRelayedSlotsTag}, 0), slotsFrom({1, 0, 0, transport::kRelayedSlotsTag}, 0);
  to.sendEnd = out.sender;
  from.receiveEnd = in.receiver;
  slotsTo.sendEnd = slotsOut.sender;
  slotsFrom.receiveEnd = slotsIn.receiver;
  NoPath* sending = nullptr;
  for (transport::Connection* each : {&to, &from, &slotsFrom, &slotsTo}) {
    auto path = std::make_unique<NoPath>();
    sending = path.get();
    each->becomeReady(std::move(path));
  }
  runtime::Meeting meeting;
  meeting.describe = [](int) { return std::string("rank 1"); };
  RelayLink link(0, 1, to, from, slotsTo, slotsFrom, [](auto&&...) { return true; });
  Rings2 sent, received;
  const auto add = [&](const RingId& id, Rings2& ring) {
    RelayStrip strip;
    strip.receiver = ring.receiver.get();
    strip.sender = ring.sender.get();
    link.add(id, strip);
  };
  add({0, 1, 2, 3}, sent);
  add({1, 0, 2, 3}, received);
  const auto grantWishes = [&] {
    for (const RelayLink::Wish& wish : link.takeWishes()) {
      std::byte* const slots = (std::get<0>(wish.id) == 0 ? sent : received).slots.data();
      const bool any = wish.place != SlotsPlace::nowhere;
      link.setApart(wish.id, wish.strip, wish.place, any ? std::make_shared<SlotsApart>() : nullptr, slots,
                    addressOf(slots));
    }
  };
  if (!link.advance(false, false, meeting).ok()) std::abort();
  grantWishes();
  while (!bytes.empty()) {
    const auto step = static_cast<uint8_t>(bytes[0]);
    bytes.remove_prefix(1);
    const bool room = sent.next - std::max(sent.sender->released, lanes::kFirstMessage) < lanes::kSlots;
    const uint32_t slot = sent.next % lanes::kSlots;
    if (step == 0) {
      storeRelease(&received.sender->released, received.next);
      for (const uint32_t s : {0u, 1u, 2u, 3u})
        received.next = std::max(received.next, received.receiver->headers[s].sequence);
    } else if (step == 1 && room) {
      lanes::storeLine(&sent.receiver->lines[slot][1], 7, 8, lanes::flagOf(sent.next));
      lanes::storeLine(&sent.receiver->lines[slot][0], 5, 8, lanes::flagOf(sent.next));
      ++sent.next;
    } else if (step == 2 && room) {
      sent.receiver->headers[slot].length = lanes::kSlotBytes;
      sent.receiver->headers[slot].reference = sent.sender->slotsAt != 0 ? lanes::kPlaced : 0;
      storeRelease(&sent.receiver->headers[slot].sequence, ++sent.next);
    } else if (step == 6) {
      sending->awaits = !sending->awaits;
    } else if (step == 7) {
      memory.all = !memory.all;
    } else if ((step == 4 || step == 5) && !bytes.empty() && slotsIn.sender.reserve() != nullptr) {
      const uint32_t length = std::min(uint32_t{static_cast<uint8_t>(bytes[0])} << 10, lanes::kSlotBytes);
      bytes.remove_prefix(1);
      std::memset(slotsIn.sender.place(length), 'x', length);
      slotsIn.sender.publish(length, step == 5 ? kSlotLast | kSlotPut : kSlotLast, kOfSlots);
    } else if (const std::string_view message = bytes.substr(0, step); in.sender.reserve() != nullptr) {
      std::memcpy(in.sender.place(static_cast<uint32_t>(message.size())), message.data(), message.size());
      in.sender.publish(static_cast<uint32_t>(message.size()), kSlotLast, kOfRelays);
      bytes.remove_prefix(message.size());
    }
    const auto moved = link.advance(step == 3, false, meeting);
    // What a device got at, and does no more, is this side's mistake.
    if (!moved.ok() && moved.status().code() != eccl::Code::remote &&
        (memory.all || moved.status().message().find("between rank 0 and rank 1") == std::string::npos))
      std::abort();
    if (!moved.ok()) return 0;
    grantWishes();
    for (const lanes::Header& header : received.receiver->headers)
      if (header.reference != 0 && header.reference - addressOf(received.slots.data()) >= received.slots.size())
        std::abort();
    for (ReceiveEnd* end : {&out.receiver, &slotsOut.receiver})
      for (Received message; end->peek(message);) end->release();
  }
  return 0;
}
