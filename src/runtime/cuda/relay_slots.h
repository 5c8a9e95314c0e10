// What lies in slots of relayed rings, on its way between two hosts: over connections of its own, in the order
// in which the receiver is told of it (relay_link.h).
//
// Where these connections are RDMA, long messages go as a device reads and writes them, and no processor
// touches them. For that, slots lie apart from the rest of their rings:
//
//   sender's kernel ─▶ its GPU ─▶ device ─▶ network ─▶ device ─▶ receiver's GPU ─▶ its kernel
//
// Devices get at a GPU's memory by a dma-buf of it. Where they do not, a sender's slots are those of its ring,
// and a receiver's are apart in pinned memory. The receiver grants the sender a slot when it hears of the
// message. A message that is not granted is copied into the ring by the receiver's host.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <set>

#include "runtime/cuda/lanes/block.h"
#include "runtime/executor/executor.h"
#include "transport/core/connection.h"

namespace eccl::runtime::cuda {

/// Memory for slots of strips that a rank sends by to another one, or that it receives by, and no other: a
/// device that gets at some of it gets at all. Owner: the Relay, longer than any device knows it.
struct SlotsApart {
  transport::MemoryRange memory;  // as devices are told of it
  transport::Fd dmabuf;           // none: devices get at it as at the host's
  bool told = false;              // they were told of it
  bool known = false;             // one of them knows it since
};

/// Where slots are to lie, if not in their ring.
enum class SlotsPlace : uint8_t { gpu, pinned, nowhere };

/// One rank's part of a strip of a relayed ring. Memory as the host reaches it, or as devices do.
struct RelayStrip {
  lanes::AtReceiver* receiver;
  lanes::AtSender* sender;
  transport::MemoryRange memory;             // that these are in
  std::shared_ptr<SlotsApart> apart;         // null: there are none
  std::byte* slots = nullptr;                // those of `apart`
  uint64_t slotsAt = 0;                      // as kernels know them
  SlotsPlace place = SlotsPlace::nowhere;    // of these
  bool asked = false;                        // for slots apart
  bool direct = false;                       // devices get at them, and kernels may use them: they stay
  uint64_t next = lanes::kFirstMessage;      // number of the next message to be sent, or to come
  uint64_t released = lanes::kFirstMessage;  // as the receiver has said, or as it was told
};

/// One side of it. Owner: the RelayLink. Threads: the driver's. Strips stay where they are.
class RelaySlots {
 public:
  /// Two connections that nobody else uses, each from one of the ranks to the other. They outlive this.
  RelaySlots(transport::Connection& to, transport::Connection& from,
             decltype(ExecutorContext::usesMemory) uses);

  struct Message {
    RelayStrip* strip;
    uint64_t number;  // of the ring's message
    uint32_t signature, length;
    bool granted;  // it is not sent before its grant has come, and goes to a slot apart
    bool apart;    // it is in one
    uint32_t done = 0;
  };
  /// Messages are sent behind those before, or come behind them.
  void send(const Message& message) { outgoing_.push_back(message); }
  void expect(const Message& message) { coming_.push_back(message); }
  /// Goes on. True: something moved. Error (remote): what has come cannot be; (internal): a device does not get
  /// at slots any more.
  Result<bool> sendAll();
  Result<bool> receiveAll();
  bool hasUnsent() const { return !outgoing_.empty(); }

  /// Has devices know the strip's memory; a device that can has messages of it in slots apart from then on.
  /// Where it had better have such slots, or others. The connection is ready.
  std::optional<SlotsPlace> prepare(RelayStrip& strip, bool sends);
  const transport::Connection& to() const { return to_; }
  const transport::Connection& from() const { return from_; }

 private:
  static std::byte* slotOf(std::byte* slots, uint64_t number) {
    return slots + number % lanes::kSlots * uint64_t{lanes::kSlotBytes};
  }
  bool sendOne(Message& message, Status* failure);
  Status offer();
  static void deliver(const Message& message, bool placed);

  transport::Connection& to_;
  transport::Connection& from_;
  const decltype(ExecutorContext::usesMemory) uses_;
  std::set<const std::byte*> known_;  // memory of rings that devices were told of, by where it begins
  std::deque<Message> outgoing_, coming_;
  size_t considered_ = 0;      // of `coming_`, for offers
  uint64_t consideredTo_ = 0;  // messages of the connection that these take, and those before
  bool owes_ = false;          // releases of the connection, which may be held back
};

}  // namespace eccl::runtime::cuda
