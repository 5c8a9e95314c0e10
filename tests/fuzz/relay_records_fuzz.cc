// What the relay of another rank says, and what kernels here do meanwhile. Each step is a byte: 0, a kernel
// releases what has come; 1, a kernel sends a short message; 2, one sends a long one; 3, this side ends; else a
// message of so many bytes, which follow. Whatever it is, it is done or refused, and nothing is written beside
// the rings.
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string_view>

#include "runtime/cuda/relay_link.h"

using namespace eccl;
using namespace eccl::runtime::cuda;

namespace {

constexpr RingShape kShape{8, 4096};
constexpr uint32_t kOfRelays = 0x72656c61;  // the signature of their messages

struct NoPath final : transport::Path {
  const char* name() const override { return "none"; }
  void kick() override {}
  bool drained() const override { return true; }
  void endReceiving() override {}
  void poison() override {}
  void closeAfterFork() override {}
};

/// A ring of a connection, whose ends are both here.
struct Wire {
  Wire() : memory(static_cast<std::byte*>(std::aligned_alloc(kCacheLine, bytes()))) {
    std::memset(memory, 0, bytes());
    formatRing(memory, kShape, 0);
    attachRing(sender, memory, kShape, 0, 0);
    attachRing(static_cast<RingEnd&>(receiver), memory, kShape, 0, 0);
  }
  ~Wire() { std::free(memory); }
  static size_t bytes() { return (kShape.bytes() + kCacheLine - 1) / kCacheLine * kCacheLine; }
  std::byte* memory;
  SendEnd sender;
  ReceiveEnd receiver;
};

/// A strip of a ring between kernels.
struct Rings2 {
  std::unique_ptr<lanes::AtReceiver> receiver = std::make_unique<lanes::AtReceiver>();
  std::unique_ptr<lanes::AtSender> sender = std::make_unique<lanes::AtSender>();
  uint64_t next = lanes::kFirstMessage;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view bytes(reinterpret_cast<const char*>(data), size);
  Wire out, in;
  transport::Connection to({0, 1, 0, transport::kRelayTag}, 0), from({1, 0, 0, transport::kRelayTag}, 0);
  to.sendEnd = out.sender;
  from.receiveEnd = in.receiver;
  to.becomeReady(std::make_unique<NoPath>());
  from.becomeReady(std::make_unique<NoPath>());
  runtime::Meeting meeting;
  meeting.describe = [](int) { return std::string("rank 1"); };
  RelayLink link(0, 1, to, from, [](std::span<std::byte>) {});
  Rings2 sent, received;
  link.add({0, 1, 2, 3}, sent.receiver.get(), sent.sender.get(), {});
  link.add({1, 0, 2, 3}, received.receiver.get(), received.sender.get(), {});
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
      storeRelease(&sent.receiver->headers[slot].sequence, ++sent.next);
    } else if (const std::string_view message = bytes.substr(0, step); in.sender.reserve() != nullptr) {
      std::memcpy(in.sender.place(static_cast<uint32_t>(message.size())), message.data(), message.size());
      in.sender.publish(static_cast<uint32_t>(message.size()), kSlotLast, kOfRelays);
      bytes.remove_prefix(message.size());
    }
    const auto moved = link.advance(step == 3, false, meeting);
    if (!moved.ok() && moved.status().code() != eccl::Code::remote) std::abort();
    if (!moved.ok()) return 0;
    Received message;
    out.receiver.epoch = 0;
    while (out.receiver.peek(message)) out.receiver.release();
  }
  return 0;
}
