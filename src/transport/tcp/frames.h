// What a TCP connection carries once it is set up. Little-endian, as it lies in memory.
#pragma once

#include <cstdint>

#include "program/slot_ring.h"

namespace eccl::transport {

enum class FrameKind : uint32_t { message = 0, poison = 1, credit = 2, end = 3, ask = 4 };

/// Sender to receiver. A message travels in one part or several, each with a frame of its own and over any of
/// the sockets. `bytes` bytes of payload follow: those from `offset` on.
struct MessageFrame {
  uint64_t sequence;  // number of the message
  uint32_t length;    // of the message
  uint32_t offset, bytes;
  uint32_t signature;
  uint16_t flags, epoch;
  FrameKind kind;  // message, poison, or ask: for a credit for all that has been released, and will be
};
static_assert(sizeof(MessageFrame) == 32);

/// Receiver to sender, over the first socket.
struct CreditFrame {
  FrameKind kind;  // credit, poison, or end: the last credit, nothing more will be taken
  uint32_t zero;
  uint64_t released;  // messages released so far; cumulative, so that several may be merged into one
};
static_assert(sizeof(CreditFrame) == 16);

/// The flags that a message keeps on the wire: those that mean something outside the sender's memory.
inline constexpr uint16_t kSlotFlags = kSlotLast;
/// On the wire alone: the sender waits for the credit, because it sends from the user's memory.
inline constexpr uint16_t kWantsCredit = 1 << 15;
/// On the wire alone: the sender keeps fewer messages on their way than there are slots, so it waits for the
/// credit as soon as there is one.
inline constexpr uint16_t kWantsCreditSoon = 1 << 14;
inline constexpr uint16_t kWireFlags = kSlotFlags | kWantsCredit | kWantsCreditSoon;

}  // namespace eccl::transport
